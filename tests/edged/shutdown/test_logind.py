"""logind: a double of it on a real bus daemon of the test's own."""

import contextlib
import logging
import os
import select
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock

import pytest
from jeepney.fds import FileDescriptor
from jeepney.io.blocking import DBusConnection, prep_socket
from jeepney.low_level import HeaderFields, Message, MessageType
from jeepney.wrappers import DBusAddress, new_error, new_method_call, new_method_return, new_signal

from beehive import Threads
from beehive.simulation import Simulation
from edged.errors import BusError
from edged.shutdown.bus import MOST_SIGNALS, Bus
from edged.shutdown.logind import MANAGER, NAME, PATH, RETRY_SECONDS, SIGNAL, Logind, ShutdownWatch
from tests.end_to_end.processes import wait_until
from tests.support.patience import PATIENCE

CONFIGURATION = """<busconfig><type>session</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*"/><allow own="*"/><allow receive_sender="*"/></policy></busconfig>
"""
EMITTER = DBusAddress(PATH, interface=MANAGER)
DRIVER = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Path]:
    """Socket of a bus daemon."""
    daemon = shutil.which("dbus-daemon")
    if daemon is None:
        pytest.skip("there is no dbus-daemon")
    path, config = tmp_path / "bus", tmp_path / "bus.conf"
    config.write_text(CONFIGURATION.format(path=path))
    command = [daemon, "--nofork", "--nopidfile", "--print-address", f"--config-file={config}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it says its address once it listens"
            yield path
        finally:
            process.kill()


def connect(address: Path) -> DBusConnection:
    """A connection by jeepney's own client."""
    return DBusConnection(prep_socket(str(address), enable_fds=True), enable_fds=True)


class Manager:
    """The part of logind that is called: it gives locks away and announces shutdowns. A context manager."""

    def __init__(self, address: Path, seconds: float = 5.0, *, preparing: bool = False) -> None:
        self._bus = connect(address)
        self.gives_locks = True
        self._properties = {
            "InhibitDelayMaxUSec": ("t", int(seconds * 1_000_000)),
            "PreparingForShutdown": ("b", preparing),
        }
        self._bus.send_and_get_reply(new_method_call(DRIVER, "RequestName", "su", (NAME, 4)), timeout=PATIENCE)
        self.asked: list[tuple[Any, ...]] = []
        self.locks: list[int] = []
        """Ends of pipes whose other ends were given away."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Manager":
        return self

    def __exit__(self, *_: object) -> None:
        self._bus.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._bus.close()
        for lock in self.locks:
            os.close(lock)

    def prepare(self, *, imminent: bool) -> None:
        """Tell everybody."""
        self._bus.send(new_signal(EMITTER, SIGNAL, "b", (imminent,)))

    def is_held(self, number: int = -1) -> bool:
        """Whether somebody has that lock yet."""
        return not select.select([self.locks[number]], [], [], 0)[0]

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._answer(self._bus.receive())

    def _answer(self, call: Message) -> None:
        if call.header.message_type is not MessageType.method_call:
            return
        if call.header.fields[HeaderFields.member] != "Inhibit":
            self._bus.send(new_method_return(call, "v", (self._properties[call.body[1]],)))
            return
        if not self.gives_locks:
            error = "org.freedesktop.login1.OperationInProgress"
            self._bus.send(new_error(call, error, "s", ("it is under way",)))
            return
        mine, theirs = os.pipe()
        self.asked.append(call.body)
        self._bus.send(new_method_return(call, "h", (theirs,)))
        os.close(theirs)
        self.locks.append(mine)

    def shut_down(self, told: SimpleQueue[bool]) -> None:
        """Shut the machine down when the agent has its lock, and wait until it knows that."""
        wait_until(lambda: len(self.locks) == 1, "the lock is held")
        self.prepare(imminent=True)
        assert told.get(timeout=PATIENCE) is True


class Watched:
    """A watch on logind, on a thread of its own. A context manager."""

    def __init__(self, logind: Logind) -> None:
        self.logind = logind
        self.told: SimpleQueue[bool] = SimpleQueue()
        self._runtime = Threads()

    def __enter__(self) -> "Watched":
        self._ref = self._runtime.start(ShutdownWatch, self.logind, self.told.put).ref
        return self

    def __exit__(self, *_: object) -> None:
        self.logind.close()
        self._ref.stop()
        self._runtime.clock.close()


@contextlib.contextmanager
def ended(logind: Logind, tell: Callable[[bool], None]) -> Iterator[None]:
    """One run of a watch on logind, on a thread of its own, which has ended at the end."""

    def run() -> None:
        with contextlib.suppress(BusError):
            logind.run(tell)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(PATIENCE)
    assert not thread.is_alive()


def lose_bus(logind: Logind) -> None:
    assert logind._bus is not None
    logind._bus.wake()


def test_a_shutdown_waits_until_it_is_let_go(address: Path) -> None:
    with Manager(address) as manager, Watched(Logind(5, address)) as watched:
        wait_until(lambda: len(manager.locks) == 1, "the lock is held")
        assert manager.asked == [("shutdown", "edgecore", "its pods need time to end", "delay")]
        manager.prepare(imminent=True)
        assert watched.told.get(timeout=PATIENCE) is True
        assert manager.is_held()
        watched.logind.release()
        wait_until(lambda: not manager.is_held(), "the lock is free")


def test_a_cancelled_shutdown_is_waited_for_again(address: Path) -> None:
    with Manager(address) as manager, Watched(Logind(5, address)) as watched:
        manager.shut_down(watched.told)
        watched.logind.release()
        manager.prepare(imminent=False)
        assert watched.told.get(timeout=PATIENCE) is False
        wait_until(lambda: len(manager.locks) == 2, "there is another lock")
        assert manager.is_held(1)
        assert not manager.is_held(0)


def test_a_cancellation_is_reported_also_without_another_lock(address: Path) -> None:
    with Manager(address) as manager, Watched(Logind(5, address)) as watched:
        manager.shut_down(watched.told)
        manager.gives_locks = False
        manager.prepare(imminent=False)
        assert watched.told.get(timeout=PATIENCE) is False


@pytest.mark.parametrize("alone", [False, True], ids=["to all", "to us alone"])
def test_a_stranger_cannot_say_that_the_machine_shuts_down(address: Path, *, alone: bool) -> None:
    """Anybody may send a signal over the bus; what logind says afterwards is heard first."""
    with Manager(address) as manager, Watched(Logind(5, address)) as watched, connect(address) as stranger:
        wait_until(lambda: len(manager.locks) == 1, "the lock is held")
        signal = new_signal(EMITTER, SIGNAL, "b", (True,))
        if alone:
            signal.header.fields[HeaderFields.destination] = ":1.1"
        stranger.send(signal)
        stranger.send_and_get_reply(new_method_call(DRIVER, "GetId"), timeout=PATIENCE)
        manager.prepare(imminent=False)
        assert watched.told.get(timeout=PATIENCE) is False
        wait_until(lambda: len(manager.locks) == 2, "the lock that it asks for then is held")


def test_without_logind_nobody_is_taken_for_it(address: Path) -> None:
    """It may have ended since it was asked for a lock."""
    with connect(address) as stranger, Bus(address) as bus:
        assert not bus.has_name(stranger.unique_name, NAME)
        stranger.send_and_get_reply(new_method_call(DRIVER, "RequestName", "su", (NAME, 4)), timeout=PATIENCE)
        assert bus.has_name(stranger.unique_name, NAME)


def test_a_refusal_has_the_reason_or_its_name_and_keeps_no_file_descriptor(address: Path) -> None:
    mine, theirs = os.pipe()
    answers = [("s", ("it is under way",)), (None, ()), ("h", (theirs,))]
    with connect(address) as logind, Bus(address) as bus:
        logind.send_and_get_reply(new_method_call(DRIVER, "RequestName", "su", (NAME, 4)), timeout=PATIENCE)

        def refuse() -> None:
            for signature, body in answers:
                while (call := logind.receive(timeout=PATIENCE)).header.message_type is not MessageType.method_call:
                    pass
                logind.send(new_error(call, "org.example.Refused", signature, body))

        thread = threading.Thread(target=refuse)
        thread.start()
        for words in ("Inhibit of .*it is under way", "org.example.Refused", "Inhibit"):
            with pytest.raises(BusError, match=words):
                bus.call_for_descriptor((PATH, NAME, MANAGER), "Inhibit", "s", "why")
        thread.join(PATIENCE)
        os.close(theirs)
        assert select.select([mine], [], [], PATIENCE)[0], "nobody has the other end any more"
        os.close(mine)


def test_signals_that_come_before_an_answer_are_heard_in_their_order(address: Path) -> None:
    """A shutdown and its cancellation."""
    with connect(address) as stranger, Bus(address) as bus:
        bus.subscribe(MANAGER, SIGNAL)
        for imminent in (True, False):
            stranger.send(new_signal(EMITTER, SIGNAL, "b", (imminent,)))
        stranger.send_and_get_reply(new_method_call(DRIVER, "GetId"), timeout=PATIENCE)
        assert not bus.has_name(stranger.unique_name, NAME)
        heard = list[Any]()
        while len(heard) < 2:
            signal = bus.receive()
            heard += [signal.body[0]] if signal.member == SIGNAL else []
        assert heard == [True, False]


def test_a_bus_that_was_closed_is_woken_in_vain(address: Path) -> None:
    """Its thread may close it while another wakes it."""
    with Bus(address) as bus:
        pass
    bus.wake()


def test_a_stranger_who_never_stops_to_send_fills_no_memory(address: Path) -> None:
    """Each signal is checked by a question to the bus, before whose answer others come."""
    with connect(address) as stranger, Bus(address) as bus:
        bus.subscribe(MANAGER, SIGNAL)
        for _ in range(MOST_SIGNALS + 1):
            stranger.send(new_signal(EMITTER, SIGNAL, "b", (True,)))
        stranger.send_and_get_reply(new_method_call(DRIVER, "GetId"), timeout=PATIENCE)
        with pytest.raises(BusError, match="signals wait"):
            bus.has_name(stranger.unique_name, NAME)


def test_file_descriptors_that_nobody_asked_for_are_closed(address: Path) -> None:
    pipes = [os.pipe(), os.pipe()]
    with connect(address) as logind, Bus(address) as bus:
        logind.send_and_get_reply(new_method_call(DRIVER, "RequestName", "su", (NAME, 4)), timeout=PATIENCE)

        def give() -> None:
            while (call := logind.receive(timeout=PATIENCE)).header.message_type is not MessageType.method_call:
                pass
            logind.send(new_method_return(call, "hh", tuple(theirs for _, theirs in pipes)))

        thread = threading.Thread(target=give)
        thread.start()
        lock = bus.call_for_descriptor((PATH, NAME, MANAGER), "Inhibit", "s", "why")
        thread.join(PATIENCE)
        for _, theirs in pipes:
            os.close(theirs)
        (first, _), (second, _) = pipes
        assert select.select([first, second], [], [], PATIENCE)[0] == [second], "the lock is the first one"
        os.close(lock)
        assert select.select([first], [], [], PATIENCE)[0]
    os.close(first)
    os.close(second)


def test_file_descriptors_of_strangers_are_closed(address: Path) -> None:
    with connect(address) as stranger, Bus(address) as bus:
        bus.subscribe(MANAGER, SIGNAL)
        mine, theirs = os.pipe()
        stranger.send(new_signal(EMITTER, SIGNAL, "ah", ([theirs],)))
        os.close(theirs)
        while bus.receive().member != SIGNAL:
            pass
        assert bus._socket.gettimeout() is None, "a machine may run for years without a signal"
        assert select.select([mine], [], [], PATIENCE)[0], "nobody has the other end any more"
        os.close(mine)


def test_file_descriptors_of_an_incomplete_message_are_closed_with_the_connection(address: Path) -> None:
    mine, theirs = os.pipe()
    with Bus(address) as bus:
        bus._parser.add_data(b"l", [FileDescriptor(theirs)])
    assert select.select([mine], [], [], PATIENCE)[0], "nobody has the other end any more"
    os.close(mine)


def test_an_agent_that_begins_while_the_machine_shuts_down_knows_it(address: Path) -> None:
    with Manager(address, preparing=True) as manager, Watched(Logind(5, address)) as watched:
        assert watched.told.get(timeout=PATIENCE) is True
        assert manager.asked == [], "logind gives no locks any more"


def test_a_cancellation_that_was_missed_is_made_up_for(address: Path) -> None:
    logind, told = Logind(5, address), SimpleQueue[bool]()
    with Manager(address) as manager, ended(logind, told.put):
        manager.shut_down(told)
        lose_bus(logind)
    with Manager(address) as manager, ended(logind, told.put):
        assert told.get(timeout=PATIENCE) is False
        wait_until(lambda: len(manager.locks) == 1, "the lock is held")
        logind.close()


@pytest.mark.parametrize("end", [Logind.release, Logind.close])
def test_a_shutdown_waits_although_the_bus_is_lost_meanwhile(address: Path, end: Callable[[Logind], None]) -> None:
    logind, told = Logind(5, address), SimpleQueue[bool]()
    with Manager(address) as manager:
        with ended(logind, told.put):
            manager.shut_down(told)
            lose_bus(logind)
        assert manager.is_held()
        end(logind)
        assert not manager.is_held()


def test_a_bus_that_is_lost_without_a_shutdown_holds_no_shutdown_up(address: Path) -> None:
    logind = Logind(5, address)
    with Manager(address) as manager:
        with ended(logind, lambda _: None):
            wait_until(lambda: len(manager.locks) == 1, "the lock is held")
            lose_bus(logind)
        wait_until(lambda: not manager.is_held(), "the lock is free, also one that was on its way through the bus")


def test_an_agent_that_ends_during_a_shutdown_frees_the_lock(address: Path) -> None:
    logind, told = Logind(5, address), SimpleQueue[bool]()
    with Manager(address) as manager:
        with ended(logind, told.put):
            manager.shut_down(told)
            logind.close()
        assert not manager.is_held()


def test_the_lock_from_a_lost_bus_is_free_once_there_is_another(address: Path) -> None:
    logind, told = Logind(5, address), SimpleQueue[bool]()
    with Manager(address) as manager:
        with ended(logind, told.put):
            manager.shut_down(told)
            lose_bus(logind)
        with ended(logind, told.put):
            wait_until(lambda: len(manager.locks) == 2, "there is another lock")
            wait_until(lambda: not manager.is_held(0), "the first one is free")
            assert manager.is_held(1)
            logind.close()


def test_a_bus_that_was_missing_is_looked_for_again() -> None:
    simulation, source = Simulation(1), Mock(run=Mock(side_effect=[BusError("connect", "it"), None]))
    simulation.start(ShutdownWatch, source, Mock())
    simulation.run_for(RETRY_SECONDS - 1)
    assert source.run.call_count == 1
    simulation.run_for(2)
    assert source.run.call_count == 2


def test_a_bus_that_stays_missing_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    simulation, source = Simulation(1), Mock(run=Mock(side_effect=BusError("connect", "it")))
    simulation.start(ShutdownWatch, source, Mock())
    simulation.run_for(3 * RETRY_SECONDS)
    assert source.run.call_count > 2
    assert caplog.text.count("will not wait for its pods") == 1


def test_a_watch_that_has_ended_does_not_look_for_the_bus() -> None:
    simulation, source = Simulation(1), Mock(run=Mock(side_effect=BusError("connect", "it")))
    watch = simulation.start(ShutdownWatch, source, Mock())
    simulation.run_for(1.0)
    watch.stop(PATIENCE)
    simulation.run_for(2 * RETRY_SECONDS)
    assert source.run.call_count == 1


def test_its_end_frees_the_lock(address: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Manager(address) as manager:
        with Watched(Logind(5, address)):
            wait_until(lambda: len(manager.locks) == 1, "the lock is held")
        wait_until(lambda: not manager.is_held(), "the lock is free")
    assert "InhibitDelayMaxSec" not in caplog.text, "the machine waits for as long as the pods may take"


def test_a_machine_that_shuts_down_too_fast_is_reported_to_the_administrator(
    address: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Manager(address, seconds=5.0) as manager, Watched(Logind(30, address)) as watched:
        manager.shut_down(watched.told)
    assert "it waits for 5 s: set InhibitDelayMaxSec=30" in caplog.text


def test_a_bus_without_logind_is_an_error(address: Path) -> None:
    with pytest.raises(BusError, match=r"of org\.freedesktop\.login1"):
        Logind(5, address).run(lambda _: None)


def test_without_a_bus_the_log_has_the_consequence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Watched(Logind(5, tmp_path / "none")):
        wait_until(lambda: "will not wait for its pods" in caplog.text, "it is told")


def test_a_watch_that_was_closed_before_it_began_does_not_begin(address: Path) -> None:
    logind = Logind(5, address)
    logind.close()
    logind.run(lambda _: None)
