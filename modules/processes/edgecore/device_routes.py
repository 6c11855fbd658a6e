"""The routes for devices on the owner's socket: they set desired values, and watch changes."""

from collections.abc import Generator
from typing import Final

import msgspec

from beehive import BeehiveError, Hive, Message, ModuleName, Operation
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Peer, Response, Stream, text
from beehive.http.router import HttpRoute
from modules.edge.devicetwin import topics
from modules.edge.devicetwin.feed import DeviceFeed, Listener, TwinChange
from modules.edge.devicetwin.owner import OwnerAnswer
from modules.processes.edgecore.socket_path import DEVICES_PATH

SECONDS: Final = 30.0
"""Longest wait for devicetwin, which waits for the node's database."""

LONGEST_WAIT: Final = 3600.0
"""Longest single wait of a watch, in seconds; nothing is sent at its end."""


class DeviceRoutes:
    """Sets desired values, and streams changes as lines of JSON (`TwinChange`).

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
        message = Message.new(
            self._hive.clock,
            source=topics.OWNER_SOURCE,
            resource=topics.owner_resource(_device(request)),
            operation=Operation.UPDATE,
            content=request.body,
        )
        try:
            answer = self._hive.request(ModuleName.DEVICETWIN, message, SECONDS).get().content_as(OwnerAnswer)
        except BeehiveError as error:
            raise HttpStatusError(503, "devicetwin does not answer", hint=str(error)) from error
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
    """Yield changes until the client goes. The first line says that the watch has begun."""
    yield msgspec.json.encode(TwinChange("watching")) + b"\n"
    while not peer.gone_within(LONGEST_WAIT, listener.descriptor):
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in listener.take())
        if lines:
            yield lines


def _device(request: Request) -> str:
    device = request.first("device")
    if not topics.is_device_id(device):
        raise HttpStatusError(400, "no device", hint="?device=NAMESPACE/NAME names one")
    return device
