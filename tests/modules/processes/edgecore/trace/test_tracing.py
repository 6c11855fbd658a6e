"""When the flight recorder is written without being asked, what the header says, and how many files are kept."""

import signal
import threading
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest

from beehive import Hive, Message, Module, Threads, handles
from beehive.errors import StartError, TraceError
from beehive.trace.format import Note, NoteKind
from beehive.trace.reader import read
from beehive.trace.writer import parts_of
from modules.processes.edgecore import trace_socket
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.section import plain
from modules.processes.edgecore.config.value_kinds import SecretText
from modules.processes.edgecore.trace_socket import SOCKET
from modules.processes.edgecore.tracing import FILES, Tracing
from tests.end_to_end.processes import wait_until
from tests.support import failing as failing_calls
from tests.support.failing import census


class Failing(Module):
    """Fails when it is asked to."""

    name = "failing"
    attempts = 1

    @handles()
    def fail(self, message: Message) -> None:
        """Raise."""
        raise ValueError("on purpose")


class Idle(Module):
    """Has nothing to do."""

    name = "idle"


class Bed:
    """A hive with the tracing of edgecore."""

    def __init__(self, root: Path) -> None:
        self.runtime = Threads()
        self.hive = Hive(self.runtime)
        self.tracing = Tracing(self.hive, EdgeCoreConfig.below(root))
        self.directory = root / "edged" / "traces"

    def dumps(self) -> list[Path]:
        """The files."""
        return sorted(self.directory.glob("*.trace"))

    def close(self) -> None:
        """Stop."""
        self.hive.stop()
        self.runtime.close()


@pytest.mark.modules_fail
def test_a_module_that_fails_has_the_recorder_written_once_a_minute(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    with ExitStack() as stack:
        bed.tracing.attach(stack)
        bed.hive.add(Failing)
        bed.hive.start()
        stack.callback(bed.close)
        for _ in range(2):
            bed.hive.send("failing", Message.new(bed.runtime.clock, source="t", resource="a/b/c", operation="x"))
        wait_until(lambda: bool(bed.dumps()), "the file")
        wait_until(lambda: bed.hive.restarts()["failing"] >= 2, "the second failure")
    [path] = bed.dumps()
    assert path.name.endswith("failing-failed.1.trace")
    with read(path) as trace:
        notes = [record.text for record in trace if hasattr(record, "text")]
    assert "ValueError: on purpose" in notes


@pytest.mark.parametrize(("error", "written"), [(RuntimeError("x"), True), (StartError("x"), False)])
def test_an_unforeseen_end_of_the_process_has_it_written(tmp_path: Path, error: Exception, written: bool) -> None:
    bed = Bed(tmp_path)
    with pytest.raises(type(error)), ExitStack() as stack:
        stack.callback(bed.runtime.close)
        bed.tracing.attach(stack)
        raise error
    assert [path.name.partition("Z-")[2] for path in bed.dumps()] == ["crash.1.trace"] * written
    assert not (tmp_path / "edged" / SOCKET).exists()


@pytest.mark.parametrize("tick", [0.0, 0.01, -3600.0], ids=["frozen", "10 ms", "clock set back"])
def test_the_last_few_files_are_kept_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tick: float
) -> None:
    """Also those of one reason, and after as many that number 10 follows number 9."""
    bed = Bed(tmp_path)
    times = (1_800_000_000.0 + number // 2 * tick for number in count())
    monkeypatch.setattr(bed.runtime.clock, "now", lambda: next(times))
    with ExitStack() as stack:
        stack.callback(bed.runtime.close)
        bed.tracing.attach(stack)
        paths = [bed.tracing.dump(f"number {number // 2}").path for number in range(FILES + 3)]
    assert parts_of(bed.directory) == paths[-FILES:]


def test_what_waits_in_inboxes_is_noted(tmp_path: Path) -> None:
    """It has no record before it is handled: a reader, and a replay, would take nothing for missing."""
    bed = Bed(tmp_path)
    with ExitStack() as stack:
        stack.callback(bed.close)
        bed.tracing.attach(stack)
        for module in (Failing, Idle):
            bed.hive.add(module)
        for _ in range(2):  # nothing is handled before the start
            bed.hive.send("failing", Message.new(bed.runtime.clock, source="t", resource="a/b/c", operation="x"))
        path = bed.tracing.dump("asked for").path
    with read(path) as trace:
        notes = [(note.text, note.data) for note in trace if isinstance(note, Note) and note.kind == NoteKind.WAITING]
    assert notes == [("2 waited in the inbox of failing", 2)]


@pytest.mark.parametrize("is_failing", [False, True])
def test_files_of_earlier_versions_go_first_also_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_failing: bool
) -> None:
    """They have no numbers, and their times may be later: a board without a battery begins in 1970."""
    bed = Bed(tmp_path)
    bed.directory.mkdir(parents=True)
    for number in range(FILES):
        (bed.directory / f"2999010{number + 1}T000000.000Z-crash.trace").touch()
    if is_failing:
        monkeypatch.setattr("beehive.trace.writer.FileWriter.write", _full)
    with ExitStack() as stack:
        stack.callback(bed.runtime.close)
        bed.tracing.attach(stack)
        for number in range(2):
            with suppress(TraceError):
                bed.tracing.dump(f"number {number}")
    names = [path.name.partition("Z-")[2] for path in parts_of(bed.directory)]
    assert names == [*["crash.trace"] * (FILES - 2), "number-0.1.trace", "number-1.2.trace"]


def _full(*_: object) -> None:
    raise TraceError("cannot write the trace", "no space left on device")


def test_the_header_has_the_configuration_without_its_secrets(tmp_path: Path) -> None:
    config = EdgeCoreConfig.below(tmp_path)
    hub = msgspec.structs.replace(config.modules.edge_hub, token=SecretText("planted-token"))
    database = msgspec.structs.replace(config.database, data_source=SecretText("x://u:planted-password@h/db"))
    modules = msgspec.structs.replace(config.modules, edge_hub=hub)
    settings = plain(msgspec.structs.replace(config, modules=modules, database=database))
    text = msgspec.json.encode(settings).decode()
    assert "planted" not in text
    assert settings["modules"]["edgeHub"]["token"] == "not shown"  # noqa: S105
    assert settings["modules"]["edged"]["rootDirectory"] == str(tmp_path / "edged")


def test_a_signal_before_the_start_does_nothing(tmp_path: Path) -> None:
    Bed(tmp_path).tracing.dump_soon(signal.SIGUSR2.name)


def test_a_tracing_without_a_thread_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever part has none: neither a file of the stream, nor the socket, which others would ask in vain."""
    start = threading.Thread.start
    for at in range(4):
        before, failing = census(), failing_calls.Failing(at, RuntimeError("can't start new thread"))

        def counted(thread: threading.Thread, failing: failing_calls.Failing = failing) -> None:
            failing.step()
            start(thread)

        with monkeypatch.context() as patched, ExitStack() as stack:
            bed = Bed(tmp_path)
            stack.callback(bed.runtime.close)
            bed.tracing = Tracing(bed.hive, EdgeCoreConfig.below(tmp_path), tmp_path / f"{at}.trace")
            patched.setattr(threading.Thread, "start", counted)
            with ExitStack() as attached, suppress(RuntimeError):
                bed.tracing.attach(attached)
        assert failing.has_failed == (at < 3)
        failing.forget()
        assert not census().more_than(before)
        assert not (tmp_path / "edged" / SOCKET).exists()


def test_the_recorder_is_written_after_an_unforeseen_failure_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the file system, or for want of memory: later failures are recorded, and those that ask are answered."""
    bed = Bed(tmp_path)
    fails = failing_calls.Failing(0, MemoryError()), failing_calls.Failing(0, MemoryError())
    written = [each.call(bed.tracing._flight.write) for each in fails]
    with ExitStack() as stack:
        stack.callback(bed.runtime.close)
        bed.tracing.attach(stack)
        for ask in (lambda: bed.tracing.dump_soon("first"), lambda: trace_socket.ask(tmp_path / "edged" / SOCKET)):
            with monkeypatch.context() as patched:
                failing = written.pop()
                patched.setattr(bed.tracing._flight, "write", failing)
                with suppress(TraceError):
                    ask()
                wait_until(lambda: "could not be written" in caplog.text, "the failure")
            caplog.clear()
        bed.tracing.dump_soon("second")
        assert "path" in trace_socket.ask(tmp_path / "edged" / SOCKET)
        wait_until(lambda: any("second" in path.name for path in bed.dumps()), "the file")
