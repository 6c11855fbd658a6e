"""Limits, control groups, namespaces and devices as pure translation."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.runtimes.engine.containers import changed_resources
from modules.runtimes.engine.errors import BadRequestError, RequestRefusedError, WrongStateError
from modules.runtimes.oci.spec import (
    CgroupLayout,
    Machine,
    NamespacePaths,
    check_container,
    container_spec,
    updated_resources,
)
from modules.runtimes.oci.spec.machine import kernel_version
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.samples import (
    DELEGATED,
    FILES,
    ID,
    IMAGE,
    PATHS,
    ROOTLESS,
    UNIFIED,
    linux,
    request,
    translated,
)

_LEGACY = replace(
    UNIFIED, cgroup_layout=CgroupLayout.LEGACY, cgroup_controllers=frozenset(("cpu", "memory")), swap_accounting=False
)
_LIMITS = cri.LinuxContainerResources(
    memory_limit_in_bytes=1000,
    cpu_shares=512,
    cpu_quota=5000,
    cpu_period=100_000,
    cpuset_cpus="0-1",
    hugepage_limits=[cri.HugepageLimit(page_size="2MB", limit=2**64 - 1)],
)


def _resources(tmp_path: Path, limits: cri.LinuxContainerResources, machine: Machine = UNIFIED) -> dict[str, Any]:
    found: dict[str, Any] = translated(linux(resources=limits), tmp_path, machine=machine).config["linux"]["resources"]
    return {key: value for key, value in found.items() if key != "devices"}


def test_limits(tmp_path: Path) -> None:
    """Swap is limited as memory is; what the machine does not have is left out; 0 is no limit."""
    cpu = {"shares": 512, "quota": 5000, "period": 100_000, "cpus": "0-1"}
    assert _resources(tmp_path, _LIMITS) == {
        "memory": {"limit": 1000, "swap": 1000},
        "cpu": cpu,
        "hugepageLimits": [{"pageSize": "2MB", "limit": 2**63 - 1}],
    }
    assert _resources(tmp_path, _LIMITS, _LEGACY) == {"memory": {"limit": 1000}, "cpu": cpu}
    assert _resources(tmp_path, cri.LinuxContainerResources()) == {}
    for shares, bounded in ((1, 2), (1 << 20, 1 << 18)):
        assert _resources(tmp_path, cri.LinuxContainerResources(cpu_shares=shares)) == {"cpu": {"shares": bounded}}
    unified = cri.LinuxContainerResources(unified={"memory.high": "900"})
    assert _resources(tmp_path, unified) == {"unified": {"memory.high": "900"}}


def test_limits_without_root(tmp_path: Path) -> None:
    """crun would fail at a file of a controller that is not delegated."""
    memory, cpu = {"limit": 1000, "swap": 1000}, {"shares": 512, "quota": 5000, "period": 100_000}
    assert _resources(tmp_path, _LIMITS, DELEGATED) == {"memory": memory, "cpu": cpu}
    assert _resources(tmp_path, _LIMITS, replace(DELEGATED, cgroup_controllers=frozenset(("cpu",)))) == {"cpu": cpu}
    assert _resources(tmp_path, _LIMITS, ROOTLESS) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"memory_limit_in_bytes": -1},
        {"memory_limit_in_bytes": 1000, "memory_swap_limit_in_bytes": 999},
        {"cpu_shares": -1},
        {"cpu_period": 999},
        {"cpu_period": 1_000_001},
        {"cpu_quota": 999},
        {"cpu_quota": -2},
        {"cpuset_cpus": "a"},
        {"cpuset_mems": "0," * 5000},
        {"hugepage_limits": [cri.HugepageLimit(page_size="../x")]},
        {"unified": {"../memory.max": "1"}},
        {"unified": {"memory.max": ""}},
        {"unified": {f"memory.max{number}": "1" for number in range(257)}},
    ],
)
def test_limits_that_are_refused(fields: dict[str, Any]) -> None:
    """The kernel or the runtime would refuse them at the start."""
    with pytest.raises(BadRequestError):
        check_container(request(linux(resources=cri.LinuxContainerResources(**fields))), IMAGE, UNIFIED)


def test_a_container_may_have_no_swap() -> None:
    """Then both limits are equal, as the kubelet sets them."""
    limits = cri.LinuxContainerResources(memory_limit_in_bytes=1000, memory_swap_limit_in_bytes=1000)
    check_container(request(linux(resources=limits)), IMAGE, UNIFIED)


def test_unified_needs_cgroup_v2() -> None:
    """Its files are not there on others."""
    config = linux(resources=cri.LinuxContainerResources(unified={"memory.high": "900"}))
    with pytest.raises(WrongStateError, match="cgroup v2"):
        check_container(request(config), IMAGE, _LEGACY)


def test_a_change_of_limits(tmp_path: Path) -> None:
    """What it leaves out stays, swap follows memory, devices are not in it."""
    config = translated(linux(resources=_LIMITS), tmp_path).config
    change = cri.LinuxContainerResources(memory_limit_in_bytes=2000, cpu_shares=7)
    change.hugepage_limits.add(page_size="1GB", limit=5)
    assert updated_resources(config, change, UNIFIED) == {
        "memory": {"limit": 2000, "swap": 2000},
        "cpu": {"shares": 7, "quota": 5000, "period": 100_000, "cpus": "0-1"},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 2**63 - 1}, {"pageSize": "1GB", "limit": 5}],
    }
    assert config["linux"]["resources"]["memory"] == {"limit": 1000, "swap": 1000}
    with pytest.raises(BadRequestError, match="is less than"):
        updated_resources(config, cri.LinuxContainerResources(memory_swap_limit_in_bytes=999), UNIFIED)


def test_a_change_keeps_other_files_of_cgroup_v2() -> None:
    config = {"linux": {"resources": {"unified": {"memory.high": "1", "memory.low": "1"}}}}
    change = cri.LinuxContainerResources(unified={"memory.low": "2"})
    assert updated_resources(config, change, UNIFIED) == {"unified": {"memory.high": "1", "memory.low": "2"}}


def test_a_change_of_cris_limits() -> None:
    """It keeps what it leaves out, has each size of huge pages once, and its memory is a limit of swap, too."""
    before = cri.LinuxContainerResources()
    before.MergeFrom(_LIMITS)
    before.memory_swap_limit_in_bytes = 1500
    change = cri.LinuxContainerResources(memory_limit_in_bytes=2000)
    for size, limit in (("2MB", 5), ("1GB", 6)):
        change.hugepage_limits.add(page_size=size, limit=limit)
    after = changed_resources(before, change)
    assert (after.memory_limit_in_bytes, after.memory_swap_limit_in_bytes, after.cpu_shares) == (2000, 0, 512)
    assert [(each.page_size, each.limit) for each in after.hugepage_limits] == [("2MB", 5), ("1GB", 6)]
    assert changed_resources(before, cri.LinuxContainerResources(cpu_shares=2)).memory_swap_limit_in_bytes == 1500


@given(first=st.integers(1, 2**40), second=st.integers(0, 2**40), swap=st.integers(0, 2**41))
def test_changes_keep_limits_that_they_leave_out(
    tmp_path_factory: pytest.TempPathFactory, first: int, second: int, swap: int
) -> None:
    """A change, and the same change again, are one change; memory is never more than memory and swap."""
    limits = cri.LinuxContainerResources(memory_limit_in_bytes=first, cpu_quota=5000)
    config = translated(linux(resources=limits), tmp_path_factory.getbasetemp()).config
    change = cri.LinuxContainerResources(memory_limit_in_bytes=second, memory_swap_limit_in_bytes=swap)
    try:
        once = updated_resources(config, change, UNIFIED)
    except BadRequestError:
        assert 0 < swap < max(first, second)
        return
    assert once["cpu"] == {"quota": 5000}
    assert once["memory"]["limit"] == (second or first) <= once["memory"]["swap"]
    assert updated_resources({"linux": {"resources": once}}, change, UNIFIED) == once


@pytest.mark.parametrize(
    ("asked", "own", "has_right", "expected"),
    [
        (-999, 0, True, -999),
        (-999, 0, False, 0),
        (-999, -500, False, -500),
        (700, 0, False, 700),
        (5000, 0, True, 1000),
    ],
)
def test_the_oom_score(tmp_path: Path, asked: int, own: int, has_right: bool, expected: int) -> None:
    """Without CAP_SYS_RESOURCE no lower than edgecore's own: the runtime would fail."""
    capabilities = UNIFIED.capabilities if has_right else UNIFIED.capabilities - {"SYS_RESOURCE"}
    machine = replace(UNIFIED, oom_score_adj=own, capabilities=capabilities)
    config = linux(resources=cri.LinuxContainerResources(oom_score_adj=asked))
    assert translated(config, tmp_path, machine=machine).config["process"]["oomScoreAdj"] == expected
    assert "oomScoreAdj" not in translated(linux(), tmp_path, machine=machine).config["process"]


_SYSTEMD = replace(UNIFIED, systemd_cgroups=True)


@pytest.mark.parametrize(
    ("parent", "machine", "expected"),
    [
        ("/kubepods/pod1", UNIFIED, f"/kubepods/pod1/{ID}"),
        ("kubepods//pod1/", UNIFIED, f"/kubepods/pod1/{ID}"),
        ("", UNIFIED, f"/edgecore/{ID}"),
        ("/kubepods.slice/kubepods-pod1.slice", _SYSTEMD, f"kubepods-pod1.slice:edgecore:{ID}"),
        ("", _SYSTEMD, f"system.slice:edgecore:{ID}"),
    ],
)
def test_the_place_among_control_groups(tmp_path: Path, parent: str, machine: Machine, expected: str) -> None:
    """Below the pod's group; with systemd a scope in its slice."""
    asked = request()
    asked.sandbox_config.linux.cgroup_parent = parent
    spec = container_spec(asked, IMAGE, tmp_path, PATHS, FILES, machine, container_id=ID)
    assert spec.config["linux"]["cgroupsPath"] == expected


@pytest.mark.parametrize(
    ("parent", "machine"),
    [("/a/../b", UNIFIED), ("/kubepods/pod1", _SYSTEMD), ("/kubepods/a.slice.d", _SYSTEMD), ("/a\0", UNIFIED)],
)
def test_invalid_parents(parent: str, machine: Machine) -> None:
    """A path with `..`, and with systemd a name that is not a slice."""
    asked = request()
    asked.sandbox_config.linux.cgroup_parent = parent
    with pytest.raises(BadRequestError, match="the parent cgroup"):
        check_container(asked, IMAGE, machine)


def _namespaces(
    tmp_path: Path, options: cri.NamespaceOption | None, paths: NamespacePaths, machine: Machine = UNIFIED
) -> dict[str, str | None]:
    asked = request()
    if options is not None:
        asked.config.linux.security_context.namespace_options.CopyFrom(options)
    spec = container_spec(asked, IMAGE, tmp_path, paths, FILES, machine, container_id=ID).config
    return {each["type"]: each.get("path") for each in spec["linux"]["namespaces"]} | (
        {"hostname": spec["hostname"]} if "hostname" in spec else {}
    )


def test_namespaces(tmp_path: Path) -> None:
    """Joined by path, new, or the machine's; the hostname is set only where the namespace is new."""
    shared = {"network": "/ns/net", "uts": "/ns/uts", "ipc": "/ns/ipc", "mount": None, "cgroup": None}
    own = cri.NamespaceOption(pid=cri.CONTAINER)
    assert _namespaces(tmp_path, own, PATHS) == shared | {"pid": None}
    assert _namespaces(tmp_path, cri.NamespaceOption(pid=cri.POD), PATHS) == shared | {"pid": "/proc/7/ns/pid"}
    target = cri.NamespaceOption(pid=cri.TARGET, target_id="x")
    assert _namespaces(tmp_path, target, PATHS, _LEGACY)["pid"] == "/proc/7/ns/pid"
    machine = cri.NamespaceOption(network=cri.NODE, pid=cri.NODE, ipc=cri.NODE)
    assert _namespaces(tmp_path, machine, PATHS) == {"mount": None, "cgroup": None}
    assert _namespaces(tmp_path, machine, PATHS, _LEGACY) == {"mount": None}
    new = dict.fromkeys(("network", "uts", "ipc", "pid", "mount", "cgroup"))
    assert _namespaces(tmp_path, own, NamespacePaths()) == new | {"hostname": "web-host"}
    security = cri.LinuxContainerSecurityContext(privileged=True)
    privileged = translated(linux(security), tmp_path, privileged=True).config["linux"]["namespaces"]
    assert "cgroup" not in {each["type"] for each in privileged}


def _users(**options: Any) -> cri.NamespaceOption:
    mapping = [cri.IDMapping(host_id=65536, length=65536)]
    users = cri.UserNamespace(mode=cri.POD, uids=mapping, gids=mapping)
    return cri.NamespaceOption(**{"pid": cri.CONTAINER, **options}, userns_options=users)


def test_users_of_its_own(tmp_path: Path) -> None:
    """The pod's user namespace is joined; it owns the pod's other namespaces."""
    found = _namespaces(tmp_path, _users(), replace(PATHS, user=Path("/ns/user")))
    assert (found["user"], found["network"], found["pid"]) == ("/ns/user", "/ns/net", None)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, None),
        ({"network": cri.NODE}, BadRequestError),
        ({"ipc": cri.NODE}, BadRequestError),
        ({"pid": cri.NODE}, BadRequestError),
        ({"pid": cri.POD}, None),
    ],
)
def test_users_of_its_own_beside_others(options: Any, kind: type[RequestRefusedError] | None) -> None:
    """Not with namespaces of the machine, which its root could not use."""
    config = linux(cri.LinuxContainerSecurityContext(namespace_options=_users(**options)))
    asked = request(config)
    machine = replace(UNIFIED, user_namespaces=True)
    if kind is None:
        check_container(asked, IMAGE, machine)
    else:
        with pytest.raises(kind):
            check_container(asked, IMAGE, machine)


def test_a_container_without_options_follows_its_sandbox(tmp_path: Path) -> None:
    """Processes are shared if the pod has a namespace for them."""
    assert _namespaces(tmp_path, None, PATHS)["pid"] == "/proc/7/ns/pid"
    assert _namespaces(tmp_path, None, NamespacePaths())["pid"] is None
    asked = request()
    asked.sandbox_config.linux.security_context.namespace_options.network = cri.NODE
    asked.sandbox_config.linux.security_context.namespace_options.pid = cri.NODE
    paths = NamespacePaths()
    spec = container_spec(asked, IMAGE, tmp_path, paths, FILES, UNIFIED, container_id=ID)
    assert not {"network", "pid"} & {each["type"] for each in spec.config["linux"]["namespaces"]}
    assert "hostname" not in spec.config, "it would be the machine's"


@pytest.mark.parametrize(("pid", "whose"), [(cri.POD, "the pod"), (cri.TARGET, "the target container")])
def test_a_process_namespace_that_is_gone(tmp_path: Path, pid: "cri.NamespaceMode.ValueType", whose: str) -> None:
    """A new one would hide the processes that were to be seen."""
    with pytest.raises(WrongStateError, match=f"the process namespace of {whose} is gone"):
        _namespaces(tmp_path, cri.NamespaceOption(pid=pid, target_id="x"), NamespacePaths())


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (cri.NamespaceOption(network=cri.CONTAINER), BadRequestError),
        (cri.NamespaceOption(ipc=cri.TARGET), BadRequestError),
        (cri.NamespaceOption(pid=cri.TARGET), BadRequestError),
        (cri.NamespaceOption(pid=9), BadRequestError),  # type: ignore[arg-type]
        (cri.NamespaceOption(userns_options=cri.UserNamespace(mode=cri.CONTAINER)), BadRequestError),
        (cri.NamespaceOption(userns_options=cri.UserNamespace(mode=cri.POD)), BadRequestError),
        (
            cri.NamespaceOption(
                userns_options=cri.UserNamespace(
                    mode=cri.POD,
                    uids=[cri.IDMapping(container_id=1, host_id=1000, length=9)],
                    gids=[cri.IDMapping(host_id=1000, length=9)],
                )
            ),
            BadRequestError,
        ),
        (
            cri.NamespaceOption(
                userns_options=cri.UserNamespace(
                    mode=cri.POD,
                    uids=[cri.IDMapping(host_id=1000, length=9)],
                    gids=[cri.IDMapping(host_id=1000, length=9)],
                )
            ),
            WrongStateError,
        ),
    ],
)
def test_namespaces_that_are_refused(options: cri.NamespaceOption, kind: type[RequestRefusedError]) -> None:
    """Modes that CRI does not define, and user namespaces."""
    config = linux(cri.LinuxContainerSecurityContext(namespace_options=options))
    with pytest.raises(kind):
        check_container(request(config), IMAGE, UNIFIED)


@pytest.mark.parametrize(
    "device",
    [
        cri.Device(container_path="/dev/x", host_path="/no/such"),
        cri.Device(container_path="/dev/x", host_path="/proc/cpuinfo"),
        cri.Device(container_path="/dev/x", host_path="/proc/self/fdinfo"),
        cri.Device(container_path="dev/x", host_path="/dev/null"),
        cri.Device(container_path="/dev/x", host_path="/dev/null", permissions="rx"),
        cri.Device(container_path="/dev/x", host_path="/dev/null", permissions="rr"),
    ],
)
def test_devices_that_are_refused(device: cri.Device) -> None:
    """Missing, no device, not absolute, wrong permissions."""
    with pytest.raises(BadRequestError):
        check_container(request(linux(devices=[device])), IMAGE, UNIFIED)


def test_a_device(tmp_path: Path) -> None:
    """As it is on the machine, under its name in the container, permitted as asked."""
    device = cri.Device(container_path="/dev/nothing", host_path="/dev/null", permissions="r")
    found = translated(linux(devices=[device]), tmp_path).config["linux"]
    info = Path("/dev/null").stat()
    assert found["devices"] == [
        {
            "path": "/dev/nothing",
            "type": "c",
            "major": os.major(info.st_rdev),
            "minor": os.minor(info.st_rdev),
            "fileMode": info.st_mode & 0o7777,
            "uid": info.st_uid,
            "gid": info.st_gid,
        }
    ]
    allow = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "r"}
    assert found["resources"]["devices"] == [{"allow": False, "access": "rwm"}, allow]


@pytest.mark.parametrize(
    ("release", "expected"), [("6.1.0-13-amd64", (6, 1)), ("5.10", (5, 10)), ("x", (0, 0)), ("6.18.44-fc", (6, 18))]
)
def test_versions_of_kernels(release: str, expected: tuple[int, int]) -> None:
    """The first two numbers."""
    assert kernel_version(release) == expected


def test_this_machine() -> None:
    """It can be read, and says of itself what /proc does."""
    machine = Machine.read()
    assert machine.capabilities <= machine.known_capabilities
    assert machine.kernel >= (3, 0)
    assert machine.architecture == os.uname().machine
