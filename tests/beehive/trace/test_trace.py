"""A trace that was written is read back, however it was cut, rotated or appended to; captures are read too."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Message, encode
from beehive.message import Header as MessageHeader
from beehive.message import Route
from beehive.trace import (
    Change,
    CriCall,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    Record,
    RecordedMessage,
    StoreCommit,
    TimerFired,
    TraceError,
    TraceHeader,
)
from beehive.trace.entries import content_of
from beehive.trace.format import FORMAT, CriEvent
from beehive.trace.frames import Frames
from beehive.trace.frames import encode as frame_of
from beehive.trace.reader import read
from beehive.trace.writer import DirectoryWriter, FileWriter, keep_newest, new_part, parts_of
from tests.interop.traces import recordings

HEADER = TraceHeader(FORMAT, "edgecore 1.2.3", "node-1", 1_800_000_000.25, None, {"a": {"b": 1}}, prefix=7)


def delivered(number: int, size: int = 2) -> Delivered:
    """A record of one delivery."""
    content = b'"' + b"x" * (size - 2) + b'"'
    message = RecordedMessage(
        f"id-{number}",
        "",
        5,
        "12",
        True,  # noqa: FBT003
        "",
        "edgehub",
        "",
        "resource",
        "insert",
        "default/pod/a",
        content,
    )
    return Delivered(number / 8, number, 0, number, "websocket", "edged", "send", "handled", "", 3, 0.5, 0.25, message)


EVERY_KIND: list[Record] = [
    delivered(1),
    TimerFired(1.0, 2, 1, 1, "edged", "Edged._tick", 10.0, True, 0.1),  # noqa: FBT003
    CriCall(1.5, 3, 2, 1, "edged/worker-0", "start_container", b'{"container_id":"c"}', b"null", "", "", 0.2),
    CriEvent(1.6, 4, 0, 4, "changed", "uid-1", b"{}"),
    LinkFrame(1.7, 5, 0, 5, Direction.IN, 1, 22, b'{"header":{}}'),
    StoreCommit(1.8, 6, 5, 5, "commit", 0.01, "", (Change("put", "default/pod/a", "pod", b"{}"),)),
    Note(1.9, 0, 0, 0, "failure", "edged", "ValueError", {"attempts": 3}),
]


def write(path: Path, records: list[Record], header: TraceHeader = HEADER) -> Path:
    """A trace in a file."""
    writer = FileWriter(path, header)
    writer.write(records)
    writer.close()
    return path


def records_of(path: Path) -> list[Record]:
    """All records of a trace."""
    with read(path) as trace:
        return list(trace)


def test_every_kind_of_record_comes_back_as_it_was(tmp_path: Path) -> None:
    with read(write(tmp_path / "a", EVERY_KIND)) as trace:
        assert (trace.header, list(trace)) == (HEADER, EVERY_KIND)
        assert (trace.damage, trace.skipped, trace.done) == ("", 0, trace.size)


def test_a_message_comes_back_with_all_its_fields() -> None:
    message = Message(
        MessageHeader("i", "p", 9, "3", sync=True, type="channel"), Route("a", "b", "c", "d", "e"), msgspec.Raw(b"[1]")
    )
    again = RecordedMessage.of(message, b"[1]").message()
    assert encode(again) == encode(message)


def test_any_msgpack_library_reads_the_stream(tmp_path: Path) -> None:
    data = write(tmp_path / "a", EVERY_KIND).read_bytes()
    frames = [msgpack.unpackb(body) for body in msgpack.Unpacker(io.BytesIO(data))]
    assert [frame[0] for frame in frames] == [
        "header", "delivered", "timer", "cri", "event", "frame", "commit", "note",
    ]  # fmt: skip
    assert frames[1][1:5] == [0.125, 1, 0, 1]


@given(st.data())
def test_a_file_cut_at_any_byte_is_read_to_its_last_whole_frame(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = write(tmp_path_factory.mktemp("cut") / "a", EVERY_KIND)
    whole = path.read_bytes()
    first = len(msgspec.msgpack.encode(HEADER)) + 5
    cut = data.draw(st.integers(first, len(whole) - 1))
    path.write_bytes(whole[:cut])
    with read(path) as trace:
        records = list(trace)
        assert records == EVERY_KIND[: len(records)]
        assert bool(trace.damage) == (trace.done != cut)


def test_a_cut_file_is_appended_to_after_its_last_whole_frame(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [delivered(1), delivered(2)])
    path.write_bytes(path.read_bytes()[:-3])
    later = msgspec.structs.replace(HEADER, began=HEADER.began + 100, prefix=8)
    write(path, [delivered(3)], later)
    with read(path) as trace:
        first, second = list(trace)
        assert (first, trace.damage) == (delivered(1), "")
        assert second.time == pytest.approx(100 + 3 / 8)
        assert second.span not in (0, 3)
        assert trace.traceparent(second) == ""


def test_a_record_has_the_traceparent_of_its_cause_and_a_first_one_has_none(tmp_path: Path) -> None:
    later = msgspec.structs.replace(HEADER, began=HEADER.began + 100, prefix=8)
    write(tmp_path / "a", EVERY_KIND)
    write(tmp_path / "a", EVERY_KIND, later)
    with read(tmp_path / "a") as trace:
        parents = [trace.traceparent(record) for record in trace]
    assert parents[:4] == ["", f"00-{7:016x}{1:016x}-{1:016x}-01", f"00-{7:016x}{1:016x}-{2:016x}-01", ""]
    assert parents[len(EVERY_KIND) + 1] == f"00-{8:016x}{1:016x}-{1:016x}-01"


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0o644)
    for name in ("a", "new"):
        assert write(tmp_path / name, []).stat().st_mode & 0o777 == 0o600


def test_zeros_after_a_loss_of_power_end_the_trace_and_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [delivered(1)])
    path.write_bytes(path.read_bytes() + bytes(100))
    with read(path) as trace:
        assert list(trace) == [delivered(1)]
        assert "no frame at byte" in trace.damage


@pytest.mark.parametrize(
    "tail",
    [
        b"\xc4\x01a",
        b"\xa3abc",
        b"\x91\x01",
        b"\x81\xa1a\x01",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
)
def test_other_msgpack_behind_the_frames_is_not_read(tail: bytes) -> None:
    """A short byte string, a text, containers, a forged length: reading ends before them and builds none of them."""
    whole = frame_of(HEADER) + frame_of(delivered(1))
    frames = Frames(io.BytesIO(whole + tail))
    assert len(list(frames)) == 2
    assert frames.offset == len(whole)
    assert f"frame at byte {len(whole)}" in frames.damage


def test_parts_rotate_by_size_are_read_in_order_and_the_oldest_go(tmp_path: Path) -> None:
    writer = DirectoryWriter(tmp_path / "d", HEADER, part_bytes=2000, parts=3)
    assert ["-000001." in part.name for part in parts_of(tmp_path / "d")] == [True]
    writer.write(delivered(number, 400) for number in range(40))
    writer.close()
    assert len(list((tmp_path / "d").iterdir())) == 3
    numbers = [record.span for record in records_of(tmp_path / "d")]
    assert numbers == list(range(40))[-len(numbers) :]
    assert 8 <= len(numbers) < 40


def test_a_run_after_the_clock_was_set_back_keeps_its_own_parts(tmp_path: Path) -> None:
    """A board without a battery begins in 1970 after a loss of power."""
    for began in (HEADER.began, 0.0):
        writer = DirectoryWriter(tmp_path / "d", msgspec.structs.replace(HEADER, began=began), part_bytes=2000, parts=3)
        writer.write(delivered(number, 400) for number in range(40))
        writer.close()
    assert [path.name.partition("T")[0] for path in sorted((tmp_path / "d").iterdir())] == ["19700101"] * 3


def test_runs_of_one_millisecond_have_parts_of_their_own(tmp_path: Path) -> None:
    """A clock that does not go on until it is set: the runs follow each other, as the parts of each do."""
    for run in range(3):
        writer = DirectoryWriter(tmp_path / "d", HEADER, part_bytes=2000)
        writer.write(delivered(100 * run + number, 400) for number in range(16))
        writer.close()
    assert [record.span for record in records_of(tmp_path / "d")] == [
        100 * run + number for run in range(3) for number in range(16)
    ]


def test_the_parts_of_earlier_versions_come_first_and_go_first(tmp_path: Path) -> None:
    """They have no numbers, and are in the order of their names."""
    names = ["20270115T080000.123Z-000009.trace", "20270115T080000.123Z-000010.trace", "20990101T000000.000Z-x.trace"]
    for name in reversed(names):
        (tmp_path / name).touch()
    for name in "ba":
        new_part(tmp_path, 0.0, name).touch()
    assert [path.name.partition("Z-")[2] for path in parts_of(tmp_path)[2:]] == ["x.trace", "b.1.trace", "a.2.trace"]
    keep_newest(tmp_path, 3)
    assert parts_of(tmp_path)[0].name == names[2]


def test_a_part_that_cannot_be_deleted_does_not_end_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may own it."""

    def refuse(_path: Path, *, missing_ok: bool) -> None:
        raise PermissionError(missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    writer = DirectoryWriter(tmp_path / "d", HEADER, part_bytes=2000, parts=3)
    writer.write(delivered(number, 500) for number in range(20))
    writer.close()
    assert [record.span for record in records_of(tmp_path / "d")] == list(range(20))


def test_a_frame_that_the_disk_accepts_in_pieces_is_written_whole(tmp_path: Path) -> None:
    """An interrupted write, or a write at the last free block, writes a part and returns its length."""

    class Reluctant(io.FileIO):
        def write(self, data: Any, /) -> int:
            return super().write(memoryview(data)[:7])

    writer = FileWriter(tmp_path / "t", HEADER)
    writer._file.close()
    writer._file = Reluctant(tmp_path / "t", "a")
    writer.write([delivered(1), delivered(2)])
    writer.close()
    assert [record.span for record in records_of(tmp_path / "t")] == [1, 2]


def test_records_of_a_kind_from_the_future_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [delivered(1)])
    body = msgspec.msgpack.encode(["hologram", 1.0, 2])
    path.write_bytes(path.read_bytes() + b"\xc6" + len(body).to_bytes(4, "big") + body)
    with read(path) as trace:
        assert (list(trace), trace.skipped) == ([delivered(1)], 1)


_BEYOND = [{"time": time} for time in (float("nan"), float("inf"), float("-inf"), 1e308, -1e300, 1e15)]
_BEYOND += [{name: number} for name in ("span", "cause", "trace") for number in (-1, 1 << 48, (1 << 63) - 1)]


@pytest.mark.parametrize("changed", _BEYOND)
def test_records_with_impossible_times_and_numbers_are_left_out(tmp_path: Path, changed: dict[str, float]) -> None:
    """A prepared trace ended the commands that print a date or a span with a traceback."""
    good = delivered(1)
    path = write(tmp_path / "t", [good, msgspec.structs.replace(good, **changed), good])
    with read(path) as trace:
        assert (list(trace), trace.skipped) == ([good, good], 1)


def test_a_trace_that_began_at_no_date_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "t", [delivered(1)], msgspec.structs.replace(HEADER, began=1e300))
    with pytest.raises(TraceError):
        read(path)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"{\n", b'{"a":1}\n', b"\xc6\0\0\0\1\xc0"])
def test_a_file_that_is_not_a_trace_is_refused_with_the_expected_forms(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TraceError, match="wanted"):
        read(tmp_path / "a")


def test_a_later_format_is_refused_with_the_version_that_reads_it(tmp_path: Path) -> None:
    write(tmp_path / "a", [], msgspec.structs.replace(HEADER, format=FORMAT + 1))
    with pytest.raises(TraceError, match=r"edgecore 1\.2\.3"):
        read(tmp_path / "a")


def test_another_file_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("something of value")
    (tmp_path / "a").chmod(0o644)
    with pytest.raises(TraceError, match="no trace"):
        FileWriter(tmp_path / "a", HEADER)
    assert (tmp_path / "a").read_text() == "something of value"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_device_is_no_file_for_a_trace() -> None:
    mode = Path("/dev/null").stat().st_mode
    with pytest.raises(TraceError, match="ordinary file"):
        FileWriter(Path("/dev/null"), HEADER)
    assert Path("/dev/null").stat().st_mode == mode


@pytest.mark.parametrize("day", ["today", "2019"])
def test_captures_between_a_real_cloud_and_edge_are_read(day: str) -> None:
    for path in recordings(day):
        with read(path) as trace:
            frames = [record for record in trace if isinstance(record, LinkFrame)]
        assert not trace.damage
        assert {frame.direction for frame in frames} == {Direction.IN, Direction.OUT}
        assert all(msgspec.json.decode(frame.frame)["header"]["msg_id"] for frame in frames)


_READS = """
import sys
from beehive.trace.reader import read
def high(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
before = high()
with read(sys.argv[1]) as trace:
    count = sum(1 for _ in trace)
print(count, high() - before)
"""


def test_a_long_trace_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """64 MiB of it must not cost 16 MiB, nor a quarter of that."""
    path, record = tmp_path / "long", delivered(1, 4000)
    write(path, [])
    for _ in range(16):
        write_more = FileWriter(path, HEADER)
        write_more.write([record] * 1024)
        write_more.close()
    assert path.stat().st_size > 64_000_000
    done = subprocess.run([sys.executable, "-c", _READS, path], capture_output=True, text=True, check=True)
    count, grown = map(int, done.stdout.split())
    assert (count, grown < 4 * 1024) == (16 * 1024, True), grown


def test_no_content_is_recorded_as_null() -> None:
    """So that each content of a trace can be read as JSON."""
    assert content_of(msgspec.Raw(b"")) == content_of(None) == b"null"
