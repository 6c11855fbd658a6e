"""The module dmi: mappers of devices, between devicetwin and their sockets."""

import logging
from typing import TYPE_CHECKING, Any, Final

from beehive import Message, Module, ModuleName, ResourceType, handles
from beehive.runtime import Future
from metamanager.client import AsyncMetaClient, CallError
from modules.edge.dmi.counters import DmiCounters
from modules.edge.dmi.server import DmiServer, DmiSocketError
from modules.edge.dmi.settings import DmiSettings

if TYPE_CHECKING:
    from modules.edge.dmi.registered_mappers import RegisteredMappers

_log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 30.0
"""Seconds between two checks for silent devices."""

BIND_AGAIN_AFTER: Final = 30.0
READ_AGAIN_AFTER: Final = 5.0
STORE_SECONDS: Final = 30.0


class Dmi(Module):
    """The module that connects mappers with the node: KubeEdge's DMI server and client.

    A registered mapper has a row in the node's store, so that it is called after a restart of edgecore too. It gets the
    stored Device and DeviceModel objects, no matter which cloud sent them. Without a mapper no object is read. A
    mapper's report goes to devicetwin like an application's report by MQTT, and is answered when it is stored. No
    message of a mapper can end the module.

    Args:
        settings: of dmi.
        counters: of registrations and reports.
    """

    name = ModuleName.DMI

    def __init__(self, settings: DmiSettings, counters: DmiCounters) -> None:
        super().__init__()
        self._settings = settings
        self._counters = counters
        self._meta = AsyncMetaClient(self, seconds=STORE_SECONDS)
        self._registered: RegisteredMappers | None = None
        """None before the first mapper."""
        self._server: DmiServer | None = None
        self._problem = ""
        """The reason why the server could not be started; empty if it runs."""

    def on_start(self) -> None:
        """Read the mappers, then serve."""
        self._read_mappers()
        self.every(self._settings.look_period, self._check, jitter=0.1)
        if not self._settings.like_kubeedge:
            self.every(WATCH_SECONDS, self._watch, jitter=0.1)

    def on_end(self) -> None:
        """Stop the server and the calls to mappers; a restarted module starts new ones."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._registered is not None:
            self._registered.close()

    @handles(ResourceType.DEVICE)
    @handles(ResourceType.DEVICE_MODEL)
    @handles(ResourceType.DEVICE_TWIN)
    def changed(self, message: Message) -> None:
        """Take a Device or DeviceModel that metamanager has stored or deleted, passed on by devicetwin, or the owner's
        desired values for a device.
        """
        if self._registered is not None:
            self._registered.send_changed(message)

    def ask(self, request: Any) -> "Future[Any]":
        """Take a mapper's call, on any thread; the future gets the answer, or MapperCallRefused."""
        future: Future[Any] = self.runtime.future()
        self.call_soon(lambda: self._mappers().handle(request, future))
        return future

    def _read_mappers(self) -> None:
        def read(rows: list[bytes] | CallError) -> None:
            if isinstance(rows, CallError):
                _log.error("the mappers are not read, and are asked for again: %s", rows)
                self.after(READ_AGAIN_AFTER, self._read_mappers)
                return
            if rows:
                self._mappers().restore(rows)
            self._serve()

        self._meta.list_all(ResourceType.DEVICE_MAPPER, then=read)

    def _mappers(self) -> "RegisteredMappers":
        if self._registered is None:
            # imported only here: a node without mappers does not load it
            from modules.edge.dmi.registered_mappers import RegisteredMappers  # noqa: PLC0415

            self._registered = RegisteredMappers(self, self._settings, self._counters, self._meta)
        return self._registered

    def _serve(self) -> None:
        server = DmiServer(self._settings.socket, self._settings.group, self.ask, self.clock)
        try:
            server.start()
        except DmiSocketError as error:
            server.stop()
            if str(error) != self._problem:
                _log.warning("%s; tried again every %.0f s", error, BIND_AGAIN_AFTER)
            self._problem = str(error)
            self.after(BIND_AGAIN_AFTER, self._serve)
            return
        self._server = server

    def _check(self) -> None:
        if self._registered is not None:
            self._registered.check()

    def _watch(self) -> None:
        if self._registered is not None:
            self._registered.watch()
