"""The rules of pods and of pod templates (Kubernetes' ValidatePodSpec), and their part for nodes."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from modules.apimachinery.validation.causes import Causes, duplicate, forbidden, invalid, not_found, required
from modules.apimachinery.validation.containers import container, ephemeral_container, image_of_pod, init_container
from modules.apimachinery.validation.labels import affinity, labels, toleration, topology_spread_constraints
from modules.apimachinery.validation.names import faults_of_label, faults_of_label_key, faults_of_subdomain
from modules.apimachinery.validation.resources import (
    amounts,
    amounts_of_resources,
    container_requirements,
    pod_requirements,
)
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    address,
    between,
    named,
    needed,
    on_nodes,
    one_of,
    only_on_nodes,
    or_zero,
    pointer,
    table_for_nodes,
    unique,
)
from modules.apimachinery.validation.security import namespaces_of_node, pod_security_context
from modules.apimachinery.validation.volumes import volumes

_LARGEST_INT32: Final = 2**31 - 1
_LARGEST_INT64: Final = 2**63 - 1
_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCHES: Final = 2048
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")

_int64 = between(-_LARGEST_INT64, _LARGEST_INT64)
_subdomain, _label, _key = map(named, (faults_of_subdomain, faults_of_label, faults_of_label_key))


def _containers_of(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the containers of a pod with the name of their list and their path."""
    for field in _LISTS:
        for index, each in enumerate(spec.get(field) or ()):
            yield field, each, f"{path}.{field}[{index}]"


def _unique_containers(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    seen = set[str]()
    for _, each, where in _containers_of(spec, path):
        name = each.get("name") or ""
        if name and name in seen:
            found.append(duplicate(f"{where}.name", name))
        seen.add(name)


def _unique_volumes(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    unique("name")(spec.get("volumes") or (), f"{path}.volumes", found)


def _mounted_volumes(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that containers mount volumes which the pod has without a fault, and as what these are."""
    wrong = {cause.field.removeprefix(f"{path}.volumes[").partition("]")[0] for cause in found}
    known = {
        volume.get("name") or "": volume
        for index, volume in enumerate(spec.get("volumes") or ())
        if str(index) not in wrong
    }
    for _, each, where in _containers_of(spec, path):
        for index, mount in enumerate(each.get("volumeMounts") or ()):
            volume = known.get(mount.get("name") or "")
            if volume is None:
                found.append(not_found(f"{where}.volumeMounts[{index}].name", mount.get("name") or ""))
        for index, device in enumerate(each.get("volumeDevices") or ()):
            at, volume = f"{where}.volumeDevices[{index}].name", known.get(device.get("name") or "")
            if volume is None:
                found.append(not_found(at, device.get("name") or ""))
            elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
                why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
                found.append(invalid(at, device.get("name"), why))


def _unmasked(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that only containers in a user namespace see the whole of /proc: in it are the node's own parameters."""
    if spec.get("hostUsers") is False:
        return
    for _, each, where in _containers_of(spec, path):
        if (mount := (each.get("securityContext") or {}).get("procMount")) == "Unmasked":
            why = "`hostUsers` must be false to use `Unmasked`"
            found.append(invalid(f"{where}.securityContext.procMount", mount, why))


def _contexts(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the containers' mount propagation and sleep hooks."""
    grace = spec.get("terminationGracePeriodSeconds")
    for _, each, where in _containers_of(spec, path):
        context = each.get("securityContext") or {}
        if not context.get("privileged"):
            for mount in each.get("volumeMounts") or ():
                if mount.get("mountPropagation") == "Bidirectional":
                    why = "Bidirectional mount propagation is available only to privileged containers"
                    found.append(forbidden(f"{where}.volumeMounts.mountPropagation", why))
        for hook in ("postStart", "preStop"):
            _sleep((each.get("lifecycle") or {}).get(hook) or {}, f"{where}.lifecycle.{hook}", grace, found)


def _sleep(hook: Mapping[str, Any], path: str, grace: Any, found: Causes) -> None:
    seconds = (hook.get("sleep") or {}).get("seconds", 0)
    if hook.get("sleep") is not None and grace is not None and not 0 < seconds <= grace:
        of = f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace})"
        why = f"{of}. Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        found.append(invalid(f"{path}.sleep", seconds, why))


def _host_ports(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check that a port of the node is asked for once, and with the node's network under its own number. A template may
    leave it out: the pod gets it (validatePodHostNetworkDeps, since Kubernetes 1.28).
    """
    seen = set[str]()
    for field, each, where in _containers_of(spec, path):
        if field != "containers":
            continue
        for index, port in enumerate(each.get("ports") or ()):
            at, number = f"{where}.ports[{index}].hostPort", port.get("hostPort") or 0
            if number and spec.get("hostNetwork") and number != port.get("containerPort"):
                found.append(invalid(at, number, "must match `containerPort` when `hostNetwork` is true"))
            key = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{number}"
            if number and key in seen:
                found.append(duplicate(at, key))
            seen.add(key)


def _user_namespace(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    if spec.get("hostUsers") is False:
        for name, told in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                found.append(forbidden(f"{path}.{told}", "when `pod.Spec.HostUsers` is false"))


def _dns(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        if spec.get("dnsConfig") is None:
            found.append(required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        found.append(required(f"{path}.dnsConfig.nameservers", why))


def _target(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    names = {each.get("name") for field in _LISTS[:2] for each in spec.get(field) or ()}
    for index, each in enumerate(spec.get("ephemeralContainers") or ()):
        target = each.get("targetContainerName")
        if target and target not in names:
            found.append(not_found(f"{path}.ephemeralContainers[{index}].targetContainerName", target))


def _servers(value: Any, path: str, found: Causes) -> None:
    if len(value) > _MOST_SERVERS:
        found.append(invalid(path, value, f"must not have more than {_MOST_SERVERS} nameservers"))
    Each(address)(value, path, found)


def _searches(value: Any, path: str, found: Causes) -> None:
    if len(value) > _MOST_SEARCHES:
        found.append(invalid(path, value, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(value)) > _LONGEST_SEARCHES:
        why = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        found.append(invalid(path, value, why))
    for index, search in enumerate(value):
        _subdomain(search.removesuffix("."), f"{path}[{index}]", found)


def _option(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if not value.get("name"):
        found.append(required(path, "must not be empty"))


def _gates(value: Any, path: str, found: Causes) -> None:
    seen = set[str]()
    for index, gate in enumerate(value):
        name = gate.get("name") or ""
        _key(name, f"{path}[{index}]", found)
        if name in seen:
            found.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def _operating_system(value: Mapping[str, Any], path: str, found: Causes) -> None:
    name = value.get("name") or ""
    if not name:
        found.append(required(f"{path}.name", "cannot be empty"))
    else:
        one_of("linux", "windows")(name, path, found)


def _overhead(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the overhead of a pod, which API servers take for the limits of a container."""
    container_requirements({"limits": value}, path, found)


pod_spec = Fields(
    {
        "terminationGracePeriodSeconds": on_nodes(pointer(_int64)),
        "volumes": volumes,
        "containers": on_nodes(needed(Each(container))),
        "initContainers": Each(init_container),
        "ephemeralContainers": Each(ephemeral_container),
        "resources": pod_requirements,
        "restartPolicy": on_nodes(or_zero(one_of("Always", "OnFailure", "Never"), "Always")),
        "dnsPolicy": or_zero(one_of(*DNS_POLICIES), "ClusterFirst"),
        "nodeSelector": labels,
        "securityContext": pod_security_context,
        "affinity": affinity,
        "dnsConfig": Fields({"nameservers": _servers, "searches": _searches, "options": Each(_option)}),
        "readinessGates": Each(Fields({"conditionType": or_zero(_key, "")})),
        "schedulingGates": _gates,
        "topologySpreadConstraints": topology_spread_constraints,
        "serviceAccountName": _subdomain,
        "nodeName": _subdomain,
        "activeDeadlineSeconds": on_nodes(pointer(between(1, _LARGEST_INT32))),
        "hostname": _label,
        "subdomain": _label,
        "tolerations": Each(toleration),
        "hostAliases": Each(Fields({"ip": or_zero(address, ""), "hostnames": Each(_subdomain)})),
        "priorityClassName": _subdomain,
        "priority": only_on_nodes(pointer(between(-(2**31), _LARGEST_INT32))),
        "runtimeClassName": pointer(_subdomain),
        "preemptionPolicy": pointer(one_of("PreemptLowerPriority", "Never")),
        "overhead": on_nodes(_overhead, amounts),
        "os": pointer(_operating_system),
    },
    on_nodes(_unique_volumes),
    on_nodes(_unique_containers),
    only_on_nodes(amounts_of_resources),
    on_nodes(_unmasked),
    _mounted_volumes,
    _contexts,
    _host_ports,
    _user_namespace,
    namespaces_of_node,
    _dns,
    _target,
)


_IMAGES: Final = Each(Fields({"image": image_of_pod}))
_IMAGE_VOLUME: Final = Fields({"reference": needed()})
only_of_pods = Fields(
    {"containers": _IMAGES, "initContainers": _IMAGES, "volumes": Each(Fields({"image": _IMAGE_VOLUME}))}
)
"""The rules that a pod's spec has beside those of a template's (validateContainersOnlyForPod, ResourceIsPod)."""


@cache
def rules_on_nodes() -> Fields:
    """Return the rules that edged applies to a pod: what could not run, or would change the node.

    A pod that Kubernetes 1.28 to 1.33 admits breaks none of them.
    """
    metadata = Fields({"deletionGracePeriodSeconds": on_nodes(pointer(_int64))})
    return table_for_nodes(Fields({"metadata": metadata, "spec": pod_spec}))
