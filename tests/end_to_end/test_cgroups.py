"""Control groups of pods on containerd, looked at from the machine; what a pod finds inside of it is in crowd/."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edged.cgroups.hierarchies import read_hierarchies
from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import GREEDY, container, is_ready, phase, pod, status_of
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest

pytestmark = pytest.mark.containerd
MIB = 2**20


@pytest.fixture
def node(containerd: ContainerdUnderTest) -> Iterator[Machine]:
    """A machine on containerd, not started yet."""
    with closing(Machine(containerd)) as made:
        yield made


def once(name: str, script: str, **fields: Any) -> JsonObject:
    """A pod whose one container says something and ends. `security`, `resources` are its container's."""
    own = {"securityContext": fields.pop("security", {}), "resources": fields.pop("resources", {})}
    return pod(name, container(script, **own), restartPolicy="Never", **fields)


def _cgroup(machine: Machine, path: str) -> list[Path]:
    """A cgroup's directories, in each hierarchy."""
    where = f"{machine.edge.cgroup_root}/kubepods/{path}".strip("/")
    found = read_hierarchies(Path("/proc/self/mountinfo").read_text())
    return [each.mount / where for each in found if (each.mount / where).is_dir()]


def _first(directories: list[Path], *files: str) -> str:
    return next(text for d in directories for f in files if (d / f).exists() for text in [(d / f).read_text().strip()])


def test_control_groups_limits_and_what_happens_beyond_them(node: Machine) -> None:
    """Each pod is in the cgroup of its class, with its limits; one that takes more memory is killed and says so;
    nothing of them is left when the pods have gone, also of a pod deleted while edgecore was not running.
    """
    node.edge.kubelet["pod_pids_limit"] = 64
    node.start()
    quick: dict[str, Any] = {"terminationGracePeriodSeconds": 1}
    both = {"cpu": "100m", "memory": "32Mi"}
    score = "cat /proc/self/oom_score_adj; exec sleep 600"
    greedy = once("greedy", GREEDY, resources={"limits": {"memory": "16Mi"}})
    node.cloud.apply(
        greedy,
        pod("guaranteed", container(score, resources={"limits": both}), **quick),
        pod("burstable", container(score, resources={"requests": {"cpu": "250m", "memory": "32Mi"}}), **quick),
        pod("besteffort", container(score), **quick),
    )
    made = {name: node.cloud.pods.wait(name, is_ready) for name in ("guaranteed", "burstable", "besteffort")}
    uids = {name: str(obj["metadata"]["uid"]) for name, obj in made.items()}
    where = {
        "guaranteed": f"pod{uids['guaranteed']}",
        "burstable": f"burstable/pod{uids['burstable']}",
        "besteffort": f"besteffort/pod{uids['besteffort']}",
    }
    groups = {name: _cgroup(node, path) for name, path in where.items()}
    assert _first(groups["guaranteed"], "memory.limit_in_bytes", "memory.max") == str(32 * MIB)
    assert _first(groups["guaranteed"], "cpu.cfs_quota_us", "cpu.max").split()[0] == "10000"
    assert {_first(group, "pids.max") for group in groups.values()} == {"64"}
    assert _first(groups["burstable"], "cpu.shares", "cpu.weight") in ("256", "10")
    assert _first(_cgroup(node, "burstable"), "cpu.shares", "cpu.weight") in ("256", "10")
    assert _first(groups["besteffort"], "cpu.shares", "cpu.weight") in ("2", "1")
    inside = {name: sum(1 for d in group for _ in d.iterdir() if _.is_dir()) for name, group in groups.items()}
    assert all(inside.values()), f"the runtime's own cgroups are below the pods': {inside}"
    wait_until(lambda: all(node.edge.lines(obj) for obj in made.values()), "each has said its score")
    scores = {name: int(node.edge.lines(obj)[0]) for name, obj in made.items()}
    assert scores["guaranteed"] <= scores["burstable"] < scores["besteffort"] == 1000
    assert {status["status"]["qosClass"] for status in made.values()} == {"Guaranteed", "Burstable", "BestEffort"}
    ended = node.cloud.pods.wait("greedy", lambda obj: phase(obj) == "Failed")
    terminated = status_of(ended)["state"]["terminated"]
    assert (terminated["reason"], terminated["exitCode"]) == ("OOMKilled", 137)
    uid = str(ended["metadata"]["uid"])
    wait_until(lambda: not _cgroup(node, f"burstable/pod{uid}"), "a pod that has ended has no cgroup")
    node.edge.kill()
    node.cloud.delete("Pod", "guaranteed", grace=0)
    for name in ("burstable", "besteffort"):
        node.cloud.delete("Pod", name)
    node.start_edge()
    for name in where:
        node.cloud.pods.wait_gone(name)
    wait_until(lambda: not any(_cgroup(node, path) for path in where.values()), "the cgroups are removed")
