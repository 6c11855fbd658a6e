"""Logs as a person sees them, from real files; a reader that follows is led step by step, without waiting."""

import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.logs.files import LogFile, find_tail, keep_tail
from edged.logs.lines import is_whole, parse_line
from edged.logs.reader import PIECE, LogReader
from modules.apimachinery.pods.log_options import LogOptions
from modules.apimachinery.types.times import parse_time


def line(text: str, *, tag: str = "F", stream: str = "stdout", minute: int = 0) -> bytes:
    return f"2026-11-20T05:{minute:02}:16.000000001+00:00 {stream} {tag} {text}\n".encode()


def never(_seconds: float) -> bool:
    raise AssertionError("it waits for more")


def read(path: Path, **options: object) -> str:
    reader = LogReader(path, LogOptions(**options), lambda: False)  # type: ignore[arg-type]
    text = b"".join(reader.pieces(never)).decode()
    reader.close()
    return text


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five lines: of the second the parts, of the fourth from stderr."""
    path = tmp_path / "0.log"
    lines = [line("one"), line("tw", tag="P"), line("o", tag="F:x", minute=1), line("three", minute=2)]
    path.write_bytes(b"".join([*lines, line("four", stream="stderr", minute=3), line("", minute=4)]))
    return path


@pytest.mark.parametrize("options", [{}, {"tail": 1000}], ids=["whole", "tail"])
@pytest.mark.parametrize("damage", [b"", b"\xff" * 200, b"\0" * 200], ids=["short", "ones", "zeros"])
def test_a_packed_file_that_is_damaged_hides_no_other(log: Path, damage: bytes, options: dict[str, int]) -> None:
    """A loss of power, or a worn disk: it ends where it is damaged, be that within its first block."""
    begin = log.with_name("0.log.20261120-040000.gz")
    begin.write_bytes(gzip.compress(line("never shown"))[:10] + b"\7" * 100)
    first, second = (log.with_name(f"0.log.20261120-05000{number}.gz") for number in range(2))
    packed = gzip.compress(b"".join(line(f"{number * number} of the first") for number in range(3000)))
    first.write_bytes(packed[:5000] + damage + packed[5200 : 5200 + 1000 * len(damage)])
    second.write_bytes(gzip.compress(line("of the second")))
    text = read(log, **options)
    assert text.endswith("of the second\none\ntwo\nthree\nfour\n\n")
    assert "of the first" in text or options


def test_a_follower_gets_the_line_that_the_container_did_not_finish(log: Path) -> None:
    with log.open("ab") as file:
        file.write(line("cut off")[:-1])
    reader = LogReader(log, LogOptions(follow=True, tail=1), lambda: True)
    assert b"".join(reader.pieces(never)) == b"cut off"
    reader.close()


def test_of_very_many_rotated_files_the_newest_are_shown(log: Path) -> None:
    for number in range(40):
        log.with_name(f"0.log.20261120-0500{number:02}").write_bytes(line(f"file {number}"))
    assert read(log).splitlines()[:33] == [*(f"file {number}" for number in range(8, 40)), "one"]


@pytest.mark.parametrize(
    ("raw", "stream", "whole", "text"),
    [
        (b"t stdout F a b", "stdout", True, b"a b"),
        (b"t stderr P  a", "stderr", False, b" a"),
        (b"t stdout P:x a", "stdout", False, b"a"),
        (b"t stdout F:x a", "stdout", True, b"a"),
        (b"t stdout F ", "stdout", True, b""),
        (b"t stdout F", "stdout", True, b""),
    ],
)
def test_a_line_has_a_time_a_stream_a_tag_and_text(raw: bytes, stream: str, whole: bool, text: bytes) -> None:
    assert parse_line(raw) == (b"t", stream, whole, text)


@pytest.mark.parametrize("raw", [b"", b"t", b"t stdout", b"t stdin F a", b"panic: something"])
def test_an_invalid_entry_is_not_a_line(raw: bytes) -> None:
    assert parse_line(raw) is None


def test_parts_are_joined(log: Path) -> None:
    assert read(log) == "one\ntwo\nthree\nfour\n\n"


def test_times_stand_before_whole_lines(log: Path) -> None:
    assert read(log, timestamps=True).splitlines()[1] == "2026-11-20T05:00:16.000000001+00:00 two"


def test_one_stream_can_be_chosen(log: Path) -> None:
    assert read(log, streams=("stderr",)) == "four\n"


@pytest.mark.parametrize(
    ("tail", "shown"),
    [(0, ""), (1, "\n"), (2, "four\n\n"), (4, "two\nthree\nfour\n\n"), (5, "one\ntwo\nthree\nfour\n\n"),
     (99, "one\ntwo\nthree\nfour\n\n")],
)  # fmt: skip
def test_the_last_lines_are_lines_of_the_container(log: Path, tail: int, shown: str) -> None:
    assert read(log, tail=tail) == shown


@pytest.mark.parametrize(("options", "shown"), [({"tail": 1}, "\n"), ({}, "one\ntwo\nthree\nfour\n\n")])
def test_what_is_written_meanwhile_is_left_out(log: Path, options: dict[str, int], shown: str) -> None:
    """The last line is one, and a container that writes without a pause does not keep its reader."""
    reader = LogReader(log, LogOptions(**options), lambda: False)  # type: ignore[arg-type]
    append(log, line("too late"))()
    assert b"".join(reader.pieces(never)).decode() == shown
    reader.close()


@pytest.mark.parametrize("tail", [1, 2])
def test_what_is_written_before_the_last_lines_are_found_is_left_out(
    log: Path, tail: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the moment when the files were opened, also if the older files have some of them."""
    log.rename(log.with_name("0.log.20261120-060000"))
    log.write_bytes(line("new"))

    def late(files: list[LogFile], wanted: int, end: int) -> list[LogFile]:
        append(log, line("too late"))()
        return keep_tail(files, wanted, end)

    monkeypatch.setattr("edged.logs.reader.keep_tail", late)
    assert read(log, tail=tail) == "\nnew\n"[2 - tail :]


def test_a_time_or_later(log: Path) -> None:
    assert read(log, since=parse_time("2026-11-20T05:02:00Z")) == "three\nfour\n\n"
    assert read(log, since=parse_time("2026-11-20T05:02:16.000000001Z")) == "three\nfour\n\n"
    assert read(log, since=parse_time("2026-11-20T07:00:00Z")) == ""


def test_the_limit_is_of_bytes_shown(log: Path) -> None:
    assert read(log, limit=6) == "one\ntw"


def test_garbage_between_lines_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(line("a") + b"\n\x00\xff garbage\n" + line("b") + line("unfinished")[:-1])
    assert read(path) == "a\nb\nunfinished"


def test_a_long_log_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(line("x" * 100) for _ in range(5000)))
    reader = LogReader(path, LogOptions(), lambda: False)
    sizes = [len(piece) for piece in reader.pieces(never)]
    reader.close()
    assert sum(sizes) == 5000 * 101
    assert max(sizes) < 2 * PIECE


def test_a_line_longer_than_one_read_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(line("x" * 3_000_000) + line("end"))
    assert read(path) == "x" * 3_000_000 + "\nend\n"
    follower = LogReader(path, LogOptions(follow=True), lambda: False)
    assert len(b"".join(follower.pieces(lambda _seconds: True))) == 3_000_005, "also before the container has ended"
    follower.close()
    assert read(path, tail=1) == "end\n"


@pytest.fixture
def rotated(log: Path) -> Path:
    """Two older files, the oldest of them packed, and what is not ours."""
    with gzip.open(log.with_name("0.log.20261120-050000.gz"), "wb") as packed:
        packed.write(line("first") + line("second"))
    log.with_name("0.log.20261120-053000").write_bytes(line("third"))
    log.with_name("0.log.tmp").write_bytes(line("no"))
    log.with_name("1.log").write_bytes(line("no"))
    return log


def test_rotated_files_are_read_first(rotated: Path) -> None:
    assert read(rotated).splitlines()[:4] == ["first", "second", "third", "one"]


@pytest.mark.parametrize(("tail", "first"), [(5, "one"), (6, "third"), (7, "second"), (8, "first"), (9, "first")])
def test_the_last_lines_may_be_in_older_files(rotated: Path, tail: int, first: str) -> None:
    shown = read(rotated, tail=tail).splitlines()
    assert (shown[0], len(shown)) == (first, min(tail, 8))


def test_no_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogReader(tmp_path / "0.log", LogOptions(), lambda: False)


class Follower:
    """Reads on and on; before each wait what the test says next happens, then the container has ended."""

    def __init__(self, path: Path, *steps: Callable[[], object], **options: int) -> None:
        self._steps = iter(steps)
        self._ended = False
        self._reader = LogReader(path, LogOptions(follow=True, **options), lambda: self._ended)  # type: ignore[arg-type]

    def _wait(self, _seconds: float) -> bool:
        step = next(self._steps, None)
        if step is None:
            self._ended = True
        else:
            step()
        return False

    def pieces(self) -> Iterator[str]:
        for piece in self._reader.pieces(self._wait):
            yield piece.decode()
        self._reader.close()


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as file:
            file.write(data)

    return step


def rotate(path: Path, *, to: str = "0.log.20261120-060000") -> Callable[[], object]:
    return lambda: path.rename(path.with_name(to))


def test_a_follower_sees_new_lines_and_ends_with_the_container(log: Path) -> None:
    follower = Follower(log, append(log, line("new")), append(log, line("last")), tail=1)
    assert list(follower.pieces()) == ["\n", "new\n", "last\n"]


def test_a_line_is_shown_when_it_is_whole(log: Path) -> None:
    whole = line("whole")
    assert list(Follower(log, append(log, whole[:40]), append(log, whole[40:]), tail=0).pieces()) == ["whole\n"]


def test_a_follower_goes_on_over_a_rotation(log: Path) -> None:
    """Also with what was written into the old file after it was renamed."""
    old = log.with_name("0.log.20261120-060000")
    follower = Follower(
        log, rotate(log), append(old, line("late")), append(log, line("fresh")), append(log, line("more")), tail=0
    )
    assert list(follower.pieces()) == ["late\n", "fresh\n", "more\n"]


def test_a_follower_keeps_nothing_of_files_that_it_has_read(log: Path) -> None:
    """A removed file that is open takes its place on the disk, and the rest of it 8 KiB of memory for each rotation; a
    container that writes much is rotated every ten seconds.
    """
    for at in range(3):
        rotate(log, to=f"0.log.20261119-06000{at}")()
        append(log, line("old"))()
    steps = [
        step for at in range(5) for step in (rotate(log, to=f"0.log.20261120-06000{at}"), append(log, line("new")))
    ]
    follower = Follower(log, *steps)
    opened = list(follower._reader._files)
    assert [piece for piece in follower.pieces() if piece == "new\n"] == ["new\n"] * 5
    assert len(opened) == 4 and all(each.closed for each in opened)
    assert len(follower._reader._files) == 1


def test_a_file_that_was_emptied_is_read_from_its_beginning(log: Path) -> None:
    follower = Follower(log, lambda: os.truncate(log, 0), append(log, line("again")), tail=0)
    assert list(follower.pieces()) == ["again\n"]


def test_a_follower_whose_reader_goes_ends(log: Path) -> None:
    reader = LogReader(log, LogOptions(follow=True), lambda: False)
    assert len(list(reader.pieces(lambda _seconds: True))) == 1
    reader.close()


def test_output_just_before_the_end_of_a_container_is_read(log: Path) -> None:
    """It is asked whether it has ended, and only then read for the last time."""
    answers = iter([False, True])

    def ended() -> bool:
        answer = next(answers)
        if answer:
            append(log, line("last words"))()
        return answer

    reader = LogReader(log, LogOptions(follow=True, tail=0), ended)
    assert b"".join(reader.pieces(lambda _seconds: False)) == b"last words\n"
    reader.close()


@given(
    lines=st.lists(st.tuples(st.sampled_from("FP"), st.integers(0, 90)), max_size=30),
    wanted=st.integers(0, 12),
    block=st.integers(1, 200),
    unfinished=st.booleans(),
)
def test_the_end_is_found_as_by_reading_everything(
    lines: list[tuple[str, int]], wanted: int, block: int, unfinished: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the size of the blocks; the parts of a line count once."""
    raw = [line("x" * size, tag=tag) for tag, size in lines]
    data = b"".join(raw)[: -1 if unfinished else None]
    path = tmp_path_factory.getbasetemp() / f"tail-{os.getpid()}.log"
    path.write_bytes(data)
    groups: list[list[bytes]] = []
    for number, each in enumerate(raw):
        if number == 0 or is_whole(raw[number - 1]):
            groups.append([])
        groups[-1].append(each)
    expected = b"".join(b"".join(group) for group in groups[len(groups) - min(wanted, len(groups)) :])
    with path.open("rb") as file:
        tail = find_tail(file.fileno(), wanted, len(data), block)
    assert tail.lines == min(wanted, len(groups))
    assert len(data) - tail.offset == max(0, len(expected) - (unfinished and bool(expected)))


def test_a_follower_reads_the_new_file_of_a_container_that_ended_right_after_a_rotation(log: Path) -> None:
    """A client on a slow link reads behind: its last words are in a file that the follower has not opened yet."""
    old = log.with_name("0.log.20261120-060000")

    def ended() -> bool:
        if not old.exists():
            append(log, line("full"))()
            rotate(log, to=old.name)()
            append(log, line("last words"))()
        return True

    reader = LogReader(log, LogOptions(follow=True, tail=0), ended)
    assert b"".join(reader.pieces(never)) == b"full\nlast words\n"
    reader.close()
