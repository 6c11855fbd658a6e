"""Pods and containers in Docker's words."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from modules.runtimes.docker.answers import ImageSettings, nanoseconds
from modules.runtimes.docker.driver import check_apart
from modules.runtimes.docker.labels import KIND, OWNER, SANDBOX_ID, container_name
from modules.runtimes.docker.specs import (
    Body,
    DockerImageDefaults,
    Here,
    LogLimits,
    check,
    container_body,
    limits,
    sandbox_body,
)
from modules.runtimes.engine.errors import BadRequestError, NotProvidedError, StateDirectoryError, WrongStateError
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import FILES, UNIFIED, linux, request

HERE = Here("/var/lib/edged/docker", UNIFIED, (1, 41), LogLimits(1024, 2))
NEWER = HERE._replace(version=(1, 44))
SHELL = DockerImageDefaults(ImageSettings(cmd=("sh",)))
HOLDER = f"container:{'5' * 64}"


def body_of(config: cri.ContainerConfig, here: Here = HERE) -> Body:
    """The body for a container of an ordinary pod."""
    return container_body(request(config), "sha256:1", FILES, here)


def test_a_plain_container() -> None:
    """It joins its sandbox, has its names and labels, keeps its output as a file, and is never restarted by Docker."""
    config = cri.ContainerConfig(
        command=["/bin/app"],
        args=["-v"],
        envs=[cri.KeyValue(key="A", value=b"b=c")],
        labels={"app": "x"},
        annotations={"note": "y"},
        stdin=True,
    )
    asked = request(config)
    body = container_body(asked, "sha256:1", FILES, HERE)
    host = body["HostConfig"]
    assert (body["Entrypoint"], body["Cmd"], body["Env"], body["Image"]) == (
        ["/bin/app"],
        ["-v"],
        ["A=b=c"],
        "sha256:1",
    )
    assert (body["OpenStdin"], body["Tty"], body["Healthcheck"]) == (True, False, {"Test": ["NONE"]})
    assert body["Labels"] == {
        "app": "x",
        "annotation.note": "y",
        OWNER: "/var/lib/edged/docker",
        KIND: "container",
        SANDBOX_ID: "5" * 64,
    }
    assert (host["NetworkMode"], host["IpcMode"], "UTSMode" in host, "PidMode" in host) == (
        HOLDER,
        HOLDER,
        False,
        False,
    )
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "1024", "max-file": "2"}}
    assert (host["RestartPolicy"], host["CgroupParent"]) == ({"Name": "no"}, "/kubepods/podu-1")
    assert [(each["Target"], each["Source"]) for each in host["Mounts"]] == [
        ("/etc/hostname", "/sb/hostname"),
        ("/etc/hosts", "/sb/hosts"),
        ("/etc/resolv.conf", "/sb/resolv.conf"),
    ]
    assert container_name(asked) == "k8s_main_web_shop_u-1_0"


def test_the_parent_among_control_groups() -> None:
    """With systemd it is the name of a slice, as Docker wants it."""
    asked = request()
    asked.sandbox_config.linux.cgroup_parent = "/kubepods.slice/kubepods-podu1.slice"
    here = HERE._replace(machine=replace(UNIFIED, systemd_cgroups=True))
    assert container_body(asked, "sha256:1", FILES, here)["HostConfig"]["CgroupParent"] == "kubepods-podu1.slice"
    assert sandbox_body(asked.sandbox_config, here)["HostConfig"]["CgroupParent"] == "kubepods-podu1.slice"


def _options(kind: int, target: str = "") -> cri.ContainerConfig:
    config = linux()
    config.linux.security_context.namespace_options.pid = kind  # type: ignore[assignment]
    config.linux.security_context.namespace_options.target_id = target
    return config


@pytest.mark.parametrize(
    ("kind", "target", "mode"),
    [
        (cri.POD, "", HOLDER),
        (cri.CONTAINER, "", None),
        (cri.NODE, "", "host"),
        (cri.TARGET, "a" * 64, f"container:{'a' * 64}"),
    ],
)
def test_processes(kind: int, target: str, mode: str | None) -> None:
    """A container sees its own processes, its pod's, a target's, or the machine's."""
    assert body_of(_options(kind, target))["HostConfig"].get("PidMode") == mode


def test_a_pod_of_the_machine() -> None:
    """With the network and ipc of the machine neither the holder nor containers have their own, nor a hostname."""
    asked = request()
    for options in (
        asked.sandbox_config.linux.security_context.namespace_options,
        asked.config.linux.security_context.namespace_options,
    ):
        options.network = options.ipc = cri.NODE
    host = container_body(asked, "sha256:1", FILES, HERE)["HostConfig"]
    assert (host["NetworkMode"], host["IpcMode"], host["UTSMode"]) == ("host", "host", "host")
    holder = sandbox_body(asked.sandbox_config, HERE)
    host = holder["HostConfig"]
    assert (host["NetworkMode"], host["IpcMode"], host["UTSMode"], "Hostname" in holder) == (
        "host",
        "host",
        "host",
        False,
    )


def test_network_and_ipc_are_the_pods() -> None:
    """Whatever a container says of its own, as with containerd."""
    asked = request()
    options = asked.config.linux.security_context.namespace_options
    options.network = options.ipc = cri.NODE
    host = container_body(asked, "sha256:1", FILES, HERE)["HostConfig"]
    assert (host["NetworkMode"], host["IpcMode"], "UTSMode" in host) == (HOLDER, HOLDER, False)


def test_the_holder_of_a_sandbox() -> None:
    """It has no rights and no network of Docker's; parameters of the pod's interface are left to the network."""
    config = request().sandbox_config
    config.linux.sysctls.update({"net.core.somaxconn": "9", "net.ipv4.conf.eth0.forwarding": "1"})
    body = sandbox_body(config, HERE)
    host = body["HostConfig"]
    assert (body["Hostname"], body["Labels"][KIND]) == ("web-host", "podsandbox")
    assert (host["NetworkMode"], host["IpcMode"], host["CapDrop"], host["ReadonlyRootfs"]) == (
        "none",
        "shareable",
        ["ALL"],
        True,
    )
    assert host["Sysctls"] == {"net.core.somaxconn": "9"}
    assert (body["User"], host["SecurityOpt"]) == ("65534:65534", ["no-new-privileges"])


@pytest.mark.parametrize("volumes", [[f"/v/{number}" for number in range(101)], ["/"], ["/../x"]])
def test_volumes_of_an_image_that_docker_should_not_make(volumes: list[str]) -> None:
    """Docker would make five thousand directories at each start of a container."""
    image = DockerImageDefaults(ImageSettings(cmd=("sh",), volumes=dict.fromkeys(volumes)))
    with pytest.raises(BadRequestError, match="volume"):
        check(request(), image, HERE)


def test_rights(tmp_path: Path) -> None:
    """Users, groups, capabilities, masks and profiles are what CRI says; no seccomp field means none."""
    profile = tmp_path / "profile.json"
    profile.write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    security = cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"]),
        run_as_user=cri.Int64Value(value=7),
        run_as_group=cri.Int64Value(value=8),
        supplemental_groups=[9],
        masked_paths=["/proc/keys"],
        no_new_privs=True,
        readonly_rootfs=True,
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=str(profile)),
    )
    body = body_of(linux(security))
    host = body["HostConfig"]
    assert (body["User"], host["GroupAdd"], host["CapAdd"], host["CapDrop"]) == ("7:8", ["9"], ["NET_ADMIN"], ["ALL"])
    assert (host["MaskedPaths"], host["ReadonlyPaths"], host["ReadonlyRootfs"]) == (["/proc/keys"], [], True)
    assert host["SecurityOpt"] == ["no-new-privileges", 'seccomp={"defaultAction": "SCMP_ACT_ALLOW"}']
    assert all(each["ReadOnly"] for each in host["Mounts"])
    assert body_of(linux())["HostConfig"]["SecurityOpt"] == ["seccomp=unconfined"]
    security.seccomp.profile_type = cri.SecurityProfile.RuntimeDefault
    assert body_of(linux(security))["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    security.seccomp.profile_type = cri.SecurityProfile.Localhost
    for text in (b"{", b"[]", b"\xff"):
        profile.write_bytes(text)
        with pytest.raises(BadRequestError, match="is no JSON"):
            body_of(linux(security))
    profile.unlink()
    with pytest.raises(WrongStateError, match="cannot be read"):
        body_of(linux(security))


def test_the_old_field_of_a_seccomp_profile_counts_too(tmp_path: Path) -> None:
    """Clients of an older CRI know no other, and a container has no filter only if it asks for none."""
    profile = tmp_path / "profile.json"
    profile.write_text("{}")
    wanted = {"runtime/default": [], f"localhost/{profile}": ["seccomp={}"], "unconfined": ["seccomp=unconfined"]}
    for path, options in wanted.items():
        security = cri.LinuxContainerSecurityContext(seccomp_profile_path=path)
        assert body_of(linux(security))["HostConfig"]["SecurityOpt"] == options


def test_all_rights_where_some_are_missing() -> None:
    """Docker can start no container with more than edgecore has: ALL and privileged are all that there are."""
    lacking = HERE._replace(machine=replace(UNIFIED, capabilities=frozenset(("CHOWN", "NET_ADMIN", "BPF"))))
    security = cri.LinuxContainerSecurityContext(capabilities=cri.Capability(add_capabilities=["ALL"]))
    assert body_of(linux(security))["HostConfig"]["CapAdd"] == ["ALL"]
    assert body_of(linux(security), lacking)["HostConfig"]["CapAdd"] == ["CHOWN", "NET_ADMIN"]
    security = cri.LinuxContainerSecurityContext(privileged=True, masked_paths=["/proc/keys"])
    host = body_of(linux(security))["HostConfig"]
    assert (host["Privileged"], "MaskedPaths" in host, host["SecurityOpt"]) == (True, False, ["seccomp=unconfined"])
    security.seccomp.profile_type = cri.SecurityProfile.RuntimeDefault
    host = body_of(linux(security), lacking)["HostConfig"]
    assert host["SecurityOpt"] == ["seccomp=unconfined"], "as the kubelet has it"
    assert (host["Privileged"], host["MaskedPaths"], host["CapAdd"]) == (False, [], ["CHOWN", "NET_ADMIN"])


def test_limits() -> None:
    """A memory limit also limits swap; missing limits are left out."""
    resources = cri.LinuxContainerResources(
        memory_limit_in_bytes=1 << 20, cpu_shares=5, cpu_quota=20_000, cpu_period=50_000
    )
    assert limits(resources, UNIFIED) == {
        "Memory": 1 << 20,
        "MemorySwap": 1 << 20,
        "CpuShares": 5,
        "CpuQuota": 20_000,
        "CpuPeriod": 50_000,
    }


def test_a_file_of_the_pods_own_is_mounted_once_however_its_path_ends() -> None:
    mount = cri.Mount(container_path="/etc/hosts/", host_path="/own", readonly=True)
    for here, keys in ((HERE, []), (NEWER, ["ReadOnlyNonRecursive"])):
        mounts = body_of(cri.ContainerConfig(mounts=[mount]), here)["HostConfig"]["Mounts"]
        assert [each["Target"] for each in mounts] == ["/etc/hostname", "/etc/resolv.conf", "/etc/hosts/"]
        assert sorted(mounts[-1]["BindOptions"].keys() - {"Propagation"}) == keys
    writable = cri.ContainerConfig(mounts=[cri.Mount(container_path="/a", host_path="/own")])
    assert list(body_of(writable, NEWER)["HostConfig"]["Mounts"][-1]["BindOptions"]) == ["Propagation"]


def test_a_group_without_a_user_names_no_user() -> None:
    """Docker would take an empty name for root."""
    config = cri.ContainerConfig()
    config.linux.security_context.run_as_group.value = 1000
    assert body_of(config)["User"] == ""


def test_mounts() -> None:
    """Volumes have their propagation, replace the sandbox's files, and state whether read-only is recursive if Docker
    supports it.
    """
    config = cri.ContainerConfig(
        mounts=[
            cri.Mount(container_path="/etc/hosts", host_path="/pods/hosts"),
            cri.Mount(
                container_path="/d", host_path="/v:1", readonly=True, propagation=cri.PROPAGATION_HOST_TO_CONTAINER
            ),
        ]
    )
    mounts = {each["Target"]: each for each in body_of(config)["HostConfig"]["Mounts"]}
    assert mounts["/etc/hosts"]["Source"] == "/pods/hosts"
    assert (mounts["/d"]["Source"], mounts["/d"]["ReadOnly"]) == ("/v:1", True)
    assert mounts["/d"]["BindOptions"] == {"Propagation": "rslave"}
    newer = {each["Target"]: each for each in body_of(config, NEWER)["HostConfig"]["Mounts"]}
    assert newer["/d"]["BindOptions"] == {"Propagation": "rslave", "ReadOnlyNonRecursive": True}


def _strict(config: cri.ContainerConfig) -> None:
    config.linux.security_context.supplemental_groups_policy = cri.Strict


def _recursive(config: cri.ContainerConfig) -> None:
    config.mounts.add(container_path="/a", host_path="/tmp", readonly=True, recursive_read_only=True)


def _image(config: cri.ContainerConfig) -> None:
    config.mounts.add(container_path="/a", readonly=True, image=cri.ImageSpec(image="x"))


def _mount_options(config: cri.ContainerConfig) -> None:
    config.mounts.add(container_path="/a", host_path="/tmp", mount_options=["nosuid"])


def _unified(config: cri.ContainerConfig) -> None:
    config.linux.resources.unified["memory.high"] = "1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_strict, "Strict"),
        (_recursive, "recursively"),
        (_image, "image as a volume"),
        (_mount_options, "options of a mount"),
        (_unified, "unified"),
    ],
)
def test_what_docker_cannot_do_is_refused(change: Callable[[cri.ContainerConfig], None], said: str) -> None:
    """It is refused when the container is created, instead of being ignored."""
    config = linux()
    check(request(config), SHELL, HERE)
    change(config)
    with pytest.raises(NotProvidedError, match=said):
        check(request(config), SHELL, HERE)
    if change is _recursive:
        check(request(config), SHELL, NEWER)


@pytest.mark.parametrize("by_annotation", [False, True])
def test_devices_by_name_are_refused(tmp_path: Path, *, by_annotation: bool) -> None:
    """Also if a device plugin names them in an annotation; a file describes the device."""
    (tmp_path / "a.json").write_text('{"kind": "vendor.com/gpu", "devices": [{"name": "0"}]}')
    config = linux()
    if by_annotation:
        config.annotations["cdi.k8s.io/plugin_gpu"] = "vendor.com/gpu=0"
    else:
        config.CDI_devices.add(name="vendor.com/gpu=0")
    with pytest.raises(NotProvidedError, match="devices by CDI"):
        check(request(config), SHELL, HERE._replace(machine=replace(UNIFIED, cdi_directories=(tmp_path,))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.000000002Z", 1_000_000_002),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:01:00Z", 60_000_000_000),
        ("0001-01-01T00:00:00Z", 0),
        ("", 0),
        ("2026-99-99T00:00:00Z", 0),
        ("1969-12-31T23:59:59Z", 0),
        ("2026-11-20T00:00:00.12xZ", 0),
    ],
)
def test_times(text: str, expected: int) -> None:
    """Docker writes a varying number of digits; its zero time stands for no time. What is no time counts as that."""
    assert nanoseconds(text) == expected


@pytest.mark.parametrize("root", ["docker", "docker/edged", "."])
def test_records_in_dockers_own_directory_are_refused(tmp_path: Path, root: str) -> None:
    """A reset of the runtime would remove Docker's."""
    with pytest.raises(StateDirectoryError, match="set rootDirectory to another directory"):
        check_apart(tmp_path / root, tmp_path / "docker")
    check_apart(tmp_path / "edged" / "docker", tmp_path / "docker")
    (tmp_path / "docker").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "docker")
    with pytest.raises(StateDirectoryError):
        check_apart(tmp_path / "link", tmp_path / "docker")
