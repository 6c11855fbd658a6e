"""Pods' cgroups through the lives of pods, on edged alone and in the part itself."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from edged.cgroups.errors import CgroupBusyError, CgroupError
from edged.cgroups.names import CgroupNames, CgroupPath
from edged.cgroups.pod_cgroups import PodCgroups
from edged.cgroups.resource_config import ResourceConfig
from edged.pods.config.resources import HostResources
from edged.pods.model import PodUid
from edged.settings.cgroups import CgroupDriver, CgroupSettings
from modules.apimachinery.pods.qos import QosClass
from modules.apimachinery.types import Pod, ResourceRequirements
from tests.edged.conftest import Bench, pod
from tests.edged.pods.builders import UID, a_container, a_pod

BURSTABLE = CgroupPath("/edge/kubepods/burstable")


class TreeDouble:
    """Records the existing cgroups, and all calls in order."""

    def __init__(self) -> None:
        self.there: dict[str, ResourceConfig] = {}
        self.done: list[str] = []
        self.errors: list[CgroupError] = []

    def make(self, path: CgroupPath) -> None:
        self._do("make", path)
        self.there.setdefault(path, ResourceConfig())

    def set(self, path: CgroupPath, limits: ResourceConfig) -> None:
        self._do("set", path)
        self.there[path] = limits

    def remove(self, path: CgroupPath) -> None:
        if path in self.there:
            self._do("remove", path)
            del self.there[path]

    def _do(self, what: str, path: str) -> None:
        if self.errors:
            raise self.errors.pop()
        self.done.append(f"{what} {path}")

    @property
    def pods(self) -> list[str]:
        """The last parts of pods' paths."""
        return sorted(path.rpartition("/")[2] for path in self.there if "/pod" in path)


def cgroups(tree: TreeDouble | None) -> PodCgroups:
    return PodCgroups(CgroupSettings(root="/edge"), tree, HostResources(memory=2**30))


def empty() -> tuple[TreeDouble, PodCgroups]:
    """A tree without cgroups of pods, and the part that makes them."""
    tree = TreeDouble()
    return tree, cgroups(tree)


def burstable(uid: str, cpu: str) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu})
    return a_pod(a_container(resources=resources), meta={"uid": uid})


def test_an_unchanged_cgroup_is_not_written_again() -> None:
    """A sync of a healthy pod writes nothing; a changed limit or a new sandbox does."""
    tree, mine = empty()
    mine.apply(burstable("a", "1"))
    begun = len(tree.done)
    mine.apply(burstable("a", "1"))
    assert len(tree.done) == begun
    mine.apply(burstable("a", "1"), anew=True)
    assert len(tree.done) > begun
    mine.apply(burstable("a", "2"))
    assert tree.there[f"{BURSTABLE}/poda"].cpu_shares == 2048


def test_a_cgroup_is_made_before_its_limits_are_set() -> None:
    """The kernel's files are there with it."""
    tree = TreeDouble()
    cgroups(tree).apply(burstable("a", "1"))
    assert tree.done == [f"make {BURSTABLE}/poda", f"set {BURSTABLE}/poda", f"set {BURSTABLE}"]


def test_the_class_weighs_what_its_pods_ask_for() -> None:
    """From the first to the last; best-effort pods do not count."""
    tree, mine = empty()
    weights = []
    for come in (burstable("a", "1"), burstable("b", "500m"), a_pod(meta={"uid": "c"})):
        mine.apply(come)
        weights.append(tree.there[BURSTABLE].cpu_shares)
    for gone in ("a", "b"):
        mine.remove(PodUid(gone))
        weights.append(tree.there[BURSTABLE].cpu_shares)
    assert weights == [1024, 1536, 1536, 512, 2]


def test_a_pod_that_changes_its_class_leaves_nothing_in_the_other() -> None:
    tree, mine = empty()
    mine.apply(burstable(UID, "1"))
    mine.apply(a_pod())
    assert len(tree.pods) == 2
    mine.remove(UID)
    assert tree.pods == []


def test_a_removed_cgroup_is_not_looked_for_again() -> None:
    """A pod's resources are released twice; a pod that gets a cgroup again is released again."""
    tree, mine = empty()
    mine.apply(a_pod())
    mine.remove(UID)
    tree.make(CgroupNames(CgroupDriver.CGROUPFS, "/edge").of_pod(UID, QosClass.BEST_EFFORT))
    mine.remove(UID)
    assert len(tree.pods) == 1
    mine.forget_pod(UID)
    mine.remove(UID)
    assert tree.pods == []
    mine.apply(a_pod())
    assert len(tree.pods) == 1, "a pod with the uid of one that is gone"
    mine.remove(UID)
    assert tree.pods == []


def test_a_node_without_cgroups_leaves_it_to_the_runtime() -> None:
    """Nothing is made, and no parent is named."""
    mine = cgroups(None)
    mine.apply(a_pod())
    mine.remove(UID)
    assert mine.parent(a_pod()) == ""


def test_a_limit_that_could_not_be_set_is_tried_again() -> None:
    tree, mine = empty()
    tree.errors = [CgroupError("cannot make", "x")]
    with pytest.raises(CgroupError):
        mine.apply(burstable("a", "1"))
    mine.apply(burstable("a", "1"))
    assert tree.pods == ["poda"]


def test_the_former_limits_are_set_again_after_others_that_failed_half_way() -> None:
    tree, mine = empty()
    mine.apply(burstable("a", "1"))
    tree.errors = [CgroupError("cannot set", "x")]
    with pytest.raises(CgroupError):
        mine.apply(burstable("a", "2"))
    begun = len(tree.done)
    mine.apply(burstable("a", "1"))
    assert len(tree.done) > begun


def test_a_weight_of_the_class_that_could_not_be_set_is_tried_again() -> None:
    tree, mine = empty()
    with (
        patch.object(tree, "set", side_effect=[None, CgroupError("cannot set", BURSTABLE)]),
        pytest.raises(CgroupError),
    ):
        mine.apply(burstable("a", "1"))
    mine.apply(burstable("a", "1"))
    assert tree.there[BURSTABLE].cpu_shares == 1024


def test_a_weight_of_the_class_that_could_not_be_lowered_is_tried_again() -> None:
    """With the removal of the pod: its files are there until it is done."""
    tree, mine = empty()
    mine.apply(burstable("a", "1"))
    with patch.object(tree, "set", side_effect=CgroupError("cannot set", BURSTABLE)), pytest.raises(CgroupError):
        mine.remove(PodUid("a"))
    mine.remove(PodUid("a"))
    assert tree.there[BURSTABLE].cpu_shares == 2


@pytest.fixture
def tree() -> TreeDouble:
    return TreeDouble()


@pytest.fixture
def bench(tmp_path: Path, tree: TreeDouble) -> Any:
    made = Bench(tmp_path, cgroups=CgroupSettings(root="/edge"), tree=tree)
    yield made
    made.stop()


def test_a_pods_cgroup_is_there_before_its_sandbox_and_gone_after_it(bench: Bench, tree: TreeDouble) -> None:
    """The runtime gets its path, and it is removed once the pod is deleted for good."""
    bench.start(pod())
    assert tree.pods == ["poduid-web"]
    config = bench.runtime.sandbox_configs[next(iter(bench.runtime.sandboxes))]
    assert config.linux.cgroup_parent == "/edge/kubepods/besteffort/poduid-web"
    bench.tell("delete", pod(), wait=5)
    assert bench.runtime.sandboxes == {}
    assert tree.pods == []


def test_a_pod_without_a_cgroup_has_no_sandbox(bench: Bench, tree: TreeDouble) -> None:
    """It would run without limits: it waits, says why, and comes when the cgroup can be made."""
    bench.start()
    tree.errors = [CgroupError("cannot make the cgroup", "/edge/x", "no space")]
    bench.tell("insert", pod(), wait=1)
    assert not bench.runtime.sandboxes
    waiting = bench.meta.statuses("web")[-1]["containerStatuses"][0]["state"]["waiting"]
    assert "no space" in waiting["message"]
    assert bench.running(after=5) == ["main"]


def test_a_pod_that_has_ended_keeps_no_cgroup(bench: Bench, tree: TreeDouble) -> None:
    """Although the cloud still knows it (SyncTerminatedPod)."""
    bench.start()
    container = {"name": "main", "image": "busybox:1.36", "command": ["exit", "0"]}
    bench.tell("insert", pod(restartPolicy="Never", containers=[container]), wait=5)
    assert bench.meta.phases("web")[-1] == "Succeeded"
    assert tree.pods == []


def test_files_are_kept_until_the_cgroup_is_gone(bench: Bench, tree: TreeDouble) -> None:
    """By its files a pod's remains are found after a crash."""
    bench.start(pod())
    tree.errors = [CgroupBusyError("cannot remove the cgroup", "x", retryable=True)]
    bench.tell("delete", pod())
    files = bench.settings.root / "pods" / "uid-web"
    assert files.exists()
    bench.run(5)
    assert not files.exists()
    assert tree.pods == []


def test_cgroups_of_pods_that_were_deleted_while_edged_was_away_are_removed(bench: Bench, tree: TreeDouble) -> None:
    """Of a pod that has nothing but files; and another agent's cgroup beside it is left alone."""
    tree.there = {
        "/edge/kubepods/burstable/pod-old": ResourceConfig(),
        "/edge/kubepods/burstable/podtheirs": ResourceConfig(),
    }
    (bench.settings.root / "pods" / "-old").mkdir(parents=True)
    bench.start(wait=3)
    assert tree.pods == ["podtheirs"]
