"""The mapper itself: its server, its registration at edgecore, and its reports."""

import argparse
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc

from beehive import log_lines
from beehive.backoff import Backoff
from beehive.clock import Clock, RealClock
from beehive.http.http_server import HttpServer
from beehive.sockets.ports import ListenError
from edgecore_mapper.devices import Drivers, MappedDevices
from edgecore_mapper.driver import DriverSpec
from edgecore_mapper.service import start_rest, start_service
from protos.dmi.v1beta1 import MANAGER, REFUSAL
from protos.dmi.v1beta1 import api_pb2 as dmi

_log = logging.getLogger(__name__)

EDGECORE: Final = Path("/etc/kubeedge/dmi.sock")
"""Default path of edgecore's socket."""

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 30.0
"""Bounds in seconds of the random delay before a registration is retried."""
LEAST_DELAY: Final = 0.1
"""Seconds that are added to the delay."""

LOOK_SECONDS: Final = 2.0
"""Seconds between two checks whether edgecore has made a new socket."""

CALL_SECONDS: Final = 5.0

_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.min_reconnect_backoff_ms", 5000),  # edgecore may have to start its server first
    ("grpc.max_reconnect_backoff_ms", 2000),
)


class Mapper:
    """A mapper of one protocol.

        Mapper("thermometers", "demo", {"thermometer": Thermometer}).run()

    It registers with edgecore, again after each restart of edgecore, and gets its devices from it. Each device has a
    driver and a thread. Only changed values are reported, and a report that edgecore did not accept is repeated.

    Args:
        name: of the mapper.
        protocol: `protocolName` of its devices.
        drivers: makes a driver, by the name of the device's model; `*` for all other models.
        edgecore: edgecore's socket.
        socket: its own socket; by default beside edgecore's, under its name.
        clock: measures cycles.
        http_port: on 127.0.0.1, where methods of devices are called; 0 takes a free one; None for no port.
    """

    def __init__(
        self,
        name: str,
        protocol: str,
        drivers: Drivers,
        *,
        edgecore: Path = EDGECORE,
        socket: Path | None = None,
        clock: Clock | None = None,
        http_port: int | None = None,
    ) -> None:
        self._edgecore = edgecore
        self._socket = (socket or edgecore.with_name(f"{name}.sock")).absolute()
        self._clock = clock or RealClock()
        address = os.fsencode(self._socket)
        self._info = dmi.MapperInfo(
            name=name, version="v1", api_version="v1beta1", protocol=protocol, address=address, state="ok"
        )
        self._devices = MappedDevices(drivers, self, self._clock)
        self._http_port = http_port
        self._rest: HttpServer | None = None
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY, LEAST_DELAY)
        self._stopped = threading.Event()
        self._lost = threading.Event()
        self._registered_at: tuple[int, int] | None = None
        """Stamp of the socket at the last registration: an edgecore that was started again since may have another
        database, or Devices that were made again.
        """
        self._refusals: dict[str, grpc.StatusCode] = {}
        """Devices whose last report was not accepted, and why."""
        self._channel_lock = threading.Lock()
        self._channel: grpc.Channel | None = None

    @property
    def port(self) -> int:
        """The TCP port of methods, while it is served; else 0."""
        return self._rest.port if self._rest is not None else 0

    def run(self) -> None:
        """Serve until `stop`; the calling thread keeps the mapper registered."""
        self._open_rest()
        server = self._served()
        try:
            while not self._stopped.is_set():
                stamp = _stamp(self._edgecore)
                if self._register(stamp):
                    self._watch(stamp)
                else:
                    self._stopped.wait(self._backoff.next(self._clock.random))
        finally:
            self._devices.stop()
            self._close_rest()
            if server is not None:
                server.stop(None).wait()
                self._socket.unlink(missing_ok=True)
            self._drop_channel()

    def _open_rest(self) -> None:
        if self._http_port is not None:
            try:
                self._rest = start_rest(self._http_port, self._devices, self._clock)
            except ListenError as error:
                _log.error("no method of a device can be called: %s", error)

    def _close_rest(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.stop()

    def stop(self) -> None:
        """Make `run` return; may be called on any thread."""
        self._stopped.set()
        self._lost.set()

    def values(self, spec: DriverSpec, values: Mapping[str, str]) -> bool:
        """Report values; called on the threads of devices."""
        now = str(self._clock.now_ms())
        twins = []
        for name, value in sorted(values.items()):
            prop = spec.properties[name]
            metadata = {"timestamp": now, "type": prop.type.lower()}
            reported = dmi.TwinProperty(value=value, metadata=metadata)
            observed = dmi.TwinProperty(value=prop.desired, metadata=metadata)
            twins.append(dmi.Twin(propertyName=name, observedDesired=observed, reported=reported))
        namespace, _, device = spec.id.partition("/")
        status = dmi.DeviceStatus(twins=twins)
        request = dmi.ReportDeviceStatusRequest(deviceName=device, deviceNamespace=namespace, reportedDevice=status)
        return self._reported(spec, "ReportDeviceStatus", request, dmi.ReportDeviceStatusResponse)

    def state(self, spec: DriverSpec, state: str) -> bool:
        """Report a state; called on the threads of devices."""
        namespace, _, device = spec.id.partition("/")
        request = dmi.ReportDeviceStatesRequest(deviceName=device, deviceNamespace=namespace, state=state)
        return self._reported(spec, "ReportDeviceStates", request, dmi.ReportDeviceStatesResponse)

    def _reported(self, spec: DriverSpec, method: str, request: Any, answer: type[Any]) -> bool:
        try:
            self._call(method, request, answer)
        except grpc.RpcError as error:
            return self._refused(spec, error.code(), error.details() or "")
        except ValueError:  # another thread has just closed the channel
            return False
        self._refusals.pop(spec.id, None)
        return True

    def _refused(self, spec: DriverSpec, code: grpc.StatusCode, why: str) -> bool:
        """Note that a report was not accepted; return whether it need not be repeated."""
        if code == grpc.StatusCode.UNAVAILABLE:
            self._lost.set()
        elif code not in (grpc.StatusCode.CANCELLED, self._refusals.get(spec.id)):
            self._refusals[spec.id] = code
            _log.warning("edgecore does not take a report of %s: %s; %s", spec.id, why, code.name)
        return code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)

    def _served(self) -> grpc.Server | None:
        """Open the mapper's socket as soon as its directory exists; return None if `stop` is called before that."""
        while not self._stopped.is_set():
            try:
                server = start_service(self._socket, self._devices)
            except (OSError, RuntimeError) as error:
                if not self._backoff.failures:
                    _log.warning("no socket at %s: %s; tried again", self._socket, error)
                self._stopped.wait(self._backoff.next(self._clock.random))
            else:
                self._backoff.reset()
                return server
        return None

    def _register(self, stamp: tuple[int, int] | None) -> bool:
        request = dmi.MapperRegisterRequest(withData=True, mapper=self._info)
        self._lost.clear()
        self._devices.record_changes()
        try:
            answer = self._call("MapperRegister", request, dmi.MapperRegisterResponse)
        except grpc.RpcError as error:
            if not self._backoff.failures:
                _log.warning("not registered at %s: %s; tried again", self._edgecore, error.details())
            self._drop_channel()
            return False
        self._backoff.reset()
        _log.info("registered at %s for %s: %d devices", self._edgecore, self._info.protocol, len(answer.deviceList))
        before, self._registered_at = self._registered_at, stamp
        models, devices = list(answer.modelList), list(answer.deviceList)
        for key, why in self._devices.replace(models, devices, tells_all=before != stamp).items():
            self._report_refusal(key, why)
        return True

    def _report_refusal(self, key: str, why: str) -> None:
        """Tell edgecore that a device of its answer is not served; it learns the refusals of its calls from them."""
        namespace, _, name = key.partition("/")
        request = dmi.ReportDeviceStatesRequest(deviceName=name, deviceNamespace=namespace, state="unknown")
        try:
            self._call("ReportDeviceStates", request, dmi.ReportDeviceStatesResponse, ((REFUSAL, why.encode()),))
        except (grpc.RpcError, ValueError) as error:
            _log.warning("edgecore is not told that %s is refused: %s", key, error)

    def _watch(self, stamp: tuple[int, int] | None) -> None:
        """Wait until edgecore has ended or was restarted."""
        while not self._stopped.is_set() and _stamp(self._edgecore) == stamp:
            if self._lost.wait(LOOK_SECONDS):
                break
        self._drop_channel()

    def _call(self, method: str, request: Any, answer: type[Any], metadata: tuple[tuple[str, bytes], ...] = ()) -> Any:
        with self._channel_lock:
            if self._channel is None:
                self._channel = grpc.insecure_channel(f"unix:{self._edgecore}", options=_OPTIONS)
            call: Callable[..., Any] = self._channel.unary_unary(
                f"/{MANAGER}/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
        return call(request, timeout=CALL_SECONDS, metadata=metadata)

    def _drop_channel(self) -> None:
        with self._channel_lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def serve(name: str, protocol: str, drivers: Drivers) -> None:
    """Run a mapper as a program: `--edgecore SOCKET`, `--socket SOCKET`, `--http-port N`; it ends with SIGTERM or
    Ctrl-C.

    Args:
        name: of the mapper.
        protocol: `protocolName` of its devices.
        drivers: makes a driver, by the name of the device's model; `*` for all other models.
    """
    parser = argparse.ArgumentParser(description=f"The mapper {name}: devices of the protocol {protocol}.")
    parser.add_argument("--edgecore", type=Path, default=EDGECORE, metavar="SOCKET", help=f"default: {EDGECORE}")
    parser.add_argument("--socket", type=Path, metavar="SOCKET", help=f"of this mapper; default: {name}.sock beside it")
    parser.add_argument(
        "--http-port", type=int, metavar="N", help="on 127.0.0.1, for `edgecore devices call`: 7777 (default: none)"
    )
    chosen = parser.parse_args()
    log_lines.set_up(logging.StreamHandler(), "info", log_lines.TimedFormatter("%(levelname)-7s %(message)s"))
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # for all threads: this one waits for them
    mapper = Mapper(name, protocol, drivers, edgecore=chosen.edgecore, socket=chosen.socket, http_port=chosen.http_port)
    running = threading.Thread(target=mapper.run, name="mapper")
    running.start()
    while running.is_alive():
        if signal.sigtimedwait(ends, 1.0) is not None:
            mapper.stop()
            running.join()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
