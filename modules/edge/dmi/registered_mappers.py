"""The registered mappers: their rows in the store, their sessions, and their calls.

It brings the generated messages of DMI and the objects of devices, half a megabyte, so that it is imported with the
first mapper.
"""

import logging
from functools import partial
from typing import Any, Final

import msgspec

from beehive import BeehiveError, Message, Module, ResourceType
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
from modules.edge.dmi.reports import DeviceRefusal
from modules.edge.dmi.session import MapperSession
from modules.edge.dmi.settings import DmiSettings
from modules.edge.dmi.watchdog import ONLINE, UNKNOWN, Watchdog
from protos.dmi.v1beta1 import api_pb2 as dmi

_log = logging.getLogger(__name__)

LOST_SECONDS: Final = 15.0
"""Seconds without a listener on a mapper's socket after which the mapper has ended: a restart takes less."""
READ_AGAIN_AFTER: Final = 5.0


class RegisteredMappers:
    """The registered mappers, which are called and whose calls are taken, on the thread of dmi.

    Args:
        module: dmi.
        settings: of dmi.
        counters: of registrations and reports.
        meta: the store.
    """

    def __init__(self, module: Module, settings: DmiSettings, counters: DmiCounters, meta: AsyncMetaClient) -> None:
        self._module = module
        self._settings = settings
        self._counters = counters
        self._quotas = Quotas(settings.report_rate, settings.report_burst)
        self._meta = meta
        self._catalogue = Catalogue()
        self._loader = CatalogueLoader(module, meta, self._catalogue)
        self._watchdog = Watchdog()
        self._reporter = Reporter(
            module, self._quotas, counters, self._mapper_of, self._handle_stored_report, echo=settings.like_kubeedge
        )
        self._sessions: dict[str, MapperSession] = {}
        """The mapper of each protocol."""
        self._refused: dict[str, str] = {}
        """The devices that their mappers do not take, each with the reason."""
        self._being_stored: list[str] = []
        """The protocols of registrations whose rows are on their way to the store."""
        self._events = NodeEventRecorder(module, settings.node, meta)

    def send_changed(self, message: Message) -> None:
        """Send mappers a Device or DeviceModel that metamanager has stored or deleted, passed on by devicetwin, or the
        owner's desired values for a device.
        """
        by_protocol: dict[str, list[Key]] = {}
        for protocol, key in sorted(self._loader.changed(message)):
            by_protocol.setdefault(protocol, []).append(key)
        for protocol, keys in by_protocol.items():
            session = self._sessions.get(protocol)
            if session is not None:
                session.mark(keys)

    def restore(self, rows: list[bytes]) -> None:
        """Call the mappers that registered with an earlier process of edgecore."""
        for row in map(_read_mapper, rows[:MAX_MAPPERS]):
            if row is not None and row.protocol not in self._sessions:
                self._sessions[row.protocol] = self._session(row)
        if self._sessions:
            earlier = [(session, session.row) for session in self._sessions.values()]
            self._loader.when_loaded(lambda error: self._begin(earlier, error))

    def handle(self, request: Any, future: "Future[Any]") -> None:
        """Handle a call of a mapper; the future gets the answer, or MapperCallRefused."""
        try:
            if isinstance(request, dmi.MapperRegisterRequest):
                self._register(request, future)
            elif isinstance(request, dmi.ReportDeviceStatusRequest):
                self._reporter.twins(request, future)
            elif isinstance(request, DeviceRefusal) and not self._settings.like_kubeedge:
                self._judge_device(self._reporter.refusal(request, future), request.why)
            elif isinstance(request, DeviceRefusal):
                self._reporter.state(request.request, future)
            else:
                self._reporter.state(request, future)
        except MapperCallRefused as refused:
            self._reporter.refuse(future, refused)

    def check(self) -> None:
        """Look whether the mappers still listen on their sockets."""
        if not self._loader.is_loaded:
            return
        now = self._module.clock.monotonic()
        for session in self._sessions.values():
            session.check_socket()
            self._judge(session, now)
        self._counters.mappers = {
            one.row.name: (not one.lost_for(now), sum(1 for _ in self._catalogue.devices(protocol)))
            for protocol, one in self._sessions.items()
        }

    def watch(self) -> None:
        """Set the state of devices that have fallen silent, and send them to their mappers again."""
        now, watched = self._module.clock.monotonic(), set()
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
        self._refused = {device: why for device, why in self._refused.items() if device in watched}

    def close(self) -> None:
        """End the calls to mappers."""
        self._events.close()
        for session in self._sessions.values():
            session.close()

    def _begin(self, earlier: list[tuple[MapperSession, MapperRow]], error: BeehiveError | None) -> None:
        """Call the mappers that registered with an earlier process of edgecore, unless they, or others in their place,
        have registered meanwhile.
        """
        if error is not None:
            _log.error("the devices of mappers are not read, and are asked for again: %s", error)
            again = partial(self._loader.when_loaded, partial(self._begin, earlier))
            self._module.after(READ_AGAIN_AFTER, again)
            return
        for session, row in earlier:
            if self._sessions.get(row.protocol) is session and session.row is row:
                session.begin()

    def _judge(self, session: MapperSession, now: float) -> None:
        """Note that a mapper has ended, and set the state of its devices; or that it is back."""
        lost_for = session.lost_for(now)
        if not session.is_known or 0.0 < lost_for < LOST_SECONDS:
            return
        devices = list(self._catalogue.devices(session.row.protocol))
        was_lost, session.is_lost = session.is_lost, lost_for > 0.0
        if session.is_lost != bool(was_lost):
            self._record_mapper(session, len(devices))
        for device, patience in devices if not self._settings.like_kubeedge else ():
            if session.is_lost:
                if self._watchdog.lost(device, now):
                    self._reporter.set_state(device, UNKNOWN)
            elif was_lost is not False and not patience:
                self._reporter.check_state(device)  # no report will tell that it is back

    def _record_mapper(self, session: MapperSession, devices: int) -> None:
        """Record that a mapper has ended, or is back."""
        name, path = session.row.name, session.row.socket
        if session.is_lost:
            why = f"mapper {name} does not listen on {path}: the state of its devices ({devices}) is unknown"
            _log.warning("%s", why)
            self._events.record(EventType.WARNING, Reason.MAPPER_NOT_READY, why)
        else:
            self._events.record(EventType.NORMAL, Reason.MAPPER_READY, f"mapper {name} listens on {path} again")

    def _handle_stored_report(self, device: str, state: str, known_state: str = "") -> None:
        """Note a stored report about a device; `state` is empty for a report of values, `known_state` unless the
        device's is unknown.
        """
        if device in self._refused:
            return
        is_unknown = known_state.lower() == UNKNOWN and not self._settings.like_kubeedge
        if self._watchdog.observe(device, self._module.clock.monotonic(), state, is_unknown=is_unknown):
            _log.info("device %s reports again", device)
            self._reporter.set_state(device, ONLINE)

    def _register(self, request: dmi.MapperRegisterRequest, future: "Future[Any]") -> None:
        row = registered(request)
        self._quotas.registration(row.protocol, self._module.clock.monotonic())

        def loaded(error: BeehiveError | None) -> None:
            if error is not None:
                self._unavailable(future, f"the node's devices cannot be read: {error}")
                return
            known = self._sessions.get(row.protocol)
            if known is not None and known.row == row:
                future.set(self._registered(row, with_data=request.withData))
                return
            protocols = {*self._sessions, *self._being_stored}
            if row.protocol not in protocols and len(protocols) >= MAX_MAPPERS:
                why = f"a node has at most {MAX_MAPPERS} mappers"
                self._reporter.refuse(future, MapperCallRefused(RefusalStatus.RESOURCE_EXHAUSTED, why))
                return
            self._being_stored.append(row.protocol)
            self._meta.update(ResourceType.DEVICE_MAPPER, "", row.name, encode_mapper(row), then=stored)

        def stored(result: bytes | CallError | None) -> None:
            self._being_stored.remove(row.protocol)
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
            session = self._sessions[row.protocol] = self._session(row)
        answer = session.register(row, with_data=with_data)
        _log.info("mapper %s has registered for %s: %d devices", row.name, row.protocol, len(answer.deviceList))
        self._counters.registrations += 1
        for device in [each for each in self._refused if self._catalogue.protocol(each) == row.protocol]:
            self._judge_device(device, "")
        return answer

    def _session(self, row: MapperRow) -> MapperSession:
        return MapperSession(self._module, row, self._catalogue, self._judge_device)

    def _judge_device(self, device: str, why: str) -> None:
        """Note why a mapper does not take a device; empty if it does. The state of one that it does not is unknown."""
        if self._settings.like_kubeedge or self._refused.get(device, "") == why:
            return
        if why:
            self._refused[device] = why
            self._watchdog.refused(device, self._module.clock.monotonic())
            self._reporter.set_state(device, UNKNOWN, why)
            return
        del self._refused[device]
        if self._catalogue.patience(device):
            self._reporter.set_state(device, UNKNOWN)  # until it reports
        else:
            self._reporter.check_state(device)

    def _forget(self, session: MapperSession, *, keep_row: bool) -> None:
        _log.warning("mapper %s has the protocol %s no more", session.row.name, session.row.protocol)
        session.close()
        del self._sessions[session.row.protocol]

        def deleted(result: CallError | None) -> None:
            if result is not None:
                _log.error("mapper %s stays in the node's store: %s", session.row.name, result)

        if not keep_row:
            self._meta.delete(ResourceType.DEVICE_MAPPER, "", session.row.name, {}, then=deleted)

    def _mapper_of(self, device: str) -> MapperRow | None:
        """Return the mapper of a device, None without one."""
        session = self._sessions.get(self._catalogue.protocol(device))
        return session.row if session is not None else None


def _read_mapper(text: bytes) -> MapperRow | None:
    try:
        return decode_mapper(text)
    except (msgspec.DecodeError, UnicodeError, MapperCallRefused) as error:
        _log.error("a stored mapper cannot be read, and has to register again: %s", error)
        return None
