"""Control groups are made, set and removed: in made-up trees, and in this machine's own where that may be done."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from edged.cgroups import tree as tree_module
from edged.cgroups.errors import CgroupBusyError, CgroupError
from edged.cgroups.hierarchies import Hierarchy, read_hierarchies, with_unified_controllers
from edged.cgroups.names import CgroupPath
from edged.cgroups.opening import machine_hierarchies, open_cgroups
from edged.cgroups.resource_config import NodeCapacity, ResourceConfig
from edged.cgroups.tree import CgroupFiles, _all_below
from edged.settings.cgroups import CgroupDriver, CgroupSettings, Reservation
from tests.support.directories import mark
from tests.support.leftovers import remove_cgroups
from tests.support.patience import PATIENCE

POD = CgroupPath("/kubepods/burstable/podx")
NODE = NodeCapacity(2, 2**30)

HYBRID = """\
24 21 0:22 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/my\\040memory rw,nosuid shared:10 - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
33 24 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:12 - cgroup2 cgroup2 rw,nsdelegate
34 24 0:27 / /mnt/again rw,nosuid - cgroup cgroup rw,memory
35 24 0:30 / /proc rw - proc proc rw
"""


def test_hierarchies_are_found_wherever_they_are_mounted() -> None:
    """Each once, blanks in a path and all."""
    assert read_hierarchies(HYBRID) == [
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), ("cpu", "cpuacct")),
        Hierarchy(Path("/sys/fs/cgroup/my memory"), ("memory",)),
        Hierarchy(Path("/sys/fs/cgroup/systemd"), ("name=systemd",)),
        Hierarchy(Path("/sys/fs/cgroup/unified"), unified=True),
    ]


def test_what_is_mounted_over_a_hierarchy_counts() -> None:
    """A node without root sees the group that is delegated to it; /proc names the groups in it from the top."""
    over = "36 33 0:29 /user.slice/e\\040x.scope /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    found = read_hierarchies(HYBRID + over)[-1]
    assert found == Hierarchy(Path("/sys/fs/cgroup/unified"), unified=True, root="/user.slice/e x.scope")
    assert found.shown("/user.slice/e x.scope/kubepods/podx") == "/kubepods/podx"
    assert found.shown("/user.slice/e x.scopes/podx") == "/user.slice/e x.scopes/podx"
    assert Hierarchy(Path("/sys/fs/cgroup")).shown("/kubepods/podx") == "/kubepods/podx"


def test_lines_that_are_cut_off_are_no_hierarchies() -> None:
    assert read_hierarchies("24 21 0:22 / - cgroup2 a b\n24 21 0:22 / /a rw - cgroup2 a\n24 - cgroup\n") == []


@pytest.mark.parametrize("name", [b"a\xff", "a\u2028b".encode(), b"a\x0bb"])
def test_the_name_of_another_mount_point_keeps_no_hierarchy_from_being_found(tmp_path: Path, name: bytes) -> None:
    """It need not be UTF-8, and only a line feed ends a line there."""
    file = tmp_path / "mountinfo"
    file.write_bytes(b"40 24 8:1 / /mnt/" + name + b" rw - vfat /dev/sdb1 rw\n" + HYBRID.encode())
    assert [each.mount for each in machine_hierarchies(file)] == [each.mount for each in read_hierarchies(HYBRID)]


def test_the_unified_controllers_come_from_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    places = (tmp_path, tmp_path / "none", tmp_path / "cgroup.controllers")
    found = with_unified_controllers(Hierarchy(each, unified=True) for each in places)
    assert [each.controllers for each in found] == [("cpu", "memory"), (), ()]


def unified(root: Path, *files: str) -> CgroupFiles:
    """A made-up cgroup v2 with the pod's cgroup and these files."""
    directory = root
    for part in ("", *POD.strip("/").split("/")):
        directory = directory / part
        directory.mkdir(exist_ok=True)
        (directory / "cgroup.subtree_control").write_text("cpu")
    for file in files:
        (directory / file).write_text("")
    return CgroupFiles([Hierarchy(root, ("cpu", "memory", "pids", "io"), unified=True)])


def test_a_unified_cgroups_controllers_are_handed_down(tmp_path: Path) -> None:
    """Every cgroup above the pod's gets the missing controllers that edged needs."""
    unified(tmp_path).make(POD)
    for above in ("", "kubepods", "kubepods/burstable"):
        text = (tmp_path / above / "cgroup.subtree_control").read_text()
        assert text.startswith("+pids")  # the last requested one: a real file would list them all
    assert (tmp_path / "kubepods/burstable/podx/cgroup.subtree_control").read_text() == "cpu"


def test_a_unified_cgroup_whose_parent_was_just_made_has_its_controllers(tmp_path: Path) -> None:
    tree = unified(tmp_path)
    tree.make(CgroupPath("/kubepods"))
    tree.make(CgroupPath("/kubepods/burstable"))
    assert (tmp_path / "kubepods/cgroup.subtree_control").read_text().startswith("+pids")


def test_a_unified_cgroup_is_set(tmp_path: Path) -> None:
    """Limits without a controller are skipped."""
    tree = unified(tmp_path, "cpu.weight", "cpu.max", "memory.max", "pids.max")
    tree.set(POD, ResourceConfig(1024, 50_000, 100_000, 4096, 10, {"2MB": 0}))
    files = {file: (tmp_path / POD.strip("/") / file).read_text() for file in ("cpu.weight", "cpu.max", "memory.max")}
    assert files == {"cpu.weight": "39", "cpu.max": "50000 100000", "memory.max": "4096"}


def test_a_limit_that_cannot_be_set_does_not_prevent_the_others(tmp_path: Path) -> None:
    tree = unified(tmp_path, "cpu.weight", "pids.max")
    with pytest.raises(CgroupError, match=r"memory\.max"):
        tree.set(POD, ResourceConfig(cpu_shares=2, memory=4096, pids=7))
    assert (tmp_path / POD.strip("/") / "pids.max").read_text() == "7"


@pytest.fixture
def real() -> Iterator[tuple[CgroupFiles, CgroupPath]]:
    """This machine's cgroups, and the path of a cgroup that the test removes."""
    hierarchies = with_unified_controllers(read_hierarchies(Path("/proc/self/mountinfo").read_text()))
    top = CgroupPath(f"/edgecore-test-{mark()}-{os.getpid()}")
    tree = CgroupFiles(hierarchies)
    try:
        tree.make(top)
    except CgroupError as error:
        pytest.skip(f"no cgroups can be made here: {error}")
    yield tree, top
    assert remove_cgroups(top) == []


def directories(path: str) -> list[Path]:
    """Where a cgroup is, in each hierarchy."""
    found = with_unified_controllers(read_hierarchies(Path("/proc/self/mountinfo").read_text()))
    return [path for path in (each.mount / path.strip("/") for each in found) if path.is_dir()]


def test_a_real_cgroup_is_made_set_and_removed(real: tuple[CgroupFiles, CgroupPath]) -> None:
    """The kernel takes all that a pod may be limited to, lifts it again, and gives no error twice."""
    tree, top = real
    pod = CgroupPath(f"{top}/burstable/pod1")
    tree.make(pod)
    tree.make(pod)
    tree.set(pod, ResourceConfig(512, 50_000, 100_000, 64 * 2**20, 20, {}))
    said = {file.name: file.read_text().strip() for each in directories(pod) for file in each.glob("*.m[ae]*")}
    assert said["pids.max"] == "20"
    limit = [d / name for d in directories(pod) for name in ("memory.limit_in_bytes", "memory.max")]
    assert [file.read_text().strip() for file in limit if file.exists()] == [str(64 * 2**20)]
    tree.set(pod, ResourceConfig(2, -1, 100_000, -1, -1, {}))
    assert all(file.read_text().strip() != str(64 * 2**20) for file in limit if file.exists())
    tree.remove(CgroupPath(f"{top}/burstable"))
    tree.remove(CgroupPath(f"{top}/burstable"))
    assert directories(f"{top}/burstable") == []


def test_processes_in_a_cgroup_are_killed_before_its_removal(real: tuple[CgroupFiles, CgroupPath]) -> None:
    """As kubelet does with a pod's cgroup."""
    tree, top = real
    pod = CgroupPath(f"{top}/pod1")
    tree.make(pod)
    with subprocess.Popen(["sleep", "600"]) as process:
        for directory in directories(pod):
            (directory / "cgroup.procs").write_text(str(process.pid))
        with pytest.raises(CgroupBusyError):
            tree.remove(pod)
        assert process.wait(PATIENCE) == -9
    tree.remove(pod)
    assert directories(pod) == []


def test_neither_a_process_that_has_just_ended_nor_one_of_another_namespace_is_a_hindrance(tmp_path: Path) -> None:
    """The kernel shows 0 for a process that this namespace cannot see; killing 0 would end the agent's own group."""
    (tmp_path / "pod1").mkdir()
    (tmp_path / "pod1" / "cgroup.procs").write_text("0\n123\n")
    gone = Mock(side_effect=ProcessLookupError)
    with patch("os.kill", gone), pytest.raises(CgroupBusyError):
        unified(tmp_path).remove(CgroupPath("/pod1"))
    gone.assert_called_once_with(123, signal.SIGKILL)


def test_a_node_without_cgroups_goes_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line gives the reason: none are mounted, they cannot be written, systemd is missing, or they are switched
    off.
    """
    none, foreign = tmp_path / "none", tmp_path / "foreign"
    none.write_text("35 24 0:30 / /proc rw - proc proc rw\n")
    foreign.write_text("33 24 0:29 / /proc/self rw - cgroup cgroup rw,cpu\n")
    wanted = CgroupSettings()
    for settings, mounts, reason in (
        (wanted, none, "no mounted cgroup"),
        (wanted, tmp_path / "missing", "No such file"),
        (wanted, foreign, "cannot make the cgroup"),
        (CgroupSettings(driver=CgroupDriver.SYSTEMD), foreign, "systemd does not run"),
        (CgroupSettings(per_qos=False), foreign, "cgroupsPerQOS is false"),
    ):
        caplog.clear()
        with caplog.at_level("INFO"):
            assert open_cgroups(settings, NODE, mounts, tmp_path / "no-systemd") is None
        assert [reason in record.message for record in caplog.records] == [True]


def test_a_node_gets_its_cgroups_with_their_limits(real: tuple[CgroupFiles, CgroupPath]) -> None:
    """The cgroups of all pods and of the two classes, below the configured root."""
    assert open_cgroups(CgroupSettings(root=f"{real[1]}/edge"), NodeCapacity(2, 2**30)) is not None
    pods = directories(f"{real[1]}/edge/kubepods")
    memory = [d / name for d in pods for name in ("memory.limit_in_bytes", "memory.max") if (d / name).exists()]
    assert [file.read_text().strip() for file in memory] == [str(2**30)]
    weights = [d / "cpu.shares" for d in directories(f"{real[1]}/edge/kubepods/besteffort")]
    weights += [d / "cpu.weight" for d in directories(f"{real[1]}/edge/kubepods/besteffort")]
    assert [file.read_text().strip() for file in weights if file.exists()] in (["2"], ["1"])


def test_controllers_that_others_have_taken_away_are_handed_down_again(tmp_path: Path) -> None:
    """systemd does so at a reload. It is noticed by a limit that cannot be set."""
    tree = unified(tmp_path)
    tree.make(POD)
    above = tmp_path / "kubepods" / "cgroup.subtree_control"
    above.write_text("cpu")
    with pytest.raises(CgroupError):
        tree.set(POD, ResourceConfig(memory=4096))
    tree.make(POD)
    assert above.read_text().startswith("+pids")


def test_a_cgroup_is_made_where_pods_are_limited_and_removed_everywhere(tmp_path: Path) -> None:
    """Runtimes make the others, and leave the pod's behind."""
    mounts = [tmp_path / name for name in ("cpu", "memory", "systemd")]
    controllers: list[tuple[str, ...]] = [("cpu", "cpuacct"), ("memory",), ("name=systemd",)]
    for mount in mounts:
        mount.mkdir()
    tree = CgroupFiles([Hierarchy(mount, each) for mount, each in zip(mounts, controllers, strict=True)])
    tree.make(POD)
    assert [(mount / POD.strip("/")).is_dir() for mount in mounts] == [True, True, False]
    (mounts[2] / POD.strip("/") / "container").mkdir(parents=True)
    tree.remove(POD)
    assert [(mount / POD.strip("/")).exists() for mount in mounts] == [False, False, False]


def test_the_cgroups_below_a_pods_are_listed_once_where_all_hierarchies_have_the_same(tmp_path: Path) -> None:
    """A container may have made further ones in one of them."""
    mounts = [tmp_path / name for name in ("cpu", "memory", "pids", "systemd")]
    tree = CgroupFiles([Hierarchy(mount, (mount.name,)) for mount in mounts])
    for further in ("", "own/deep"):
        for mount in mounts:
            (mount / POD.strip("/") / "container").mkdir(parents=True)
        (mounts[2] / POD.strip("/") / further).mkdir(parents=True, exist_ok=True)
        with patch("edged.cgroups.tree._all_below", wraps=_all_below) as listed:
            tree.remove(POD)
        assert listed.call_count == (3 if further else 1)
        assert not any((mount / POD.strip("/")).exists() for mount in mounts)


def test_the_processes_of_all_containers_in_all_hierarchies_are_killed(tmp_path: Path) -> None:
    """A container may have moved some in one hierarchy only."""
    for mount, process in (("memory", 12), ("pids", 13)):
        inner = tmp_path / mount / "pod1" / "container" / "own"
        inner.mkdir(parents=True)
        (inner / "cgroup.procs").write_text(f"{process}\n")
    tree = CgroupFiles([Hierarchy(tmp_path / "memory", ("memory",)), Hierarchy(tmp_path / "pids", ("pids",))])
    with patch("os.kill") as kill, pytest.raises(CgroupBusyError):
        tree.remove(CgroupPath("/pod1"))
    assert [call.args for call in kill.call_args_list] == [(12, signal.SIGKILL), (13, signal.SIGKILL)]


@pytest.mark.parametrize(("is_unified", "end"), [(True, "max"), (False, "limit_in_bytes")])
def test_a_pod_gets_no_huge_pages_of_the_sizes_that_it_does_not_ask_for(
    tmp_path: Path, is_unified: bool, end: str
) -> None:
    """Their reservations (`rsvd`) stay as they are."""
    directory = tmp_path / POD.strip("/")
    tree = CgroupFiles([Hierarchy(tmp_path, ("hugetlb",), unified=is_unified)])
    with pytest.raises(CgroupError):
        tree.set(POD, ResourceConfig(huge_pages={"2MB": 4096}))  # there is no cgroup yet
    directory.mkdir(parents=True)
    files = [directory / f"hugetlb.{each}.{end}" for each in ("1GB", "2MB", "2MB.rsvd")]
    for file in files:
        file.write_text("-")
    tree.set(POD, ResourceConfig(huge_pages={"2MB": 4096}))
    assert [file.read_text() for file in files] == ["0", "4096", "-"]


def test_a_container_that_ends_during_the_removal_of_its_cgroup_is_no_hindrance(tmp_path: Path) -> None:
    """The kernel removes nothing by itself, but its runtime does."""
    directory = tmp_path / "pod1"
    (directory / "container").mkdir(parents=True)
    rmdir = os.rmdir

    def by_the_runtime(path: str) -> None:
        if path.endswith("container"):
            rmdir(path)
        rmdir(path)

    with patch("os.rmdir", by_the_runtime):
        CgroupFiles([Hierarchy(tmp_path, ("pids",))]).remove(CgroupPath("/pod1"))
    assert not directory.exists()


@pytest.mark.parametrize("error", [PermissionError(), FileNotFoundError(), OSError(errno.ENODEV, "gone")])
def test_a_cgroup_that_cannot_be_looked_at_has_none_below(error: OSError) -> None:
    with patch("os.stat", side_effect=error):
        assert tree_module._all_below("/pod1") == ["/pod1"]


def test_only_what_pods_need_is_handed_down(tmp_path: Path) -> None:
    tree = unified(tmp_path)
    with patch("edged.cgroups.tree._write") as write:
        tree.make(POD)
    assert {call.args[1] for call in write.call_args_list} == {"+memory", "+pids"}


@pytest.mark.parametrize("driver", CgroupDriver)
def test_limits_of_others_than_pods_are_set_as_they_are_enforced(tmp_path: Path, driver: CgroupDriver) -> None:
    """Where v1 has the controllers, systemd gets v1's names, although there is an empty v2 beside it."""
    mounts, done = tmp_path / "mounts", list[Sequence[str]]()
    for name in ("cpu", "v2"):
        (tmp_path / name).mkdir()
    mounts.write_text(
        f"30 24 0:26 / {tmp_path}/cpu rw - cgroup cgroup rw,cpu\n33 24 0:29 / {tmp_path}/v2 rw - cgroup2 cgroup2 rw\n"
    )
    settings = CgroupSettings(
        driver=driver,
        enforce=("pods", "kube-reserved"),
        kube_reserved=Reservation({"cpu": "1"}, "/kube.slice"),
        system_reserved=Reservation({"cpu": "500m"}, "/system.slice"),
    )
    written: dict[str, str] = {}
    with (
        patch("edged.cgroups.systemd._run", done.append),
        patch("edged.cgroups.tree._write", lambda file, text: written.update({Path(file).parent.name: text})),
        patch("shutil.which", return_value="/bin/systemctl"),
    ):
        assert open_cgroups(settings, NodeCapacity(2, 2**30), mounts, tmp_path) is not None
    if driver is CgroupDriver.SYSTEMD:
        written = {command[3].removesuffix(".slice"): command[4] for command in done if command[1] == "set-property"}
        shares = {name: text.removeprefix("CPUShares=") for name, text in written.items()}
        assert shares == {"kubepods": "512", "kubepods-burstable": "2", "kubepods-besteffort": "2", "kube": "1024"}
    else:
        assert written == {"kubepods": "512", "burstable": "2", "besteffort": "2", "kube.slice": "1024"}


def test_no_slices_are_made_without_systemctl(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"30 24 0:26 / {tmp_path} rw - cgroup cgroup rw,cpu\n")
    with patch("shutil.which", return_value=None):
        assert open_cgroups(CgroupSettings(driver=CgroupDriver.SYSTEMD), NODE, mounts, tmp_path) is None


def test_a_quantity_that_is_none_leaves_pods_without_cgroups(tmp_path: Path) -> None:
    """The node starts in spite of it."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"30 24 0:26 / {tmp_path} rw - cgroup cgroup rw,cpu\n")
    settings = CgroupSettings(kube_reserved=Reservation({"cpu": "much"}))
    assert open_cgroups(settings, NODE, mounts) is None


def test_a_node_with_hierarchies_that_limit_nothing_goes_without(tmp_path: Path) -> None:
    """systemd's own hierarchy is mounted in many containers."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"30 24 0:26 / {tmp_path} rw - cgroup cgroup rw,xattr,name=systemd\n")
    assert open_cgroups(CgroupSettings(), NODE, mounts) is None


def test_an_enforced_reservation_without_a_cgroup_limits_none(tmp_path: Path) -> None:
    """Not even the root, which has everything of the machine."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"30 24 0:26 / {tmp_path} rw - cgroup cgroup rw,cpu\n")
    settings = CgroupSettings(enforce=("pods", "kube-reserved"), kube_reserved=Reservation({"cpu": "1"}))
    with patch("edged.cgroups.tree._write") as write:
        assert open_cgroups(settings, NODE, mounts) is not None
    assert {Path(call.args[0]).parent for call in write.call_args_list} == {
        tmp_path / each for each in ("kubepods", "kubepods/burstable", "kubepods/besteffort")
    }


def test_controllers_that_cannot_be_handed_down_are_an_error_with_a_name(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match="hand down controllers"):
        CgroupFiles._hand_down(Mock(), tmp_path, ("cpu",))
