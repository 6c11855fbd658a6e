"""A pod becomes the CRI configurations that a kubelet would send."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from edged.cri.channel import MAX_MESSAGE_BYTES
from edged.errors import ConfigError, RunAsRootError
from edged.pods.config.container_config import ContainerContext, container_config
from edged.pods.config.device_options import DeviceMount, DeviceNode, DeviceRunContainerOptions
from edged.pods.config.dns import ClusterDns, ResolvConf
from edged.pods.config.resources import HostResources
from edged.pods.config.sandbox_config import SandboxContext, runtime_handler, sandbox_config
from edged.pods.config.security import ImageUser, container_security
from edged.pods.hash import container_hash, kubelet_hash
from edged.pods.paths import PodPaths
from modules.apimachinery.types import (
    AppArmorProfile,
    Capabilities,
    Container,
    ContainerPort,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    PodSecurityContext,
    ResourceRequirements,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
    Sysctl,
    VolumeDevice,
)
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import UID, a_container, a_pod

PATHS = PodPaths(Path("/var/lib/kubelet"))
SECCOMP = PurePosixPath("/seccomp")


def made(container: Container, pod: Pod | None = None, **context: Any) -> cri.ContainerConfig:
    given: dict[str, Any] = {
        "image": "sha256:a1",
        "attempt": 2,
        "environment": {},
        "mounts": [],
        "machine": HostResources(2**30),
    }
    return container_config(pod or a_pod(container), container, ContainerContext(**(given | context)))


def secured(own: SecurityContext | None = None, **pod: Any) -> cri.LinuxContainerSecurityContext:
    container = a_container(security_context=own)
    return container_security(a_pod(container, **pod), container, ImageUser(), SECCOMP)


def sandboxed(containers: tuple[Container, ...] = (), **spec: Any) -> cri.PodSandboxConfig:
    context = SandboxContext(1, PATHS, ResolvConf(("1.1.1.1",)), ClusterDns((), "cluster.local"), "/pods/x")
    return sandbox_config(a_pod(*containers, **spec), context)


def test_container_is_described_completely() -> None:
    """Names, image, command with its variables, environment, log file and identity are all there."""
    container = a_container(command=("sh", "-c$(A)"), args=("echo $(A) $(B)",), working_dir="/w", tty=True, stdin=True)
    config = made(container, environment={"A": "1", "RAW": "\udcff"})
    assert (config.metadata.name, config.metadata.attempt) == ("bb", 2)
    assert (config.image.image, config.image.user_specified_image) == ("sha256:a1", "busybox:1.35")
    assert (list(config.command), list(config.args)) == (["sh", "-c1"], ["echo 1 $(B)"])
    assert [(e.key, e.value) for e in config.envs] == [("A", b"1"), ("RAW", b"\xff")]
    assert (config.log_path, config.working_dir, config.tty, config.stdin) == ("bb/2.log", "/w", True, True)
    assert dict(config.labels) == {
        "io.kubernetes.pod.name": "bb1",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": UID,
        "io.kubernetes.container.name": "bb",
    }


def test_annotations_hold_the_needs_of_an_orphan() -> None:
    """Hash, number, messages, hooks, ports and grace periods are kept with the container."""
    container = a_container(
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
        ports=(ContainerPort(container_port=80, protocol="TCP"),),
        lifecycle=Lifecycle(pre_stop=LifecycleHandler(exec=ExecAction(command=("true",)))),
    )
    pod = a_pod(container, termination_grace_period_seconds=2)
    assert dict(made(container, pod).annotations) == {
        "io.kubernetes.container.hash": kubelet_hash(container),
        "edgecore.io/definition-hash": container_hash(container),
        "io.kubernetes.container.restartCount": "2",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.container.ports": '[{"containerPort":80,"protocol":"TCP"}]',
        "io.kubernetes.container.preStopHandler": '{"exec":{"command":["true"]}}',
        "io.kubernetes.pod.terminationGracePeriod": "2",
    }


def test_settings_for_devices_come_first_and_the_pods_own_win() -> None:
    """Mounts, device files, annotations and names of CDI devices (kubelet's DeviceRunContainerOptions)."""
    needs = DeviceRunContainerOptions(
        mounts=(DeviceMount("/lib/x", "/usr/lib/x", read_only=True),),
        nodes=(DeviceNode("/dev/x", "/dev/x0", "rwm"),),
        annotations={"vendor/x": "1", "io.kubernetes.container.restartCount": "99"},
        cdi_devices=("vendor.com/x=0",),
    )
    config = made(a_container(), devices=needs, mounts=[cri.Mount(container_path="/own")])
    assert [(m.container_path, m.host_path, m.readonly) for m in config.mounts] == [
        ("/lib/x", "/usr/lib/x", True),
        ("/own", "", False),
    ]
    assert [(d.container_path, d.host_path, d.permissions) for d in config.devices] == [("/dev/x", "/dev/x0", "rwm")]
    assert [device.name for device in config.CDI_devices] == ["vendor.com/x=0"]
    assert config.annotations["vendor/x"] == "1"
    assert config.annotations["io.kubernetes.container.restartCount"] == "2"


def test_stop_signal_is_passed_on() -> None:
    """A signal by name, real-time ones included; an unknown one is refused."""

    def config(name: str) -> cri.ContainerConfig:
        return made(a_container(lifecycle=Lifecycle(stop_signal=name)))

    assert config("SIGUSR1").stop_signal == cri.SIGNAL_SIGUSR1
    assert config("SIGRTMIN+1").stop_signal == cri.SIGNAL_SIGRTMINPLUS1
    with pytest.raises(ConfigError, match="stop signal"):
        config("SIGNOPE")


@pytest.mark.parametrize(
    ("container", "spec", "message"),
    [
        (a_container(volume_devices=(VolumeDevice(name="v"),)), {}, "volumeDevices"),
        (a_container(), {"host_users": False}, "hostUsers"),
        (a_container(security_context=SecurityContext(seccomp_profile=SeccompProfile(type="X"))), {}, "seccomp"),
    ],
)
def test_unsupported_fields_are_refused(container: Container, spec: dict[str, Any], message: str) -> None:
    """Nothing that the pod asks for is silently left out."""
    with pytest.raises(ConfigError, match=message):
        made(container, a_pod(container, **spec))


def test_users_of_its_own() -> None:
    """Sandbox and container have the pod's users, and volumes belong to them; an image's files do anyway."""
    mapping = [cri.IDMapping(host_id=65536, length=65536)]
    users = cri.UserNamespace(mode=cri.POD, uids=mapping, gids=mapping)
    pod = a_pod(host_users=False)
    mounts = [cri.Mount(container_path="/a", host_path="/b"), cri.Mount(image=cri.ImageSpec(image="i"))]
    container = made(a_container(), pod, users=users, mounts=mounts)
    sandbox = sandbox_config(pod, SandboxContext(0, PodPaths(Path("/r")), users=users))
    for security in (container.linux.security_context, sandbox.linux.security_context):
        assert security.namespace_options.userns_options == users
    assert [list(each.uidMappings) for each in container.mounts] == [mapping, []]
    assert [list(each.gidMappings) for each in container.mounts] == [mapping, []]
    assert [(each.container_path, each.host_path) for each in container.mounts] == [("/a", "/b"), ("", "")]


def test_the_runtime_class_is_the_runtimes_handler() -> None:
    """A pod that wants another runtime does not get the default one: the runtime is asked for it by name."""
    assert runtime_handler(a_pod(runtime_class_name="kata")) == "kata"
    assert runtime_handler(a_pod()) == ""


def test_the_runtime_can_answer_with_all_pods_at_once() -> None:
    """However long their annotations, labels, ports and hooks are: without the answer the node would manage no pod."""
    ports = tuple(ContainerPort(container_port=number) for number in range(1, 20_000))
    hook = Lifecycle(pre_stop=LifecycleHandler(exec=ExecAction(("x" * 100_000,))))
    container = a_container(ports=ports, lifecycle=hook)
    annotations = {"first": "kept", "applied": "x" * 200_000} | {f"a{number}": "x" * 1000 for number in range(60)}
    labels = {f"{number}.example/{'x' * 60}": "y" * 63 for number in range(4000)} | {"app": "web"}
    meta = {"annotations": annotations, "labels": labels}
    pod = a_pod(container, meta=meta)
    config = sandboxed((container,), meta=meta)
    assert config.annotations["first"] == "kept"
    assert config.labels["app"] == "web"
    assert config.labels["io.kubernetes.pod.uid"] == UID
    sandbox = cri.PodSandbox(
        id="f" * 64, metadata=config.metadata, labels=config.labels, annotations=config.annotations
    )
    assert cri.ListPodSandboxResponse(items=[sandbox] * 250).ByteSize() < MAX_MESSAGE_BYTES
    one = made(container, pod)
    listed = cri.Container(id="f" * 64, metadata=one.metadata, labels=one.labels, annotations=one.annotations)
    assert cri.ListContainersResponse(containers=[listed] * 2500).ByteSize() < MAX_MESSAGE_BYTES


def test_a_sandbox_gets_its_pods_size() -> None:
    """What its containers need in sum, and what the class costs beside them; of a pod that asks for nothing nothing."""
    resources = ResourceRequirements(limits={"cpu": "500m", "memory": "64Mi"})
    linux = sandboxed(
        containers=(a_container("a", resources=resources), a_container("b", resources=resources)),
        overhead={"cpu": "250m", "memory": "8Mi"},
    ).linux
    assert (linux.resources.cpu_shares, linux.resources.cpu_quota) == (1024, 100_000)
    assert linux.resources.memory_limit_in_bytes == 128 * 2**20
    assert (linux.overhead.cpu_shares, linux.overhead.cpu_quota, linux.overhead.cpu_period) == (256, 25_000, 100_000)
    assert linux.overhead.memory_limit_in_bytes == 8 * 2**20
    asked = sandboxed(containers=(a_container(resources=ResourceRequirements(requests={"memory": "1Mi"})),)).linux
    assert (asked.resources.cpu_shares, asked.resources.cpu_quota, asked.resources.cpu_period) == (2, 0, 0)
    assert asked.resources.memory_limit_in_bytes == 0
    assert not sandboxed().linux.HasField("resources")
    assert not sandboxed().linux.HasField("overhead")


@pytest.mark.parametrize(
    ("own", "shared", "image", "user", "name"),
    [
        (None, None, ImageUser(), None, ""),
        (None, None, ImageUser(uid=65534), 65534, ""),
        (None, None, ImageUser(name="nobody"), None, "nobody"),
        (None, 7, ImageUser(uid=65534), 7, ""),
        (0, 7, ImageUser(name="nobody"), 0, ""),
    ],
)
def test_user_comes_from_container_then_pod_then_image(
    own: int | None, shared: int | None, image: ImageUser, user: int | None, name: str
) -> None:
    """The nearest setting wins; zero is a setting."""
    container = a_container(security_context=SecurityContext(run_as_user=own))
    pod = a_pod(container, security_context=PodSecurityContext(run_as_user=shared))
    security = container_security(pod, container, image, SECCOMP)
    assert (security.run_as_user.value if security.HasField("run_as_user") else None) == user
    assert security.run_as_username == name


@pytest.mark.parametrize(
    ("own", "image", "allowed"),
    [
        (SecurityContext(run_as_non_root=True, run_as_user=1), ImageUser(), True),
        (SecurityContext(run_as_non_root=True, run_as_user=0), ImageUser(uid=5), False),
        (SecurityContext(run_as_non_root=True), ImageUser(uid=5), True),
        (SecurityContext(run_as_non_root=True), ImageUser(uid=0), False),
        (SecurityContext(run_as_non_root=True), ImageUser(), False),
        (SecurityContext(run_as_non_root=True), ImageUser(name="nobody"), False),
        (SecurityContext(run_as_non_root=False), ImageUser(), True),
        (SecurityContext(), ImageUser(), False),
    ],
)
def test_run_as_non_root(own: SecurityContext, image: ImageUser, *, allowed: bool) -> None:
    """A container that would be root is refused where the container or else the pod forbids it."""
    container = a_container(security_context=own)
    pod = a_pod(container, security_context=PodSecurityContext(run_as_non_root=True))
    if allowed:
        made(container, pod, image_user=image)
    else:
        with pytest.raises(RunAsRootError, match="bb of bb1_default") as refused:
            made(container, pod, image_user=image)
        assert ("non-numeric" in str(refused.value)) == bool(image.name)


def test_security_settings_are_passed_on() -> None:
    """Privileges, capabilities, file system, labels and profiles reach the runtime."""
    security = secured(
        SecurityContext(
            capabilities=Capabilities(add=("NET_ADMIN",), drop=("ALL",)),
            privileged=True,
            read_only_root_filesystem=True,
            allow_privilege_escalation=False,
            se_linux_options=SELinuxOptions(level="s0"),
            seccomp_profile=SeccompProfile(type="Localhost", localhost_profile="p/x.json"),
            app_armor_profile=AppArmorProfile(type="Localhost", localhost_profile="strict"),
        ),
        security_context=PodSecurityContext(fs_group=5, supplemental_groups=(4, 5), run_as_group=3),
    )
    assert list(security.capabilities.add_capabilities) == ["NET_ADMIN"]
    assert list(security.capabilities.drop_capabilities) == ["ALL"]
    assert (security.privileged, security.readonly_rootfs, security.no_new_privs) == (True, True, True)
    assert (security.selinux_options.level, security.seccomp.localhost_ref) == ("s0", "/seccomp/p/x.json")
    assert security.apparmor_profile == "localhost/strict"
    localhost = cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref="strict")
    assert security.apparmor == localhost
    assert (list(security.supplemental_groups), security.run_as_group.value) == ([4, 5], 3)


@pytest.mark.parametrize(
    ("kind", "expected", "older"),
    [
        ("RuntimeDefault", cri.SecurityProfile.RuntimeDefault, "runtime/default"),
        ("Unconfined", cri.SecurityProfile.Unconfined, "unconfined"),
    ],
)
def test_apparmor_profiles_reach_runtimes_of_any_age(
    kind: str, expected: cri.SecurityProfile.ProfileType.ValueType, older: str
) -> None:
    own = secured(SecurityContext(app_armor_profile=AppArmorProfile(type=kind)))
    shared = secured(security_context=PodSecurityContext(app_armor_profile=AppArmorProfile(type=kind)))
    for security in (own, shared):
        assert (security.apparmor.profile_type, security.apparmor.localhost_ref) == (expected, "")
        assert security.apparmor_profile == older


@pytest.mark.parametrize(
    ("own", "noted", "shared", "expected"),
    [
        (None, "localhost/x", None, "localhost/x"),
        (None, "unconfined", "RuntimeDefault", "unconfined"),
        ("RuntimeDefault", "unconfined", None, "runtime/default"),
        (None, "runtime/default", "Unconfined", "runtime/default"),
        (None, "nonsense", "Unconfined", "unconfined"),
        (None, "nonsense", None, ""),
    ],
)
def test_an_apparmor_annotation_precedes_the_profile_of_the_pod(
    own: str | None, noted: str, shared: str | None, expected: str
) -> None:
    profiles = [AppArmorProfile(type=kind) if kind else None for kind in (own, shared)]
    security = secured(
        SecurityContext(app_armor_profile=profiles[0]),
        security_context=PodSecurityContext(app_armor_profile=profiles[1]),
        meta={"annotations": {"container.apparmor.security.beta.kubernetes.io/bb": noted}},
    )
    assert (security.apparmor_profile, security.HasField("apparmor")) == (expected, bool(expected))


@pytest.mark.parametrize("profile", [None, ""])
def test_an_apparmor_profile_of_the_node_needs_a_name(profile: str | None) -> None:
    with pytest.raises(ConfigError, match="AppArmor profile"):
        secured(SecurityContext(app_armor_profile=AppArmorProfile(type="Localhost", localhost_profile=profile)))


@pytest.mark.parametrize(("policy", "expected"), [("Strict", cri.Strict), ("Merge", cri.Merge), ("", cri.Merge)])
def test_the_policy_of_groups_is_of_containers_and_sandbox(
    policy: str, expected: cri.SupplementalGroupsPolicy.ValueType
) -> None:
    shared = PodSecurityContext(supplemental_groups_policy=policy or None)
    assert secured(security_context=shared).supplemental_groups_policy == expected
    assert sandboxed(security_context=shared).linux.security_context.supplemental_groups_policy == expected


def test_the_sandbox_has_the_pods_user_group_and_label() -> None:
    shared = PodSecurityContext(run_as_user=0, run_as_group=7, se_linux_options=SELinuxOptions(level="s0"))
    security = sandboxed(security_context=shared).linux.security_context
    assert (security.HasField("run_as_user"), security.run_as_user.value, security.run_as_group.value) == (True, 0, 7)
    assert security.selinux_options.level == "s0"
    plain = sandboxed(security_context=PodSecurityContext()).linux.security_context
    assert not (plain.HasField("run_as_user") or plain.HasField("run_as_group"))


def test_masked_paths_of_the_machine_are_masked_too() -> None:
    """Beside the paths of every machine; not for a container that may see all of /proc."""
    machine = HostResources(memory=2**30, masked_paths=("/sys/devices/system/cpu/cpu0/thermal_throttle",))
    masked = made(a_container(), machine=machine).linux.security_context.masked_paths
    assert masked[-1] == "/sys/devices/system/cpu/cpu0/thermal_throttle"
    assert "/proc/interrupts" in masked
    seen = a_container(security_context=SecurityContext(proc_mount="Unmasked"))
    assert not made(seen, machine=machine).linux.security_context.masked_paths


def test_defaults_are_kubernetes_own() -> None:
    """Without settings: unconfined seccomp, masked /proc, escalation allowed, own PID namespace."""
    security = secured()
    assert security.seccomp.profile_type == cri.SecurityProfile.Unconfined
    assert {"/proc/kcore", "/proc/interrupts"} <= set(security.masked_paths)
    assert security.no_new_privs is False
    assert security.namespace_options.pid == cri.CONTAINER
    assert not secured(SecurityContext(proc_mount="Unmasked")).masked_paths


@pytest.mark.parametrize(
    ("own", "shared", "kind"),
    [
        (None, None, cri.SecurityProfile.RuntimeDefault),
        (None, "Unconfined", cri.SecurityProfile.Unconfined),
        ("Unconfined", "RuntimeDefault", cri.SecurityProfile.Unconfined),
    ],
)
def test_the_nodes_default_seccomp_profile(own: str | None, shared: str | None, kind: int) -> None:
    """seccompDefault counts for containers without a profile."""
    profile = None if own is None else SeccompProfile(type=own)
    container = a_container(security_context=SecurityContext(seccomp_profile=profile))
    whole = PodSecurityContext(seccomp_profile=None if shared is None else SeccompProfile(type=shared))
    security = made(container, a_pod(container, security_context=whole), seccomp_default=True).linux.security_context
    assert security.seccomp.profile_type == kind


@pytest.mark.parametrize("profile", ["/etc/x", "../x", ""])
def test_seccomp_profile_stays_in_its_directory(profile: str) -> None:
    """A profile's path cannot leave the directory of profiles."""
    with pytest.raises(ConfigError, match="seccomp"):
        secured(SecurityContext(seccomp_profile=SeccompProfile(type="Localhost", localhost_profile=profile)))


def test_sandbox_is_described_completely() -> None:
    """Identity, host name, logs, labels, cgroup and kernel parameters are there."""
    config = sandboxed(
        meta={"labels": {"app": "x", "io.kubernetes.pod.uid": "forged"}, "annotations": {"n": "v"}},
        security_context=PodSecurityContext(sysctls=(Sysctl(name="net/core/somaxconn", value="1"),)),
    )
    assert (config.metadata.name, config.metadata.attempt, config.hostname) == ("bb1", 1, "bb1")
    assert config.log_directory == f"/var/log/pods/default_bb1_{UID}"
    assert config.labels["app"] == "x"
    assert config.labels["io.kubernetes.pod.uid"] == UID
    assert (dict(config.annotations), list(config.dns_config.servers)) == ({"n": "v"}, ["1.1.1.1"])
    assert (config.linux.cgroup_parent, dict(config.linux.sysctls)) == ("/pods/x", {"net.core.somaxconn": "1"})


@pytest.mark.parametrize(
    ("spec", "hostname"),
    [
        ({"hostname": "web"}, "web"),
        ({"hostname": "x" * 62 + "-tail"}, "x" * 62),
        ({"host_network": True}, ""),
        ({"subdomain": "sub"}, "bb1"),
        ({"subdomain": "sub", "set_hostname_as_fqdn": True}, "bb1.sub.default.svc.cluster.local"),
        ({"set_hostname_as_fqdn": True}, "bb1"),
    ],
)
def test_host_name(spec: dict[str, Any], hostname: str) -> None:
    """Own name or the pod's, at most 63 characters, none on the host's network."""
    assert sandboxed(**spec).hostname == hostname


def test_too_long_fqdn_is_refused() -> None:
    """The kernel takes 64 characters."""
    with pytest.raises(ConfigError, match="64"):
        sandboxed(subdomain="s" * 40, set_hostname_as_fqdn=True)
    rest = len("bb1..default.svc.cluster.local")
    assert len(sandboxed(subdomain="s" * (64 - rest), set_hostname_as_fqdn=True).hostname) == 64
    with pytest.raises(ConfigError, match="64"):
        sandboxed(subdomain="s" * (65 - rest), set_hostname_as_fqdn=True)


def test_ports_are_mapped_outside_the_hosts_network() -> None:
    """Ports of all containers that stay, sidecars included; none on the host's network."""
    port = ContainerPort(container_port=80, host_port=8080, protocol="UDP", host_ip="127.0.0.1")
    spec: dict[str, Any] = {
        "init": (
            a_container("side", restart_policy="Always", ports=(ContainerPort(container_port=1),)),
            a_container("init", ports=(ContainerPort(container_port=2),)),
        )
    }
    context = SandboxContext(0, PATHS)
    mapped = sandbox_config(a_pod(a_container(ports=(port,)), **spec), context).port_mappings
    assert [(p.protocol, p.container_port, p.host_port, p.host_ip) for p in mapped] == [
        (cri.TCP, 1, 0, ""),
        (cri.UDP, 80, 8080, "127.0.0.1"),
    ]
    assert not sandbox_config(a_pod(a_container(ports=(port,)), host_network=True), context).port_mappings


def test_namespaces_of_the_sandbox() -> None:
    """The host's where the pod asks for it, a shared PID namespace where it wants one."""
    options = sandboxed(host_network=True, host_ipc=True, host_pid=True).linux.security_context.namespace_options
    assert (options.network, options.ipc, options.pid) == (cri.NODE, cri.NODE, cri.NODE)
    shared = sandboxed(share_process_namespace=True).linux.security_context.namespace_options
    assert (shared.network, shared.ipc, shared.pid) == (cri.POD, cri.POD, cri.POD)


def test_privileged_container_makes_a_privileged_sandbox() -> None:
    """The sandbox must allow what one of its containers needs."""
    pod = a_pod(a_container("a"), a_container("b", security_context=SecurityContext(privileged=True)))
    assert sandbox_config(pod, SandboxContext(0, PATHS)).linux.security_context.privileged
