"""Routes of the owner's socket: devices, Services and names, and the steps of a pod that are kept on the disk."""

from collections.abc import Generator
from functools import partial
from typing import Final, TypeVar

import msgspec

from beehive import BeehiveError, Hive, Message, ModuleName, Operation
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Peer, Response, Stream, json, text
from beehive.http.router import HttpRoute
from edged.pods import hold
from edged.server.snapshots import Snapshots
from modules.edge.devicetwin import topics
from modules.edge.devicetwin.feed import DeviceFeed, Listener, TwinChange
from modules.edge.devicetwin.owner import OwnerAnswer
from modules.edge.taskmanager import owner as tasks
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.socket_path import DEVICES_PATH, JOB_PATH, RELEASE_PATH, RESOLVE_PATH, SERVICES_PATH

T = TypeVar("T")

SECONDS: Final = 30.0
"""Longest wait for devicetwin, which waits for the node's database."""

LONGEST_WAIT: Final = 3600.0
"""Longest single wait of a watch, in seconds; nothing is sent at its end."""

_PATTERN: Final = "/edgecore/chains/{namespace}/{pod}"

MESH_SECONDS: Final = 25.0
"""Longest wait for edgemesh, which may ask other name servers."""
LONGEST_NAME: Final = 300
"""Characters of a name."""


def _answer(hive: Hive, module: ModuleName, message: Message, kind: type[T], seconds: float = SECONDS) -> T:
    """Return a module's answer to a question of the owner. Raises HttpStatusError without one."""
    try:
        answer: Message = hive.request(module, message, seconds).get()
        return answer.content_as(kind)
    except BeehiveError as error:
        raise HttpStatusError(503, f"{module.name.lower()} does not answer", hint=str(error)) from error


class DeviceRoutes:
    """The routes that set desired values, and stream changes as lines of JSON (`TwinChange`).

    Args:
        hive: has devicetwin.
        feed: tells the changes; None where devicetwin does not run.
    """

    def __init__(self, hive: Hive, feed: DeviceFeed | None) -> None:
        self._hive = hive
        self._feed = feed

    @property
    def routes(self) -> list[HttpRoute]:
        """The routes of this handler."""
        return [HttpRoute(DEVICES_PATH, self.watch), HttpRoute(DEVICES_PATH, self.set, ("PATCH",))]

    def set(self, request: Request) -> Response:
        """Set the desired values in the body: an object of properties and values, null to give one back."""
        self._running()
        where = {"source": topics.OWNER_SOURCE, "resource": topics.owner_resource(_device(request))}
        message = Message.new(self._hive.clock, **where, operation=Operation.UPDATE, content=request.body)
        answer = _answer(self._hive, ModuleName.DEVICETWIN, message, OwnerAnswer)
        if answer.code:
            return text(answer.code, f"{answer.reason}\n")
        return Response(200, "application/json", msgspec.json.encode(answer))

    def watch(self, request: Request) -> Stream:
        """Stream the changes of one device, or of all."""
        feed, device = self._running(), request.first("device")

        def pieces(peer: Peer) -> Generator[bytes, None, None]:
            with feed.listening(device) as listener:
                yield from _lines(listener, peer)

        return Stream("application/json", pieces, lambda: None)

    def _running(self) -> DeviceFeed:
        if self._feed is None:
            raise HttpStatusError(503, "this node has no devices", hint="modules.deviceTwin.enable is false")
        return self._feed


def _lines(listener: Listener, peer: Peer) -> Generator[bytes, None, None]:
    """Yield changes until the client goes. The first line announces that the watch has begun."""
    yield msgspec.json.encode(TwinChange("watching")) + b"\n"
    while not peer.gone_within(LONGEST_WAIT, listener.wakeup.fileno()):
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in listener.drain())
        if lines:
            yield lines


def _device(request: Request) -> str:
    device = request.first("device")
    if not topics.is_device_id(device):
        raise HttpStatusError(400, "no device", hint="?device=NAMESPACE/NAME names one")
    return device


def job_routes(hive: Hive) -> list[HttpRoute]:
    """Return the routes that show the job of the cloud that is under way, and confirm one that waits."""

    def ask(verb: tasks.OwnerVerb, _request: Request) -> Response:
        asked = {"source": tasks.OWNER, "resource": tasks.RESOURCE, "operation": verb}
        message = Message.new(hive.clock, content=None, **asked)
        return json(msgspec.json.encode(_answer(hive, ModuleName.TASKMANAGER, message, tasks.JobShown)))

    return [
        HttpRoute(JOB_PATH, partial(ask, tasks.OwnerVerb.SHOW)),
        HttpRoute(JOB_PATH, partial(ask, tasks.OwnerVerb.CONFIRM), ("POST",)),
    ]


class ReleaseRoutes:
    """The routes that let pods begin that wait for the owner of the node.

    Args:
        hive: has edged.
        node: name of the node.
    """

    def __init__(self, hive: Hive, node: str) -> None:
        self._hive = hive
        self._node = node

    @property
    def routes(self) -> list[HttpRoute]:
        """The routes of this handler."""
        return [HttpRoute(RELEASE_PATH, self.release, ("POST",))]

    def release(self, request: Request) -> Response:
        """Release the pod in the query, or all."""
        namespace, name = request.first("namespace")[:LONGEST_NAME], request.first("name")[:LONGEST_NAME]
        return json(msgspec.json.encode(self._ask(hold.Release(namespace, name))))

    def unhold(self, plural: str, key: str) -> Response:
        """Answer a request of KubeEdge's `keadm ctl unhold-upgrade`, in its statuses.

        Args:
            plural: pods or nodes.
            key: `NAMESPACE/NAME` of a pod, or the name of this node.
        """
        namespace, slash, name = key.partition("/")
        if plural == "nodes" and key == self._node:
            self._ask(hold.Release())
        elif plural == "nodes":
            raise HttpStatusError(404, "node not found", hint=f"this is {self._node}")
        elif plural != "pods" or not (namespace and slash and name):
            raise HttpStatusError(400, "invalid format", hint="NAMESPACE/NAME of a pod, or the name of this node")
        elif not (found := self._ask(hold.Release(namespace, name))).is_known:
            raise HttpStatusError(404, "pod not found")
        elif not found.pods:
            raise HttpStatusError(400, "the pod does not wait for a release")
        return text(200, "")

    def _ask(self, asked: hold.Release) -> hold.Released:
        """Release pods. Raises HttpStatusError."""
        where = {"source": hold.OWNER, "resource": hold.RESOURCE, "operation": Operation.UNHOLD_UPGRADE}
        message = Message.new(self._hive.clock, **where, content=asked)
        return _answer(self._hive, ModuleName.EDGED, message, hold.Released)


def chain_route(snapshots: Snapshots) -> HttpRoute:
    """Return the route.

    Args:
        snapshots: has the chains while edged runs.
    """

    def serve(request: Request) -> Response:
        reports = snapshots.reports
        if reports is None:
            raise HttpStatusError(503, "edged does not run", hint="it starts, or was stopped")
        *_, namespace, name = request.parts
        found = reports.chain(namespace, name)
        if found is None:
            raise HttpStatusError(404, f"no steps of a pod {namespace}/{name} are known")
        return json(found)

    return HttpRoute(_PATTERN, serve)


class MeshRoutes:
    """The routes of the Services and the meaning of a name, answered by edgemesh, whose code only a node has that runs
    it.

    Args:
        hive: may have edgemesh.
        config: of the node.
    """

    def __init__(self, hive: Hive, config: EdgeCoreConfig) -> None:
        self._hive = hive
        self._is_on = config.modules.edge_mesh.enable and config.modules.meta_manager.enable

    @property
    def routes(self) -> list[HttpRoute]:
        """The routes of this handler."""
        return [HttpRoute(SERVICES_PATH, self.services), HttpRoute(RESOLVE_PATH, self.resolve)]

    def services(self, request: Request) -> Response:
        """Return a `ServicesAnswer`: all Services, a namespace's, or one."""
        self._check()
        from modules.edge.edgemesh.owner import SERVICES, ServicesRequest  # noqa: PLC0415 - see the class

        wanted = ServicesRequest(request.first("namespace")[:LONGEST_NAME], request.first("name")[:LONGEST_NAME])
        return Response(200, "application/json", bytes(self._ask(SERVICES, wanted, msgspec.Raw)))

    def resolve(self, request: Request) -> Response:
        """Return a `Resolution`."""
        self._check()
        from modules.edge.edgemesh.dns.explaining import TYPES  # noqa: PLC0415 - see the class
        from modules.edge.edgemesh.owner import RESOLVE, NameAnswer, ResolveRequest  # noqa: PLC0415 - see the class

        name, type_ = request.first("name"), request.first("type").upper()
        if not 0 < len(name) <= LONGEST_NAME or type_ not in ("", *TYPES):
            raise HttpStatusError(400, "no name", hint=f"?name=NAME&type=TYPE, with a type of {', '.join(TYPES)}")
        wanted = ResolveRequest(name, request.first("namespace")[:LONGEST_NAME] or "default", type_)
        answer = self._ask(RESOLVE, wanted, NameAnswer)
        if answer.error:
            return text(400, f"{answer.error}\n")
        return Response(200, "application/json", answer.body)

    def _check(self) -> None:
        if not self._is_on:
            raise HttpStatusError(503, "this node serves no Services", hint="modules.edgeMesh.enable is false")

    def _ask(self, operation: str, content: object, kind: type[T]) -> T:
        from modules.edge.edgemesh.owner import RESOURCE  # noqa: PLC0415 - see the class

        asking = Message.new(self._hive.clock, source="owner", resource=RESOURCE, operation=operation, content=content)
        return _answer(self._hive, ModuleName.EDGEMESH, asking, kind, MESH_SECONDS)
