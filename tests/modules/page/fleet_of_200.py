"""A fleet of 200 nodes, ten of them away: its objects are at a real cloudcore, its links are made up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from beehive.clock import RealClock
from modules.cli.rest import MERGE_PATCH, RestClient
from modules.cloud.apiserver import node_lifecycle
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.messages import LinkSession, NodeConnection
from modules.cloud.object_writes import WriteList, WriteQuery
from modules.page.api import About, fleet_api
from modules.page.picture import Links
from modules.page.server import PageServer
from tests.modules.processes.cloudcore.devices import People, device, model
from tests.modules.processes.cloudcore.jobs import JobAuthors
from tests.modules.processes.cloudcore.stubs import Stub

NODES: Final = 200
ZONES: Final = ("hamburg", "kiel", "bremen", "rostock", "wismar", "husum", "luebeck", "cuxhaven")
LOST: Final = tuple(f"hamburg-{number:02}" for number in range(3, 12))
"""Nodes that went away together."""
ALONE: Final = "kiel-03"
"""A node that went away by itself, and whose certificate ends."""
JOB: Final = "upgrade-to-0.4.0"
STOPPED: Final = "the waves have stopped: 3 of the 20 nodes of the waves so far have failed"
_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
_PODS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "scanner-x2k4f": ("bremen-02", {"waiting": {"reason": "ImagePullBackOff", "message": "no image for linux/arm/v7"}}),
    "scanner-9fq8c": (
        "rostock-04",
        {"waiting": {"reason": "ImagePullBackOff", "message": "no image for linux/arm/v7"}},
    ),
    "prices-7c9d4": ("luebeck-07", {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}),
    **{f"scanner-ok{number}": (f"husum-{number + 1:02}", {"running": {}}) for number in range(6)},
    **{f"till-{number}": (name, {"running": {}}) for number, name in enumerate(LOST)},
}


def names() -> list[str]:
    """Return the names of the nodes."""
    return [f"{ZONES[number % 8]}-{number // 8 + 1:02}" for number in range(NODES)]


class MadeLinks:
    """The links of the fleet (`PageSource`).

    Args:
        now: the time of the picture, in seconds since 1970.
        writes: returns the change journal.
    """

    def __init__(self, now: float, writes: Callable[[WriteQuery], WriteList]) -> None:
        self._now = now
        self.writes = writes
        self._sessions = {name: list(self._made(name, number)) for number, name in enumerate(names())}

    def links(self) -> Links:
        """See `PageSource`."""
        found = {}
        for name, sessions in self._sessions.items():
            newest = sessions[0]
            if not newest.ended:
                oldest = {"waiting": 4, "unacknowledged": 2, "oldest_seconds": 2040.0} if name == "luebeck-07" else {}
                found[name] = NodeConnection(
                    name, self._now - newest.began, 7.0, connection=newest.connection, address=newest.address,
                    certificate_ends=newest.certificate_ends, **oldest,  # type: ignore[arg-type]  # fields of it
                )  # fmt: skip
        return Links(found)

    def sessions(self, since: float) -> list[LinkSession]:
        """See `PageSource`."""
        return [each for found in self._sessions.values() for each in found if not each.ended or each.ended >= since]

    def history(self, node: str) -> list[LinkSession]:
        """See `PageSource`."""
        return self._sessions.get(node, [])

    def device_values(self, query: ValueQuery) -> ValueList:
        """See `PageSource`."""
        return ValueList()

    def _made(self, name: str, number: int) -> Iterator[LinkSession]:
        """Yield the connections of a node, the newest first."""
        now, ends = self._now, self._now + (3.0 if name == ALONE else 20.0 + number % 9) * _DAY
        address = "203.0.113.40" if name.startswith("hamburg") else f"198.51.100.{number}"
        first = LinkSession(name, f"{name}/1", "cloud-a", now - 6 * _DAY, address=address, certificate_ends=ends)
        if name in LOST:
            yield _ended(first, now - 11 * _HOUR + 2.0 * LOST.index(name), "the connection was closed")
        elif name == ALONE:
            yield _ended(first, now - 5 * _HOUR, "no keepalive for 30 s")
        elif number % 23 == 5:
            gone = now - (3.0 + number % 15) * _HOUR
            yield LinkSession(name, f"{name}/2", "cloud-a", gone + 1500.0, address=address, certificate_ends=ends)
            yield _ended(first, gone, "no keepalive for 30 s")
        else:
            yield first


def _ended(session: LinkSession, at: float, reason: str) -> LinkSession:
    return LinkSession(
        session.node, session.connection, session.cloudcore, session.began, at, reason, session.address,
        session.certificate_ends,
    )  # fmt: skip


@contextmanager
def fleet_page(directory: Path) -> Iterator[PageServer]:
    """Start a cloudcore with the fleet, and serve its page.

    Nobody renews the Leases of its nodes: they stay Ready for a day all the same, and not for 40 s.
    """
    clock = RealClock()
    leases = patch.object(node_lifecycle, "_LEASE_SECONDS", _DAY)
    with leases, Stub(directory, controllers="none") as stub:  # or pods without their owners were collected
        client = RestClient(stub.config.control_socket)
        _plant(client)
        _plant_devices(People(stub.client))
        _plant_jobs(JobAuthors(stub.client), client)
        links = MadeLinks(clock.now(), stub.client.changes)
        page = PageServer(fleet_api(client, links, clock, About("port-eu", "1", "cloudcore")), clock, "cloudcore")
        try:
            yield page
        finally:
            page.stop()
            clock.close()


def _plant(client: RestClient) -> None:
    """Make the Nodes and pods of the fleet."""
    for number, name in enumerate(names()):
        metadata = {
            "name": name,
            "labels": {"topology.kubernetes.io/zone": ZONES[number % 8], "Site": f"s{number % 50}"},
        }
        version = f"v1.32.10-edgecore-0.{2 if number % 5 == 0 else 3}.0"
        ready = {"type": "Ready", "status": "Unknown" if name in (*LOST, ALONE) else "True", "reason": "KubeletReady"}
        info = {"kubeletVersion": version, "architecture": "arm64", "osImage": "Debian GNU/Linux 12 (bookworm)"}
        client.request("POST", "/api/v1/nodes", body=_object("Node", metadata, {}))
        status = {"status": {"nodeInfo": info, "conditions": [ready]}}
        client.request("PATCH", f"/api/v1/nodes/{name}/status", body=status, content_type=MERGE_PATCH)
    for pod, (node, state) in _PODS.items():
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": pod.rpartition("-")[0],
            "uid": "u",
            "controller": True,
        }
        spec = {"nodeName": node, "containers": [{"name": "app", "image": "registry.example/app:2.8.1"}]}
        path = "/api/v1/namespaces/default/pods"
        client.request(
            "POST", path, body=_object("Pod", {"name": pod, "ownerReferences": [{**owner, "controller": True}]}, spec)
        )
        container: dict[str, Any] = {
            "name": "app", "image": "registry.example/app:2.8.1", "imageID": "", "restartCount": 3, "state": state,
            "ready": "running" in state,
        }  # fmt: skip
        status = {"status": {"phase": "Running", "containerStatuses": [container]}}
        client.request("PATCH", f"{path}/{pod}/status", body=status, content_type=MERGE_PATCH)


def _plant_devices(people: People) -> None:
    """Make a device on a node that is away, and one that its node says nothing of."""
    people.wait()
    people.apply(model())
    people.apply(device("freezer", LOST[0]))
    people.apply(device("shelf", "husum-01"))


def _plant_jobs(authors: JobAuthors, client: RestClient) -> None:
    """Make an upgrade whose third wave has not begun, as too many nodes of its second one have failed."""
    authors.wait()
    order = {"operations.edgecore.io/waves": "1,10%,all", "operations.edgecore.io/pause": "600"}
    spec = {"version": "v0.4.0", "nodeNames": names(), "failureTolerate": "0.05"}
    authors.create("NodeUpgradeJob", JOB, spec, annotations=order)
    authors.ended("NodeUpgradeJob", JOB)  # its nodes are no edge nodes
    status = {"phase": "Failure", "reason": STOPPED, "nodeStatus": [_task(*each) for each in enumerate(names())]}
    path = f"/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs/{JOB}/status"
    client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)


def _task(number: int, name: str) -> dict[str, Any]:
    """Return what an upgrade has done on a node."""
    if number >= NODES // 10:
        return {"nodeName": name, "phase": "Pending"}
    why = "rolled back: edgecore doctor: the runtime does not answer" if number % 7 == 3 else ""
    flow = [{"action": "RollBack" if why else "Upgrade", "status": "True", "time": "2026-11-27T10:00:00Z"}]
    after = "0.3.0" if why else "0.4.0"
    done = {"actionFlow": flow, "historicVersion": "0.3.0", "currentVersion": after, "reason": why}
    return {"nodeName": name, "phase": "Failure" if why else "Successful", **done}


def _object(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
