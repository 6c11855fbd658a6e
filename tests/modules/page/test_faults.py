"""What the page says of each planted fault: the first sentence, what needs somebody, and where its link leads."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from edged.chains.model import ChainStep
from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.devices import DeviceFacts
from modules.insight.fleet.findings import FleetFinding
from modules.insight.fleet.jobs import JobCounts, JobRow
from modules.insight.fleet.lacks import Lack
from modules.insight.fleet.rollouts import rollouts
from modules.insight.fleet.rows import pod_row
from modules.insight.fleet.sentences import node_sentence
from modules.insight.why.facts import NodeChain, PodFacts
from modules.insight.why.pods import explain
from modules.page.nodes import short_node
from modules.page.picture import Links, Picture

NOW: Final = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
_LONG_AGO: Final = "2027-01-14T08:00:00Z"


class Planted:
    """A fleet of nine nodes of one zone in which a fault is planted: all are connected, and nothing is wrong."""

    def __init__(self) -> None:
        self.nodes = {f"n{number}": _node(f"n{number}") for number in range(1, 10)}
        self.pods: list[dict[str, Any]] = []
        self.links = {name: NodeConnection(name, _HOUR, 1.0, connection=f"{name}/1") for name in self.nodes}
        self.refused: dict[str, str] = {}
        self.sessions = {name: [LinkSession(name, f"{name}/1", "a", NOW - _HOUR)] for name in self.nodes}
        self.devices: list[DeviceFacts] = []
        self.lacks: list[Lack] = []
        self.jobs: list[JobRow] = []

    def cut(self, name: str, seconds: float, reason: str = "the connection was closed", ends: float = 0.0) -> None:
        """End the connection of a node so many seconds ago; its certificate ends in so many seconds."""
        del self.links[name]
        begun = NOW - seconds - _HOUR
        ended = LinkSession(
            name, f"{name}/1", "a", begun, NOW - seconds, reason, certificate_ends=NOW + ends if ends else 0.0
        )
        self.sessions[name] = [ended]

    def link(self, name: str, **facts: Any) -> None:
        """Change what cloudcore knows of a connection."""
        self.links[name] = NodeConnection(name, _HOUR, **{"keepalive_seconds": 1.0, "connection": f"{name}/1", **facts})

    def condition(self, name: str, kind: str, status: str, reason: str = "") -> None:
        """Let a node report a condition."""
        self.nodes[name]["status"]["conditions"].append({"type": kind, "status": status, "reason": reason})

    def pod(self, name: str, node: str, owner: str = "", **status: Any) -> None:
        """Make a pod of one container."""
        owners = [{"kind": "DaemonSet", "name": owner, "controller": True}] if owner else []
        metadata = {"namespace": "shop", "name": name, "creationTimestamp": _LONG_AGO, "ownerReferences": owners}
        self.pods.append(
            {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c"}]}, "status": status}
        )

    def picture(self, later: float = 0.0) -> Picture:
        """Return the picture of it, so many seconds after the fault."""
        picture = Picture(lambda: NOW + later, version="0.3.0")
        picture.put_nodes([short_node(each) for each in self.nodes.values()])
        picture.put_pods([pod_row(each) for each in self.pods])
        picture.put_sessions([each for found in self.sessions.values() for each in found])
        picture.put_devices(self.devices)
        picture.put_lacks(self.lacks)
        picture.put_jobs(self.jobs)
        picture.put_links(Links(self.links, refused=self.refused))
        return picture


class Says(NamedTuple):
    """What the page says."""

    fleet: str = "All 9 nodes are connected."
    finding: str = ""
    """The first one; empty if nothing needs somebody."""
    detail: str = ""
    link: tuple[str, ...] = ()
    """The nodes or pods that the finding leads to."""
    node: str = "n1 has been connected for 60m, and no pod is bound to it."
    rollouts: str = "There are no workloads: no pod has a controller."


def _node(name: str) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": "hamburg"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    metadata = {"name": name, "labels": labels, "creationTimestamp": _LONG_AGO}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": [ready]}}


def _waits(reason: str, message: str = "") -> dict[str, Any]:
    """Return the status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "c", "ready": False, "state": state}]}


def _cut_all(fleet: Planted) -> None:
    for number, name in enumerate(fleet.nodes):
        fleet.cut(name, 600.0 + number)


def _wrong_architecture(fleet: Planted) -> None:
    fleet.pod("scan-1", "n1", "scan", **_waits("ImagePullBackOff", "no image for linux/arm/v7"))
    fleet.pod("scan-2", "n2", "scan", phase="Running", containerStatuses=[{"name": "c", "ready": True}])


def _full_disk(fleet: Planted) -> None:
    fleet.condition("n1", "DiskPressure", "True")
    fleet.link("n1", unacknowledged=2, oldest_seconds=90.0, last_error="default/configmap/c: it could not be written")


def _revoked(fleet: Planted) -> None:
    fleet.cut("n1", 600.0)
    fleet.refused["n1"] = "its certificate is revoked"


def _old_versions(fleet: Planted) -> None:
    for name in ("n1", "n2"):
        fleet.nodes[name]["status"]["nodeInfo"] = {"kubeletVersion": "v1.32.10-edgecore-0.0.4"}


def _all_clocks(fleet: Planted) -> None:
    for name in fleet.nodes:
        fleet.link(name, clock_ahead_seconds=3600.5)


def _evicted(fleet: Planted) -> None:
    ended = {"name": "c", "ready": False, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    message = "The node was low on resource: memory."
    fleet.pod("web", "n1", phase="Failed", reason="Evicted", message=message, containerStatuses=[ended])


def _crashed() -> dict[str, Any]:
    """Return the status of a pod whose container has crashed, and waits."""
    status = _waits("CrashLoopBackOff", "back-off 5m0s restarting failed container=c pod=a_shop(u)")
    status["containerStatuses"][0]["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    return status


def _crashes(fleet: Planted) -> None:
    fleet.pod("a", "n1", **_crashed())
    fleet.pod("b", "n2", **_crashed())


def _pod_of_a_lost_node(fleet: Planted) -> None:
    fleet.cut("n1", 600.0, "no keepalive for 30 s")
    fleet.pod("scan-1", "n1", "scan", **_waits("CrashLoopBackOff"))


def _mapper_killed(fleet: Planted) -> None:
    for name in ("hall", "heater"):
        facts = DeviceFacts(
            "shop", name, "n1", "m", "", "unknown", 1, 0, None, None, NOW - 60.0, is_heard=True, mapper="-"
        )
        fleet.devices.append(facts)


def _quota(fleet: Planted) -> None:
    why = 'pods "web-1" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'
    fleet.lacks.append(Lack("shop", "Deployment web", 3, 2, why))


def _stopped(fleet: Planted) -> None:
    fleet.lacks.append(Lack("shop", "Deployment web", 3, 0, 'ReplicaSet "web-1" has timed out progressing.'))


def _job_stopped(fleet: Planted, created: float = NOW - _HOUR) -> None:
    counts = JobCounts(nodes=9, done=1, failed=2, waiting=6, away=1)
    resume = "cloudcore upgrade resume up"
    fleet.jobs.append(
        JobRow("NodeUpgradeJob", "up", "v1", "Failure", "the waves have stopped", created, counts, resume=resume)
    )


FAULTS: Final[dict[str, tuple[Callable[[Planted], object], Says]]] = {
    "none": (lambda _: None, Says()),
    "nine nodes cut at once": (
        _cut_all,
        Says(
            fleet="0 of 9 nodes are connected; 9 are away.",
            finding="9 nodes of hamburg went away together", detail="10m ago · 0 pods were bound to them",
            link=tuple(f"n{number}" for number in range(9, 0, -1)),
            node="n1 has been away for 10m; no pod is bound to it.",
        ),
    ),
    "agent killed, 39 s ago": (
        lambda fleet: fleet.cut("n1", 39.0),
        Says(
            fleet="8 of 9 nodes are connected; 1 is lost.",
            finding="n1 is lost", detail="its connection ended 39s ago · the connection was closed",
            link=("n1",),
            node="n1 is lost: its connection ended 39s ago; no pod is bound to it.",
        ),
    ),
    "agent killed, 41 s ago": (
        lambda fleet: fleet.cut("n1", 41.0),
        Says(
            fleet="8 of 9 nodes are connected; 1 is away.",
            finding="n1 is away", detail="41s ago · no pod bound to it · the connection was closed", link=("n1",),
            node="n1 has been away for 41s; no pod is bound to it.",
        ),
    ),
    "no keepalive": (
        lambda fleet: fleet.link("n1", keepalive_seconds=70.0),
        Says(
            fleet="9 of 9 nodes are connected; 1 is behind.",
            finding="n1 is behind", detail="no keepalive for 70s", link=("n1",),
            node="n1 is behind: no keepalive for 70s; no pod is bound to it.",
        ),
    ),
    "reads slowly": (
        lambda fleet: fleet.link("n1", is_behind=True),
        Says(
            fleet="9 of 9 nodes are connected; 1 is behind.",
            finding="n1 is behind", detail="it reads slowly", link=("n1",),
            node="n1 is behind: it reads slowly; no pod is bound to it.",
        ),
    ),
    "full disk and a new configmap": (
        _full_disk,
        Says(
            fleet="9 of 9 nodes are connected; 1 is behind.",
            finding="n1 is behind",
            detail="it has not acknowledged a message for 90s · default/configmap/c: it could not be written",
            link=("n1",),
            node="n1 is behind: it has not acknowledged a message for 90s "
            "(default/configmap/c: it could not be written); no pod is bound to it; it has DiskPressure.",
        ),
    ),
    "memory is short": (
        lambda fleet: fleet.condition("n1", "MemoryPressure", "True"),
        Says(
            finding="n1 has MemoryPressure",
            detail="new pods are refused there, and pods may be evicted",
            link=("n1",),
            node="n1 has been connected for 60m, and no pod is bound to it; it has MemoryPressure.",
        ),
    ),
    "revoked": (
        _revoked,
        Says(
            fleet="8 of 9 nodes are connected; 1 is away.",
            finding="n1 is away", detail="10m ago · no pod bound to it · its certificate is revoked", link=("n1",),
            node="n1 has been away for 10m (its connection is refused: its certificate is revoked); "
            "no pod is bound to it.",
        ),
    ),
    "a certificate that ends while its node is away": (
        lambda fleet: fleet.cut("n1", 5 * _HOUR, ends=3 * _DAY),
        Says(
            fleet="8 of 9 nodes are connected; 1 is away.",
            finding="n1 is away", detail="5h ago · no pod bound to it · the connection was closed", link=("n1",),
            node="n1 has been away for 5h; no pod is bound to it; its certificate ends in 3 days.",
        ),
    ),
    "a certificate that was not renewed": (
        lambda fleet: fleet.link("n1", certificate_ends=NOW + 2 * _DAY),
        Says(
            finding="The certificate of n1 ends in 2 days",
            detail="it is connected and has not renewed it", link=("n1",),
            node="n1 has been connected for 60m, and no pod is bound to it; its certificate ends in 2 days.",
        ),
    ),
    "a clock that is wrong": (
        lambda fleet: fleet.link("n1", clock_ahead_seconds=-601.0),
        Says(
            finding="The clock of n1 is 10m behind",
            detail="certificates, CronJobs and ages go by it", link=("n1",),
            node="n1 has been connected for 60m, and no pod is bound to it; its clock is 10m behind.",
        ),
    ),
    "versions outside of the supported skew": (
        _old_versions,
        Says(
            finding="n1 and n2 have an unsupported version",
            detail="v1.32.10-edgecore-0.0.4: more than 2 minor versions older than this cloudcore, 0.3.0",
            link=("n1", "n2"),
        ),
    ),
    "all clocks are wrong": (
        _all_clocks,
        Says(
            finding="The clocks of n1, n2, n3 and 6 more are wrong",
            detail="or cloudcore's own is",
            link=tuple(f"n{number}" for number in range(1, 10)),
            node="n1 has been connected for 60m, and no pod is bound to it; its clock is 60m ahead.",
        ),
    ),
    "an image of a wrong architecture": (
        _wrong_architecture,
        Says(
            finding="DaemonSet scan: 1 pod does not run (ImagePullBackOff)",
            detail="on n1 · no image for linux/arm/v7", link=("shop/scan-1",),
            node="n1 has been connected for 60m, and 0 of 1 pod runs.",
            rollouts="The workload fails on some node.",
        ),
    ),
    "mapper killed": (
        _mapper_killed,
        Says(
            finding="2 devices on n1 are in a state that is not known",
            detail="shop/hall: its node reports the state unknown: its mapper has ended, or is silent",
            link=("shop/hall", "shop/heater"),
        ),
    ),
    "quota exceeded": (
        _quota,
        Says(
            finding="Deployment web: 2 of 3 pods cannot be made",
            detail='pods "web-1" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2',
            link=("shop/Deployment web",),
            rollouts="The workload lacks pods.",
        ),
    ),
    "a rollout that has stopped": (
        _stopped,
        Says(
            finding="Deployment web: its rollout has stopped",
            detail='ReplicaSet "web-1" has timed out progressing.', link=("shop/Deployment web",),
            rollouts="The workload has stopped.",
        ),
    ),
    "an upgrade that has stopped": (
        _job_stopped,
        Says(
            finding="NodeUpgradeJob up has stopped",
            detail="9 nodes: 1 done, 2 failed, 6 waiting (1 away) · the waves have stopped",
            link=("NodeUpgradeJob/up",),
        ),
    ),
    "an upgrade that has stopped eight days ago": (lambda fleet: _job_stopped(fleet, NOW - 8 * _DAY), Says()),
    "evicted": (
        _evicted,
        Says(
            finding="pod shop/web does not run (Evicted)", detail="on n1 · The node was low on resource: memory.",
            link=("shop/web",),
            node="n1 has been connected for 60m, and 0 of 1 pod runs.",
        ),
    ),
    "pods without a workload that crash": (
        _crashes,
        Says(
            finding="2 pods without a workload do not run (CrashLoopBackOff)", detail="shop/a and shop/b",
            link=("shop/a", "shop/b"),
            node="n1 has been connected for 60m, and 0 of 1 pod runs.",
        ),
    ),
    "a pod of a workload that crashes": (
        lambda fleet: fleet.pod("a", "n1", "scan", **_crashed()),
        Says(
            finding="DaemonSet scan: 1 pod does not run (CrashLoopBackOff)",
            detail="on n1 · container c ended with exit code 137 (OOMKilled)", link=("shop/a",),
            node="n1 has been connected for 60m, and 0 of 1 pod runs.",
            rollouts="The workload fails on some node.",
        ),
    ),
    "a pod of a node that is away": (
        _pod_of_a_lost_node,
        Says(
            fleet="8 of 9 nodes are connected; 1 is away.",
            finding="n1 is away", detail="10m ago · 1 pod bound to it · no keepalive for 30 s", link=("n1",),
            node="n1 has been away for 10m; when it was last heard of, 0 of 1 pod ran.",
            rollouts="The workload has pods on nodes that are away.",
        ),
    ),
}  # fmt: skip


def _link(finding: FleetFinding) -> tuple[str, ...]:
    """Return what a finding leads to."""
    return finding.nodes or finding.pods or finding.devices or (finding.workload or finding.job,)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_page_has_the_right_sentence_for_each_fault(fault: str) -> None:
    plant, says = FAULTS[fault]
    fleet = Planted()
    plant(fleet)
    picture = fleet.picture()
    head, rows = picture.changes(0, ()).head, picture.rows()
    assert head is not None
    first = head.findings[0] if head.findings else None
    found = Says(
        fleet="".join(part.text for part in head.sentence),
        finding=first.sentence if first is not None else "",
        detail=first.detail if first is not None else "",
        link=_link(first) if first is not None else (),
        node=node_sentence(next(row for row in rows if row.name == "n1"), NOW),
        rollouts=rollouts(picture.pods(), rows, picture.lacks()).sentence,
    )
    assert found == says


_PASSING: Final = ("agent killed, 39 s ago", "a certificate that was not renewed")
"""Faults of which the sentence has a time."""


@pytest.mark.parametrize("fault", [each for each in FAULTS if each not in _PASSING])
def test_the_finding_is_the_same_after_six_hours(fault: str) -> None:
    plant, says = FAULTS[fault]
    fleet = Planted()
    plant(fleet)
    head = fleet.picture(6 * _HOUR).changes(0, ()).head
    assert head is not None
    assert says.finding == (head.findings[0].sentence if head.findings else "")


def test_nodes_that_are_cut_together_are_one_finding_and_their_pods_none() -> None:
    fleet = Planted()
    _cut_all(fleet)
    fleet.pod("scan-1", "n1", "scan", **_waits("CrashLoopBackOff"))
    head = fleet.picture().changes(0, ()).head
    assert head is not None
    assert len(head.findings) == 1


def test_the_certificate_of_a_node_that_is_away_is_named_beside_it() -> None:
    fleet = Planted()
    fleet.cut("n1", 5 * _HOUR, ends=3 * _DAY)
    head = fleet.picture().changes(0, ()).head
    assert head is not None
    assert [each.sentence for each in head.findings] == [
        "n1 is away", "The certificate of n1 ends in 3 days, and it is away",
    ]  # fmt: skip


@pytest.mark.parametrize("seconds", [1.0, 6 * _HOUR])
def test_the_chain_of_a_pod_is_as_good_after_six_hours(seconds: float) -> None:
    """Its Events are gone after one."""
    failed = ChainStep(NOW - seconds, "FailedMount", "no such export", is_warning=True, count=3, last=NOW - 1)
    taken = ChainStep(NOW - seconds, "Taken", "the agent has the pod")
    pod = {
        "metadata": {"namespace": "shop", "name": "web", "creationTimestamp": _LONG_AGO},
        "spec": {"nodeName": "n1"},
        "status": {**_waits("ContainerCreating"), "startTime": _LONG_AGO},
    }
    answer = explain(PodFacts(pod=pod, now=NOW, program="cloudcore", chain=NodeChain("u", [taken, failed])))
    assert answer.sentence == "shop/web has been starting for 24h: no such export"
    assert [step.text for step in answer.steps if step.is_cause] == ["FailedMount (3 times): no such export"]
