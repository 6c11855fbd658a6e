"""A fleet of 2,000 nodes with pods and devices in memory, which changes when it is asked to: for budgets."""

import itertools
import queue
import threading
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from beehive.clock import Clock
from modules.cli.errors import StatusError
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.messages import LinkSession, NodeConnection
from modules.cloud.object_writes import WriteList, WriteQuery
from modules.page.api import About, FleetApi, fleet_api
from modules.page.picture import Links

NODES: Final = 2_000
_ZONES: Final = 40
_DAY: Final = 86_400.0


class LargeFleet:
    """The Kubernetes API and the links of a fleet (`ApiClient`, `PageSource`).

    Args:
        now: the time of the beginning, in seconds since 1970.
        pods: of each node.
        devices: in all.
        nodes: in all.
    """

    def __init__(self, now: float, pods: int = 2, devices: int = 0, nodes: int = NODES) -> None:
        self._now = now
        self.names = [f"zone{number % _ZONES:02}-{number // _ZONES:03}" for number in range(nodes)]
        self.objects = {
            "nodes": [_node(name, number) for number, name in enumerate(self.names)],
            "pods": [_pod(name, number) for name in self.names for number in range(pods)],
            "devices": [_device(number, self.names[number % nodes]) for number in range(devices)],
            "devicemodels": [_model()] if devices else [],
            "devicestatuses": [_device_status(number) for number in range(devices)],
        }
        self._events: queue.Queue[bytes | None] = queue.Queue()
        self._ended = threading.Event()
        self._turn = itertools.count()

    def change(self, number: int) -> None:
        """Let some nodes change: each is cordoned, or no longer."""
        for _ in range(number):
            turn = next(self._turn)
            changed = {**_node(self.names[turn % NODES], turn), "spec": {"unschedulable": turn // NODES % 2 == 0}}
            self._events.put(msgspec.json.encode({"type": "MODIFIED", "object": changed}))

    def end(self) -> None:
        """End the watches."""
        self._events.put(None)
        self._ended.set()

    def get(self, path: str, query: Any = ()) -> dict[str, Any]:
        """See `ApiClient`; the copies are as new as those of a server."""
        found, given = self.objects.get(path.rpartition("/")[2]), dict(query)
        if found is None:
            raise StatusError(404, "NotFound", "not found")
        begin = int(given.get("continue", 0))
        end = begin + int(given["limit"])
        metadata = {"resourceVersion": "1"} | ({"continue": str(end)} if end < len(found) else {})
        part: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({"items": found[begin:end]}))
        return {**part, "metadata": metadata}

    def lines(self, path: str, query: Any = ()) -> Iterator[bytes]:
        """See `ApiClient`: the changes of nodes; a watch of pods is silent."""
        if path.endswith("nodes"):
            while (event := self._events.get()) is not None:
                yield event
        else:
            self._ended.wait()

    def links(self) -> Links:
        """See `LinkSource`: each twentieth node is away."""
        return Links(
            {
                name: NodeConnection(name, _DAY, 7.0, connection=name, certificate_ends=self._now + 90 * _DAY)
                for number, name in enumerate(self.names)
                if number % 20
            }
        )

    def sessions(self, since: float) -> list[LinkSession]:
        """See `LinkSource`."""
        return [each for number, name in enumerate(self.names) for each in self._sessions_of(name, number)]

    def history(self, node: str) -> list[LinkSession]:
        """See `Journals`."""
        return list(self._sessions_of(node, self.names.index(node)))

    def device_values(self, query: ValueQuery) -> ValueList:
        """See `Journals`."""
        return ValueList()

    def writes(self, query: WriteQuery) -> WriteList:
        """See `Journals`."""
        return WriteList([], is_kept=False)

    def _sessions_of(self, name: str, number: int) -> Iterator[LinkSession]:
        ended = 0.0 if number % 20 else self._now - 600.0 - number
        if number % 7 == 0 and not ended:
            yield LinkSession(name, f"{name}/2", "cloud-a", self._now - 3000.0 - number)
            ended = self._now - 6000.0 - number
        yield LinkSession(name, f"{name}/1", "cloud-a", self._now - 6 * _DAY, ended, "no keepalive", "198.51.100.7")


def api_of(fleet: LargeFleet, clock: Clock) -> FleetApi:
    """Return what answers the questions of a page about a fleet; the stories of its pods are not there."""
    client: Any = fleet
    return fleet_api(client, fleet, clock, About("large", "1", "cloudcore"))


def _node(name: str, number: int) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-11-24T00:00:00Z"}
    info = {"kubeletVersion": f"v1.32.10-edgecore-0.{number % 3}.0", "architecture": "arm64"}
    labels = {"topology.kubernetes.io/zone": name.partition("-")[0]}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"nodeInfo": info, "conditions": [ready]},
    }


def _pod(node: str, number: int) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": f"app{number}", "uid": "u", "controller": True}
    metadata = {"namespace": f"team{number % 5}", "name": f"app{number}-{node}", "ownerReferences": [owner]}
    metadata["creationTimestamp"] = "2026-11-20T00:00:00Z"
    status = {"name": "c", "ready": True, "restartCount": 0, "state": {"running": {}}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": f"registry.example/app{number}:1.0"}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "containerStatuses": [status]}}


def _device(number: int, node: str) -> dict[str, Any]:
    wanted = [{"name": f"p{each}", "desired": {"value": "30"}} for each in range(5)]
    spec = {"nodeName": node, "deviceModelRef": {"name": "m"}, "properties": wanted}
    return {"metadata": {"namespace": "shop", "name": f"d{number:05}", "uid": str(number)}, "spec": spec}


def _model() -> dict[str, Any]:
    kinds = [{"name": f"p{each}", "type": "INT", "accessMode": "ReadWrite"} for each in range(5)]
    return {"metadata": {"namespace": "shop", "name": "m"}, "spec": {"properties": kinds}}


def _device_status(number: int) -> dict[str, Any]:
    value = {"value": "30", "metadata": {"timestamp": "1763942400000", "type": "INT"}}
    twins = [{"propertyName": f"p{each}", "reported": value, "observedDesired": value} for each in range(5)]
    metadata = {"namespace": "shop", "name": f"d{number:05}", "ownerReferences": [{"uid": str(number)}]}
    return {"metadata": metadata, "status": {"twins": twins, "state": "online"}}
