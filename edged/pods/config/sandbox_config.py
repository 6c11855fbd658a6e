"""The CRI's configuration of a pod's sandbox (kubelet's generatePodSandboxConfig)."""

from fractions import Fraction

from msgspec import Struct

from edged.errors import ConfigError
from edged.pods.config.dns import ClusterDns, ResolvConf, dns_config, pod_dns
from edged.pods.config.resources import HostResources, cpu_quota, cpu_shares
from edged.pods.config.security import sandbox_security
from edged.pods.labels import ref_of, sandbox_annotations, sandbox_labels
from edged.pods.paths import PodPaths
from modules.apimachinery.pods.demand import Amounts, pod_sum, requests_without_overhead
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import ContainerPort, Pod, parse_quantity
from protos.cri.v1 import api_pb2 as cri

_LONGEST_HOSTNAME = 63
_LONGEST_FQDN = 64
_PROTOCOLS = {"": cri.TCP, "TCP": cri.TCP, "UDP": cri.UDP, "SCTP": cri.SCTP}


class SandboxContext(Struct, frozen=True):
    """Input of a sandbox's configuration beside the pod. `cgroup_parent` is the pod's own cgroup."""

    attempt: int
    paths: PodPaths
    host_dns: ResolvConf = ResolvConf()
    cluster_dns: ClusterDns = ClusterDns()
    cgroup_parent: str = ""
    machine: HostResources = HostResources(memory=0)
    users: cri.UserNamespace | None = None
    """The pod's own, if it has any."""


def sum_resources(pod: Pod, machine: HostResources) -> cri.LinuxContainerResources | None:
    """Return the resources of all containers together; None when they request nothing.

    Runtimes that run the sandbox as a virtual machine choose its size by them (kubelet's calculateSandboxResources and
    convertOverheadToLinuxResources). Others (runc) ignore them: there the pod's cgroup limits the pod.
    """
    requests = requests_without_overhead(pod)
    limits = pod_sum(pod, lambda resources: resources.limits)
    return _resources(requests, limits, machine) if requests else None


def overhead_resources(pod: Pod, machine: HostResources) -> cri.LinuxContainerResources | None:
    """Return the sandbox's own overhead; None without one."""
    overhead = {name: parse_quantity(quantity) for name, quantity in pod.spec.overhead.items()}
    return _resources(overhead, overhead, machine) if overhead else None


def _resources(requests: Amounts, limits: Amounts, machine: HostResources) -> cri.LinuxContainerResources:
    resources = cri.LinuxContainerResources(
        cpu_shares=cpu_shares(_milli(requests)), memory_limit_in_bytes=_whole(limits.get("memory", Fraction(0)))
    )
    quota = cpu_quota(_milli(limits), machine.cfs_period)
    if machine.cfs_quota and quota:
        resources.cpu_period, resources.cpu_quota = machine.cfs_period, quota
    return resources


def _milli(amounts: Amounts) -> int:
    return _whole(amounts.get("cpu", Fraction(0)) * 1000)


def _whole(amount: Fraction) -> int:
    return -(-amount // 1)


def sandbox_config(pod: Pod, context: SandboxContext) -> cri.PodSandboxConfig:
    """Return the sandbox's configuration. Raises ConfigError for settings that this node cannot apply."""
    meta = pod.metadata
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, attempt=context.attempt
        ),
        hostname=sandbox_hostname(pod, context.cluster_dns.domain),
        log_directory=str(context.paths.pod_logs(ref_of(pod))),
        dns_config=dns_config(pod_dns(pod, context.host_dns, context.cluster_dns)),
        port_mappings=port_mappings(pod),
        labels=sandbox_labels(pod),
        annotations=sandbox_annotations(pod),
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=context.cgroup_parent,
            security_context=sandbox_security(pod, context.users),
            sysctls=_sysctls(pod),
            overhead=overhead_resources(pod, context.machine),
            resources=sum_resources(pod, context.machine),
        ),
    )


def runtime_handler(pod: Pod) -> str:
    """Return the pod's runtime handler; empty for the default one.

    A kubelet reads it from the RuntimeClass object. No KubeEdge cloud sends these to a node, so the class is taken for
    a handler of the same name, and the runtime refuses an unknown one.
    """
    return pod.spec.runtime_class_name or ""


def hostname_of(pod: Pod) -> str:
    """Return the pod's short host name: its own or the pod's name, cut to 63 characters without a final `-` or `.`."""
    return (pod.spec.hostname or pod.metadata.name)[:_LONGEST_HOSTNAME].rstrip("-.")


def domain_of(pod: Pod, cluster_domain: str) -> str:
    """Return the domain of a pod with a subdomain, `<subdomain>.<namespace>.svc.<cluster domain>`; "" without one."""
    if not pod.spec.subdomain:
        return ""
    return ".".join(filter(None, (pod.spec.subdomain, pod.metadata.namespace, "svc", cluster_domain)))


def sandbox_hostname(pod: Pod, cluster_domain: str) -> str:
    """Return the sandbox's host name; empty on the host's network, whose name cannot change for one pod."""
    if pod.spec.host_network:
        return ""
    name, domain = hostname_of(pod), domain_of(pod, cluster_domain)
    if not (pod.spec.set_hostname_as_fqdn and domain):
        return name
    full = f"{name}.{domain}"
    if len(full) > _LONGEST_FQDN:
        raise ConfigError("cannot set the host name", full, f"the kernel takes {_LONGEST_FQDN} characters")
    return full


def port_mappings(pod: Pod) -> list[cri.PortMapping]:
    """Return the ports of all regular containers and sidecars; none on the host's network."""
    if pod.spec.host_network:
        return []
    staying = [c for c in pod.spec.init_containers if is_sidecar(c)] + list(pod.spec.containers)
    return [_port(port) for container in staying for port in container.ports]


def _port(port: ContainerPort) -> cri.PortMapping:
    if port.protocol not in _PROTOCOLS:
        raise ConfigError("cannot map the protocol", repr(port.protocol), "TCP, UDP or SCTP")
    return cri.PortMapping(
        protocol=_PROTOCOLS[port.protocol],
        container_port=port.container_port,
        host_port=port.host_port,
        host_ip=port.host_ip,
    )


def _sysctls(pod: Pod) -> dict[str, str]:
    """Return the kernel parameters with dots, as the runtime expects them."""
    if pod.spec.security_context is None:
        return {}
    return {sysctl.name.replace("/", "."): sysctl.value for sysctl in pod.spec.security_context.sysctls}
