"""Logs in CRI's form from Docker's streams, without a Docker."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from modules.runtimes.docker import log_stream
from modules.runtimes.docker.frames import FrameError, FrameReader
from modules.runtimes.docker.log_stream import ContainerLog
from tests.modules.runtimes.shim.test_log_file import FullDisk
from tests.support.failing import Failing, census

TIMES = [f"2026-11-20T05:42:16.00000000{number}Z" for number in range(10)]


def frame(text: str, stream: int = 1) -> bytes:
    """A frame as Docker sends it."""
    return struct.pack(">BxxxI", stream, len(text)) + text.encode()


def log_at(path: Path, *, tty: bool = False) -> ContainerLog:
    """A container's log."""
    return ContainerLog("c1", str(path), tty=tty)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_frames_in_any_pieces(tmp_path: Path, size: int) -> None:
    """However the stream is cut, each frame is an entry; one without a newline is a part of a line."""
    path = tmp_path / "new" / "0.log"
    data = frame(f"{TIMES[1]} one\n") + frame(f"{TIMES[2]} tw", 2) + frame(f"{TIMES[2]} o\n", 2)
    log = log_at(path)
    stream, since = log.resume()
    for at in range(0, len(data), size):
        log.write(stream, data[at : at + size])
    log.close()
    assert since == ""
    assert path.read_text().splitlines() == [
        f"{TIMES[1]} stdout F one",
        f"{TIMES[2]} stderr P tw",
        f"{TIMES[2]} stderr F o",
    ]


def test_nothing_is_written_to_a_closed_log(tmp_path: Path) -> None:
    """Neither by a rotation that comes too late: nobody would close it again."""
    log = log_at(tmp_path / "0.log")
    stream, _ = log.resume()
    log.write(stream, frame(f"{TIMES[1]} a\n"))
    log.close()
    log.reopen()
    log.write(stream, frame(f"{TIMES[2]} b\n"))
    assert (tmp_path / "0.log").read_text() == f"{TIMES[1]} stdout F a\n"


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Docker repeats entries of the last moment: known ones are left out, further ones are not."""
    path = tmp_path / "0.log"
    first = log_at(path)
    stream, _ = first.resume()
    first.write(stream, frame(f"{TIMES[1]} a\n") + frame(f"{TIMES[2]} b\n") + frame(f"{TIMES[2]} c\n"))
    first.close()
    second = log_at(path)
    stream, since = second.resume()
    assert since == "1795153336.000000002"
    second.write(stream, b"".join(frame(f"{TIMES[2]} {text}\n") for text in "bcd") + frame(f"{TIMES[3]} e\n"))
    second.close()
    assert [line[-1] for line in path.read_text().splitlines()] == list("abcde")


def test_a_log_that_ended_at_a_whole_second_goes_on_from_there(tmp_path: Path) -> None:
    """Not from its beginning."""
    (tmp_path / "0.log").write_text("2026-11-20T01:00:00.000000000Z stdout F a\n")
    assert log_at(tmp_path / "0.log").resume()[1] == "1795136400.000000000"


def test_a_link_in_place_of_a_rotated_log_says_nothing_of_its_end(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(f"{TIMES[9]} stdout F a\n")
    (tmp_path / "0.log.20261120-054216").symlink_to("other")
    assert log_at(tmp_path / "0.log").resume()[1] == ""


def test_a_lost_stream_goes_on_where_it_ended(tmp_path: Path) -> None:
    """As often as the connection breaks off, with as many entries of one moment as there are by then."""
    path = tmp_path / "0.log"
    log = log_at(path)
    for texts in ("ab", "abc", "abcd", "abcd"):
        stream, _ = log.resume()
        log.write(stream, b"".join(frame(f"{TIMES[2]} {text}\n") for text in texts))
    log.close()
    assert [line[-1] for line in path.read_text().splitlines()] == list("abcd")


def test_after_a_rotation_and_a_full_disk(tmp_path: Path) -> None:
    """The rotated file tells where to go on; an entry that was cut is removed, and comes again."""
    path = tmp_path / "0.log"
    rotated = tmp_path / "0.log.20261120-054216"
    rotated.write_text(f"{TIMES[1]} stdout F a\n")
    (tmp_path / "0.log.20261119-054216").write_text(f"{TIMES[0]} stdout F older\n")
    log = log_at(path)
    stream, since = log.resume()
    assert since.endswith(".000000001")
    log.write(stream, frame(f"{TIMES[1]} a\n") + frame(f"{TIMES[2]} b\n"))
    log.close()
    path.write_bytes(path.read_bytes() + f"{TIMES[3]} stdo".encode())
    again = log_at(path)
    stream, _ = again.resume()
    again.write(stream, frame(f"{TIMES[2]} b\n") + frame(f"{TIMES[3]} c\n"))
    again.close()
    assert path.read_text() == f"{TIMES[2]} stdout F b\n{TIMES[3]} stdout F c\n"


def test_a_clock_that_is_set_back_loses_nothing(tmp_path: Path) -> None:
    """Once a log goes on, earlier times are entries like any other."""
    path = tmp_path / "0.log"
    log = log_at(path)
    stream, _ = log.resume()
    log.write(stream, frame(f"{TIMES[5]} a\n") + frame(f"{TIMES[1]} b\n"))
    log.close()
    assert [line[-1] for line in path.read_text().splitlines()] == ["a", "b"]


def test_an_older_stream_is_ignored(tmp_path: Path) -> None:
    """When a log is read again, what still comes over the earlier connection is not written twice."""
    path = tmp_path / "0.log"
    log = log_at(path)
    older, _ = log.resume()
    newer, _ = log.resume()
    log.write(older, frame(f"{TIMES[1]} a\n"))
    log.write(newer, frame(f"{TIMES[1]} a\n"))
    log.close()
    assert len(path.read_text().splitlines()) == 1


def test_reopening(tmp_path: Path) -> None:
    """After a rotation the log continues in a new file."""
    path = tmp_path / "0.log"
    log = log_at(path)
    stream, _ = log.resume()
    log.write(stream, frame(f"{TIMES[1]} a\n"))
    path.rename(tmp_path / "old")
    log.reopen()
    log.write(stream, frame(f"{TIMES[2]} b\n"))
    log.close()
    assert (path.read_text()[-2:], (tmp_path / "old").read_text()[-2:]) == ("b\n", "a\n")


def test_a_terminal(tmp_path: Path) -> None:
    """The output of a terminal has no frames, and counts as stdout."""
    path = tmp_path / "0.log"
    log = log_at(path, tty=True)
    stream, _ = log.resume()
    log.write(stream, f"{TIMES[1]} a\r\n{TIMES[2]} ".encode())
    log.write(stream, b"b\r\n")
    log.close()
    assert path.read_bytes().decode() == f"{TIMES[1]} stdout F a\r\n{TIMES[2]} stdout F b\r\n"


@pytest.mark.parametrize("size", [1000, 40_000, 1_000_000])
def test_a_terminals_line_without_end(tmp_path: Path, size: int) -> None:
    """It is no error, after which the stream would be asked for again without end; it goes to the log in pieces, which
    are the same when the stream comes again.
    """
    path, text = tmp_path / "0.log", "".join(f"{number:09d}," for number in range(100_000))
    log = log_at(path, tty=True)
    whole = f"{TIMES[1]} {text}\r\n{TIMES[2]} b\r\n".encode()
    for begun in (whole[:500_000], whole):
        stream, _ = log.resume()
        for at in range(0, len(begun), size):
            log.write(stream, begun[at : at + size])
    log.close()
    entries = [line.split(" ", 3) for line in path.read_text().splitlines()]
    assert "".join(each[3] for each in entries[:-1]) == text
    assert {each[0] for each in entries[:-1]} == {TIMES[1]}
    assert [each[2] for each in entries] == ["P"] * (len(entries) - 2) + ["F", "F"]
    assert max(len(each[3]) for each in entries) <= 32 * 1024


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_a_log_is_written_to_a_regular_file_only(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Others may have put a pipe there while the log was rotated: it would hold up the logs of all containers. The log
    goes on in the rotated file.
    """
    path = tmp_path / "0.log"
    log = log_at(path)
    stream, _ = log.resume()
    log.write(stream, frame(f"{TIMES[1]} a\n"))
    path.rename(tmp_path / "old")
    make(path)
    with pytest.raises(OSError, match=str(path)):
        log.reopen()
    for _ in range(20):
        log.write(stream, frame(f"{TIMES[2]} {'b' * 16_000}\n"))
    log.close()
    assert not (tmp_path / "elsewhere").exists()
    assert len((tmp_path / "old").read_text().splitlines()) == 21


def test_no_stream_of_dockers() -> None:
    """Bytes that are no frame, and endless ones, are an error and are not kept."""
    with pytest.raises(FrameError):
        list(FrameReader().frames(b"HTTP/1.1 200 OK"))
    with pytest.raises(FrameError):
        list(FrameReader().frames(struct.pack(">BxxxI", 1, 1 << 31)))


def test_an_entry_that_fits_in_part_is_not_continued_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full for a while."""
    path = tmp_path / "0.log"
    log = log_at(path)
    stream, _ = log.resume()
    disk = FullDisk(50, monkeypatch)
    log.write(stream, frame(f"{TIMES[1]} a\n") + frame(f"{TIMES[2]} lost\n"))
    disk.room = 100
    log.write(stream, frame(f"{TIMES[3]} b\n"))
    log.close()
    assert path.read_text().splitlines() == [f"{TIMES[1]} stdout F a", f"{TIMES[3]} stdout F b"]


def test_an_entry_that_cannot_be_cut_off_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.log"
    path.write_text(f"{TIMES[1]} stdout F a\n{TIMES[2]} std")
    monkeypatch.setattr(os, "ftruncate", Failing(0).call(os.ftruncate))
    before, log = census(), log_at(path)
    log.resume()
    assert not census().more_than(before)
    stream, _ = log.resume()
    log.write(stream, frame(f"{TIMES[3]} b\n"))
    log.close()
    assert path.read_text().splitlines() == [f"{TIMES[1]} stdout F a", f"{TIMES[3]} stdout F b"]


def test_entries_of_another_moment_are_not_repeated(tmp_path: Path) -> None:
    """Docker repeats those of the last moment alone; more would be left out of what comes then."""
    path = tmp_path / "0.log"
    log = log_at(path)
    for times, texts in (((1, 1, 2), "abc"), ((2, 2), "cd")):
        stream, _ = log.resume()
        log.write(stream, b"".join(frame(f"{TIMES[at]} {text}\n") for at, text in zip(times, texts, strict=True)))
    log.close()
    assert [line[-1] for line in path.read_text().splitlines()] == list("abcd")


def test_a_line_of_which_the_beginning_is_not_looked_at_is_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may write what looks like one."""
    forged = f"{TIMES[9]} stdout F b\n".encode()
    monkeypatch.setattr(log_stream, "_TAIL", len(forged))
    (tmp_path / "0.log").write_bytes(f"{TIMES[1]} stdout F ".encode() + forged)
    assert log_at(tmp_path / "0.log").resume()[1] == ""
