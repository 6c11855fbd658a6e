"""The module dmi: mappers of devices, between devicetwin and their sockets."""

import logging
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive import BeehiveError, Message, Module, ModuleName, ResourceType, handles
from beehive.runtime import Future
from edged.events.model import EventType
from edged.events.node_events import NodeEventRecorder
from edged.events.reasons import Reason
from metamanager.client import AsyncMetaClient, CallError
from modules.edge.dmi.catalogue import Catalogue, Key
from modules.edge.dmi.counters import DmiCounters
from modules.edge.dmi.errors import MapperCallRefused, RefusalStatus
from modules.edge.dmi.loading import CatalogueLoader
from modules.edge.dmi.mappers import MAX_MAPPERS, MapperRow, decode_mapper, encode_mapper, registered
from modules.edge.dmi.quotas import Quotas
from modules.edge.dmi.reporter import Reporter
from modules.edge.dmi.server import DmiServer, DmiSocketError
from modules.edge.dmi.session import MapperSession
from modules.edge.dmi.watchdog import ONLINE, UNKNOWN, Watchdog
from protos.dmi.v1beta1 import api_pb2 as dmi

_log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 30.0
"""Seconds between two checks for silent devices."""

BIND_AGAIN_AFTER: Final = 30.0
LOST_SECONDS: Final = 15.0
"""Seconds without a listener on a mapper's socket after which the mapper has ended: a restart takes less."""

READ_AGAIN_AFTER: Final = 5.0
STORE_SECONDS: Final = 30.0


class DmiSettings(msgspec.Struct, frozen=True):
    """Settings of dmi."""

    socket: Path
    """The socket of mappers' registrations."""
    node: str = ""
    """Name of the node, for its events."""
    group: str = ""
    """The group that may connect, a name or a number; empty for edgecore's."""
    report_rate: float = 200.0
    """Reports that one mapper may send per second."""
    report_burst: int = 500
    """Reports that it may send in a burst."""
    like_kubeedge: bool = False
    """Whether the desired value in a mapper's report becomes the expected one, and silent devices go unnoticed, as in
    KubeEdge."""
    look_period: float = 5.0
    """Seconds between two checks whether mappers have made new sockets."""


class Dmi(Module):
    """Connects mappers with the node: KubeEdge's DMI server and client.

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
        self._quotas = Quotas(settings.report_rate, settings.report_burst)
        self._meta = AsyncMetaClient(self, seconds=STORE_SECONDS)
        self._catalogue = Catalogue()
        self._loader = CatalogueLoader(self, self._meta, self._catalogue)
        self._watchdog = Watchdog()
        self._reporter = Reporter(
            self, self._quotas, counters, self._mapper_of, self._handle_stored_report, echo=settings.like_kubeedge
        )
        self._sessions: dict[str, MapperSession] = {}
        """The mapper of each protocol."""
        self._events = NodeEventRecorder(self, settings.node, self._meta)
        self._server: DmiServer | None = None
        self._problem = ""
        """The reason why the server could not be started; empty if it runs."""

    def on_start(self) -> None:
        """Read the mappers, then serve."""
        self._read_mappers()
        self.every(self._settings.look_period, self._check, jitter=0.1)
        if not self._settings.like_kubeedge:
            self.every(WATCH_SECONDS, self._watch, jitter=0.1)

    def on_stop(self) -> None:
        """Stop the server and the calls to mappers."""
        self._events.close()
        self._close()

    def on_failure(self, *_error: object) -> None:
        """Stop them; the restarted module starts new ones."""
        self._close()

    @handles(ResourceType.DEVICE)
    @handles(ResourceType.DEVICE_MODEL)
    @handles(ResourceType.DEVICE_TWIN)
    def changed(self, message: Message) -> None:
        """Take a Device or DeviceModel that metamanager has stored or deleted, passed on by devicetwin, or the owner's
        desired values for a device.
        """
        by_protocol: dict[str, list[Key]] = {}
        for protocol, key in sorted(self._loader.changed(message)):
            by_protocol.setdefault(protocol, []).append(key)
        for protocol, keys in by_protocol.items():
            session = self._sessions.get(protocol)
            if session is not None:
                session.mark(keys)

    def ask(self, request: Any) -> "Future[Any]":
        """Take a mapper's call, on any thread; the future gets the answer, or MapperCallRefused."""
        future: Future[Any] = self.runtime.future()
        self.call_soon(lambda: self._handle(request, future))
        return future

    def _read_mappers(self) -> None:
        def read(rows: list[bytes] | CallError) -> None:
            if isinstance(rows, CallError):
                _log.error("the mappers are not read, and are asked for again: %s", rows)
                self.after(READ_AGAIN_AFTER, self._read_mappers)
                return
            found = [row for row in map(_read_mapper, rows[:MAX_MAPPERS]) if row is not None]
            if found:
                self._loader.when_loaded(lambda error: self._begin(found, error))
            self._serve()

        self._meta.list_all(ResourceType.DEVICE_MAPPER, then=read)

    def _begin(self, rows: list[MapperRow], error: BeehiveError | None) -> None:
        """Call the mappers that registered with an earlier process of edgecore, unless they have registered again
        meanwhile.
        """
        if error is not None:
            _log.error("the devices of mappers are not read, and are asked for again: %s", error)
            self.after(READ_AGAIN_AFTER, lambda: self._loader.when_loaded(lambda again: self._begin(rows, again)))
            return
        for row in rows:
            if row.protocol not in self._sessions:
                session = self._sessions[row.protocol] = MapperSession(self, row, self._catalogue)
                session.begin()

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
        now = self.clock.monotonic()
        for session in self._sessions.values():
            session.check_socket()
            self._judge(session, now)
        self._counters.mappers = {
            one.row.name: (not one.lost_for(now), sum(1 for _ in self._catalogue.devices(protocol)))
            for protocol, one in self._sessions.items()
        }

    def _judge(self, session: MapperSession, now: float) -> None:
        """Note that a mapper has ended, and set the state of its devices; or that it is back."""
        devices = list(self._catalogue.devices(session.row.protocol))
        was_lost, session.is_lost = session.is_lost, session.lost_for(now) >= LOST_SECONDS
        if session.is_lost != was_lost:
            self._record_mapper(session, len(devices))
        for device, patience in devices if not self._settings.like_kubeedge else ():
            if session.is_lost and self._watchdog.lost(device, now):
                self._reporter.set_state(device, UNKNOWN)
            elif was_lost and not session.is_lost and not patience:
                self._handle_stored_report(device, "")  # no report will tell that it is back

    def _record_mapper(self, session: MapperSession, devices: int) -> None:
        """Record that a mapper has ended, or is back."""
        name, path = session.row.name, session.row.socket
        if session.is_lost:
            why = f"mapper {name} does not listen on {path}: the state of its devices ({devices}) is unknown"
            _log.warning("%s", why)
            self._events.record(EventType.WARNING, Reason.MAPPER_NOT_READY, why)
        else:
            self._events.record(EventType.NORMAL, Reason.MAPPER_READY, f"mapper {name} listens on {path} again")

    def _handle_stored_report(self, device: str, state: str) -> None:
        """Note a stored report about a device; `state` is empty for a report of values."""
        if self._watchdog.heard(device, self.clock.monotonic(), state):
            _log.info("device %s reports again", device)
            self._reporter.set_state(device, ONLINE)

    def _watch(self) -> None:
        """Set the state of devices that have fallen silent, and send them to their mappers again."""
        now, watched = self.clock.monotonic(), set()
        for session in self._sessions.values():
            for device, patience in list(self._catalogue.devices(session.row.protocol)):
                watched.add(device)
                is_unknown, is_due = self._watchdog.silent(device, patience, now)
                if is_unknown:
                    _log.warning("mapper %s has not reported of %s for %.0f s", session.row.name, device, patience)
                    self._reporter.set_state(device, UNKNOWN)
                if is_due:
                    session.resend(device)
        self._watchdog.keep(watched)

    def _handle(self, request: Any, future: "Future[Any]") -> None:
        try:
            if isinstance(request, dmi.MapperRegisterRequest):
                self._register(request, future)
            elif isinstance(request, dmi.ReportDeviceStatusRequest):
                self._reporter.twins(request, future)
            else:
                self._reporter.state(request, future)
        except MapperCallRefused as refused:
            self._reporter.refuse(future, refused)

    def _register(self, request: dmi.MapperRegisterRequest, future: "Future[Any]") -> None:
        row = registered(request)
        self._quotas.registration(row.protocol, self.clock.monotonic())
        if row.protocol not in self._sessions and len(self._sessions) >= MAX_MAPPERS:
            raise MapperCallRefused(RefusalStatus.RESOURCE_EXHAUSTED, f"a node has at most {MAX_MAPPERS} mappers")

        def loaded(error: BeehiveError | None) -> None:
            if error is not None:
                self._unavailable(future, f"the node's devices cannot be read: {error}")
                return
            known = self._sessions.get(row.protocol)
            if known is not None and known.row == row:
                stored(None)
                return
            self._meta.update(ResourceType.DEVICE_MAPPER, "", row.name, encode_mapper(row), then=stored)

        def stored(result: bytes | CallError | None) -> None:
            if isinstance(result, CallError):
                self._unavailable(future, f"the mapper cannot be stored: {result}")
                return
            future.set(self._registered(row, with_data=request.withData))

        self._loader.when_loaded(loaded)

    def _unavailable(self, future: "Future[Any]", why: str) -> None:
        self._reporter.refuse(future, MapperCallRefused(RefusalStatus.UNAVAILABLE, why))

    def _registered(self, row: MapperRow, *, with_data: bool) -> dmi.MapperRegisterResponse:
        """Take a mapper whose row is stored. A mapper has one protocol, and a protocol one mapper: the last to
        register.
        """
        for other in list(self._sessions.values()):
            if (other.row.name == row.name) != (other.row.protocol == row.protocol):
                self._forget(other, keep_row=other.row.name == row.name)
        session = self._sessions.get(row.protocol)
        if session is None:
            session = self._sessions[row.protocol] = MapperSession(self, row, self._catalogue)
        answer = session.register(row, with_data=with_data)
        _log.info("mapper %s has registered for %s: %d devices", row.name, row.protocol, len(answer.deviceList))
        self._counters.registrations += 1
        return answer

    def _forget(self, session: MapperSession, *, keep_row: bool) -> None:
        _log.warning("mapper %s has the protocol %s no more", session.row.name, session.row.protocol)
        session.close()
        del self._sessions[session.row.protocol]

        def deleted(result: CallError | None) -> None:
            if result is not None:
                _log.error("mapper %s stays in the node's store: %s", session.row.name, result)

        if not keep_row:
            self._meta.delete(ResourceType.DEVICE_MAPPER, "", session.row.name, {}, then=deleted)

    def _mapper_of(self, device: str) -> str:
        """Return the mapper of a device, empty for none."""
        session = self._sessions.get(self._catalogue.protocol(device))
        return session.row.name if session is not None else ""

    def _close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None
        for session in self._sessions.values():
            session.close()


def _read_mapper(text: bytes) -> MapperRow | None:
    try:
        return decode_mapper(text)
    except (msgspec.DecodeError, UnicodeError, MapperCallRefused) as error:
        _log.error("a stored mapper cannot be read, and has to register again: %s", error)
        return None
