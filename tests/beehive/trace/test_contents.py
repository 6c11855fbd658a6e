"""Large contents stand in a trace once, whatever has them; a trace ends at its limit, or where the disk does."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.trace import (
    AnyRecord,
    Change,
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    Record,
    RecordedMessage,
    StoreCommit,
    TraceError,
)
from beehive.trace.contents import LARGE, MISSING, ContentJoiner, ContentSplitter
from beehive.trace.format import Content
from beehive.trace.frames import encode
from beehive.trace.reader import read
from beehive.trace.writer import FileWriter, open_writer, parts_of
from tests.beehive.trace.test_trace import HEADER, records_of, write

_BIG = b'{"metadata":{"annotations":{"blob":"' + b'x\\"y' * 500_000 + b'"},"name":"big"}}'


def _everywhere(content: bytes, number: int = 1) -> list[Record]:
    """A content as the link brings it, the bus carries it, the store keeps it and the runtime lists it."""
    message = RecordedMessage("i", "", 9, "3", True, "", "a", "b", "c", "insert", "default/pod/a", content)  # noqa: FBT003
    header = b'{"header":{"msg_id":"%d"},"route":{"operation":"insert"},"content":' % number
    return [
        LinkFrame(number, 1, 0, 1, Direction.IN, 1, len(content), header + content + b"}\n"),
        Delivered(number, 2, 1, 1, "edgehub", "metamanager", "send", "handled", "", 0, 0.0, 0.0, message),
        StoreCommit(number, 3, 1, 1, "commit", 0.0, "", (Change("put", "default/pod/a", "pod", content),)),
        CriCall(number, 4, 1, 1, "edged", "run_pod_sandbox", b'{"config":' + content + b"}", b'"id"', "", "", 0.1),
        CriCall(number, 5, 1, 1, "edged/Pleg", "list_pod_sandboxes", b"{}", b"[" + content + b',{"n":%d}]' % number,
                "", "", 0.1),
        CriEvent(number, 6, 0, 6, "changed", "uid", content),
    ]  # fmt: skip


@pytest.mark.extended
def test_a_large_pod_costs_its_size_and_not_a_hundred_times_that(tmp_path: Path) -> None:
    """Also where each list of the runtime differs from the one before in something else."""
    records = [record for number in range(1, 15) for record in _everywhere(_BIG, number)]
    path = write(tmp_path / "t", records)
    assert path.stat().st_size < 2.2 * len(_BIG)
    assert records_of(path) == records


_STRINGS = st.integers(0, 3).map(lambda number: b'"' + b"%d" % number * (LARGE + number) + b'"') | st.just(b'"a\\""')
_VALUES = st.lists(_STRINGS | st.binary(max_size=30), max_size=6).map(b",".join)


@given(st.lists(_VALUES | st.binary(max_size=3 * LARGE), max_size=6))
def test_every_record_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    """Any bytes, except those beginning with a zero byte, which no record begins with."""
    records = [record for one in contents if not one.startswith(b"\0") for record in _everywhere(one)]
    path = write(tmp_path_factory.mktemp("t") / "t", records)
    assert records_of(path) == records


def test_a_later_run_and_every_part_stand_for_themselves(tmp_path: Path) -> None:
    """The oldest parts go, and a file is appended to by another process."""
    (tmp_path / "d").mkdir()
    writer = open_writer(tmp_path / "d", HEADER, 4 << 20)
    for number in range(1, 200):
        writer.write(_everywhere(b'"' + b"%d" % number * 30_000 + b'"', number))
    writer.close()
    assert len(parts_of(tmp_path / "d")) == 4
    assert sum(part.stat().st_size for part in parts_of(tmp_path / "d")) <= 5 << 20
    assert not any(MISSING in encode(record) for record in records_of(tmp_path / "d"))
    file = write(tmp_path / "t", _everywhere(_BIG))
    write(file, _everywhere(_BIG), msgspec.structs.replace(HEADER, began=HEADER.began + 9))
    frames = [one.frame for one in records_of(file) if isinstance(one, LinkFrame)]
    assert len(frames) == 2
    assert frames[0] == frames[1]


def test_a_trace_of_the_first_format_is_read(tmp_path: Path) -> None:
    """Each record has its contents in itself."""
    header = msgspec.structs.replace(HEADER, format=1)
    (tmp_path / "t").write_bytes(b"".join(map(encode, [header, *_everywhere(_BIG)])))
    assert records_of(tmp_path / "t") == _everywhere(_BIG)


def test_references_that_lead_nowhere_do_no_harm(tmp_path: Path) -> None:
    """Such as references to nothing, to themselves, to a record without content, or to more than fits into memory."""
    ext = msgspec.msgpack.Ext
    key, other = b"k" * 16, b"o" * 16
    bad = [[ext(1, b"unknown")], [ext(1, key)], [ext(1, other)] * 40, [ext(7, key)], {"no": "list"}]
    contents = [
        Content(key, b"\0" + msgspec.msgpack.encode([ext(1, key)])),
        Content(other, b"\0" + msgspec.msgpack.encode([b"x" * 1_000_000] * 2)),
    ]
    events = [CriEvent(1.0, 1, 0, 1, "k", "s", b"\0" + msgspec.msgpack.encode(one)) for one in bad]
    everything: list[AnyRecord] = [HEADER, *contents, *events]
    (tmp_path / "t").write_bytes(b"".join(map(encode, everything)))
    assert [one.detail for one in records_of(tmp_path / "t") if isinstance(one, CriEvent)] == [MISSING] * len(bad)


def test_references_of_one_record_stand_for_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of many changes, each of some bytes in the file, could take all memory."""
    monkeypatch.setattr("beehive.trace.contents.RECORD_BYTES", 2_500_000)
    ext, key = msgspec.msgpack.Ext, b"k" * 16
    large = b"\0" + msgspec.msgpack.encode([ext(1, key)])
    commit = StoreCommit(1.0, 1, 0, 1, "commit", 0.0, "", (Change("put", "default/pod/a", "pod", large),) * 6)
    everything: list[AnyRecord] = [HEADER, Content(key, b"x" * 1_000_000), commit]
    (tmp_path / "t").write_bytes(b"".join(map(encode, everything)))
    (found,) = [one for one in records_of(tmp_path / "t") if isinstance(one, StoreCommit)]
    assert [len(one.value) for one in found.changes] == [1_000_000] * 2 + [len(MISSING)] * 4


def test_a_writer_remembers_so_many_contents(tmp_path: Path) -> None:
    """Then it writes them again: they are read all the same."""
    shortener = ContentSplitter()
    shortener._known.update(b"%016d" % number for number in range(16 * 1024))
    (content, _) = shortener.records(_everywhere(b'"' + b"x" * LARGE + b'"')[5])
    assert isinstance(content, Content)
    assert len(shortener._known) == 1


def test_a_file_ends_at_its_limit_with_a_note(tmp_path: Path) -> None:
    """What was written before is there, with a note; a later run is refused before it starts."""
    writer = FileWriter(tmp_path / "t", HEADER, 100_000)
    records = [
        record for number in range(1, 30) for record in _everywhere(b'"' + b"%03d" % number * 2000 + b'"', number)
    ]
    with pytest.raises(TraceError, match=r"no more room in its 100000 bytes.*--record-limit"):
        writer.write(records)
    writer.close()
    found = records_of(tmp_path / "t")
    note = found.pop()
    assert isinstance(note, Note)
    assert (note.kind, "100000 bytes" in note.text) == ("lost", True)
    assert found == records[: len(found)]
    assert 80_000 < (tmp_path / "t").stat().st_size < 101_000
    with pytest.raises(TraceError, match="give another file"):
        FileWriter(tmp_path / "t", HEADER, 90_000)


_FILLS = """
import resource, sys
from beehive.trace import TraceError
from beehive.trace.writer import FileWriter
from tests.beehive.trace.test_contents import HEADER, _everywhere
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
writer = FileWriter(__import__("pathlib").Path(sys.argv[1]), HEADER)
try:
    for number in range(1, 100):
        writer.write(_everywhere(b'"' + b"%03d" % number * 2000 + b'"', number))
except TraceError as error:
    print(error)
"""


def test_where_the_disk_ends_the_last_record_is_whole(tmp_path: Path) -> None:
    """Nothing of what had no room stays: not even the beginning of a record."""
    command = [sys.executable, "-c", _FILLS, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert "File too large" in done.stdout
    with read(tmp_path / "t") as trace:
        assert len(list(trace)) > 50
        assert trace.damage == ""


@pytest.mark.extended
def test_the_cache_of_contents_is_bounded(tmp_path: Path) -> None:
    """Contents that do not fit are read from the file each time."""
    records = [record for number in range(1, 30) for record in _everywhere(b'"' + b"%03d" % number * 200_000 + b'"')]
    path = write(tmp_path / "t", [*records, *records])
    assert records_of(path) == [*records, *records]
    contents = ContentJoiner(0, lambda _body: None)
    for number in range(30):
        contents._keep(b"%d" % number, b"x" * 1_000_000)
    assert contents._size == 8_000_000, "and as many are kept as fit"
