"""What a node's registration, and the status, deletion and Event of a pod cost cloudcore."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from beehive.testing import Harness
from modules.lab.load.documents import lease_of, whole_node, whole_patch
from tests.counts.calls import Counted
from tests.counts.cloud import ACK_DELAY, CountedCloud, CountedNode

_JOURNALS_SECONDS: Final = 2.0
"""After them the journals are written; other work that comes with the time is counted, too."""
_QUIET_SECONDS: Final = 10.0
"""The period of the slowest checks of all nodes."""
MANY: Final = 32
"""Nodes that report at the same time."""


def small_patch(_uid: str, number: int) -> str:
    """Return a patch of one field."""
    return json.dumps({"status": {"message": str(number)}})


def _pod(node: str, number: int = 0) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "containers": [{"name": "c", "image": "busybox:1.36"}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{node}-{number}"}, "spec": spec}


def _tell(node: CountedNode) -> None:
    """Send an Event of its pod, as edged does."""
    name, seen = f"{node.name}-0", "2027-01-15T08:00:00Z"
    about = {"kind": "Pod", "namespace": "default", "name": name, "uid": node.uid_of_pod(), "apiVersion": "v1"}
    event = {
        "metadata": {"name": f"{name}.1", "namespace": "default"}, "involvedObject": about, "reason": "Started",
        "message": "Started container c", "source": {"component": "kubelet", "host": node.name}, "type": "Normal",
        "firstTimestamp": seen, "lastTimestamp": seen, "count": 1, "reportingComponent": "kubelet",
        "reportingInstance": node.name,
    }  # fmt: skip
    node.ask(f"default/event/{name}.1", "insert", event)


def _renew(node: CountedNode) -> None:
    """Ask for what a node asks for all the time: its lease, as it was answered, with a later time."""
    lease = node.received[-1].content_as(dict)["Object"]
    renewed = {**lease, "spec": {**lease["spec"], "renewTime": "2100-01-01T00:00:00.000000Z"}}
    node.ask(f"kube-node-lease/lease/{node.name}", "update", renewed)


class _Fleet:
    """Connected nodes with a pod each."""

    def __init__(self, cloud: CountedCloud, count: int) -> None:
        self._cloud = cloud
        self._reports = 0
        names = [f"n{number}" for number in range(count)]
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
        cloud.apply(settings, *(_pod(name) for name in names))
        self.nodes = [CountedNode(cloud, name) for name in names]
        self.settle()

    def counted(self, ask: Callable[[CountedNode], None]) -> Counted:
        """Return what it costs for each node that all of them ask for something at the same time.

        Answers, echoes and their acknowledgements are part of it.
        """
        for node in self.nodes:
            ask(node)
        with self._cloud.calls.counted() as counted:
            self.settle()
        return counted.shared(len(self.nodes))

    def applied(self) -> Counted:
        """Return what it costs for each node that it gets another pod: applied, sent and acknowledged."""
        pods = [_pod(node.name, 1) for node in self.nodes]
        with self._cloud.calls.counted() as counted:
            self._cloud.apply(*pods)
            self.settle()
        return counted.shared(len(self.nodes))

    def journals(self) -> Counted:
        """Return what it costs for each node that the journals keep what it has done."""
        return self._later(_JOURNALS_SECONDS)

    def quiet(self) -> Counted:
        """Return what each node costs that says nothing."""
        return self._later(_QUIET_SECONDS)

    def _later(self, seconds: float) -> Counted:
        with self._cloud.calls.counted() as counted:
            self._cloud.bee.run_for(seconds)
        return counted.shared(len(self.nodes))

    def settle(self) -> None:
        """Let the cloud do what it has to, and the nodes acknowledge what they get."""
        self._cloud.work()
        while self._receive():
            self._cloud.work()
        self._cloud.pass_grouped_on()
        self._cloud.bee.run_for(ACK_DELAY)
        self._cloud.work()

    def _receive(self) -> bool:
        with self._cloud.calls.paused():
            return bool(sum(node.receive() for node in self.nodes))

    def report(self, patch: Callable[[str, int], str]) -> Counted:
        """Count statuses."""

        def ask(node: CountedNode) -> None:
            self._reports += 1
            node.ask(f"default/podpatch/{node.name}-0", "patch", patch(node.uid_of_pod(), self._reports))

        self.counted(ask)
        return self.counted(ask)

    def close(self) -> None:
        """Close the sockets."""
        for node in self.nodes:
            node.close()


@contextmanager
def _fleet(directory: Path, count: int) -> Iterator[_Fleet]:
    directory.mkdir()
    with Harness() as bee:
        cloud = CountedCloud(bee, directory)
        fleet = _Fleet(cloud, count)
        yield fleet
        fleet.close()
        cloud.close()


def measure(directory: Path) -> Mapping[str, Counted]:
    """Return what each step costs, in an empty directory. What a process computes once is computed before."""
    _measure(directory / "first", 1, "")
    alone = _measure(directory / "alone", 1, "on its own")
    return alone | _measure(directory / "many", MANY, f"of {MANY} at once")


def _measure(directory: Path, count: int, words: str) -> dict[str, Counted]:
    with _fleet(directory, count) as fleet:
        return {
            f"cloud: a node registers, {words}": fleet.counted(
                lambda node: node.ask(f"null/node/{node.name}", "insert", whole_node(node.name))
            ),
            f"cloud: the journals keep a registration, {words}": fleet.journals(),
            f"cloud: a lease begins, {words}": fleet.counted(
                lambda node: node.ask(f"kube-node-lease/lease/{node.name}", "insert", lease_of(node.name))
            ),
            f"cloud: a lease is renewed, {words}": fleet.counted(_renew),
            f"cloud: a pod's status of one field, {words}": fleet.report(small_patch),
            f"cloud: a pod's whole status, {words}": fleet.report(whole_patch),
            f"cloud: a quiet node for ten seconds, {words}": fleet.quiet(),
            f"cloud: a pod is deleted by its node, {words}": fleet.counted(
                lambda node: node.ask(
                    f"default/pod/{node.name}-0", "delete",
                    {"gracePeriodSeconds": 0, "preconditions": {"uid": node.uid_of_pod()}},
                )
            ),
            f"cloud: an Event of a pod, {words}": fleet.counted(_tell),
            f"cloud: a pod is applied, {words}": fleet.applied(),
        }  # fmt: skip
