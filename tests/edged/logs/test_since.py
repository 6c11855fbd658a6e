"""The lines since a time: what is read for them."""

import gzip
import os
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.logs import files, lines, reader
from edged.logs.files import NAME_FORMAT, find_since
from edged.logs.lines import time_of
from edged.logs.packed import PackedFile
from edged.logs.reader import LogReader
from modules.apimachinery.pods.log_options import LogOptions
from modules.apimachinery.types import Nanoseconds
from modules.apimachinery.types.times import SECOND

_START = 1_800_000_000
_LINES = 4000
"""Of a file; one is written each second."""


def _line(second: int, text: str = "x" * 40, stream: str = "stdout") -> bytes:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.000000000Z {stream} F {text}\n".encode()


def _at(second: int) -> Nanoseconds:
    return Nanoseconds(second * SECOND)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packed files, a plain rotated one and the current one."""
    path = tmp_path_factory.mktemp("log") / "0.log"
    for number, name in enumerate((".gz", ".gz", "", None)):
        first, end = _START + number * _LINES, _START + (number + 1) * _LINES
        text = b"".join(_line(second) for second in range(first, end))
        stamp = f".{datetime.fromtimestamp(end, UTC).strftime(NAME_FORMAT)}{name}" if name is not None else ""
        file = path.with_name(f"0.log{stamp}")
        file.write_bytes(gzip.compress(text, 1) if name == ".gz" else text)
        os.utime(file, (end, end))
    return path


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, int, int]]:
    """Returns the files that were opened, the lines that were parsed, and the bytes that were unpacked since its last
    call.
    """
    opened, parsed = Mock(wraps=files.open_log), Mock(wraps=lines.parse_line)
    monkeypatch.setattr(files, "open_log", opened)
    monkeypatch.setattr(reader, "parse_line", parsed)
    unpacked = [0]
    reads, reads_line = PackedFile.read, PackedFile.readline

    def read(file: PackedFile, size: int | None = -1) -> bytes:
        unpacked[0] += len(data := reads(file, size))
        return data

    def readline(file: PackedFile, size: int | None = -1) -> bytes:
        unpacked[0] += len(data := reads_line(file, size))
        return data

    monkeypatch.setattr(PackedFile, "read", read)
    monkeypatch.setattr(PackedFile, "readline", readline)

    def take() -> tuple[int, int, int]:
        found = opened.call_count, parsed.call_count, unpacked[0]
        opened.reset_mock()
        parsed.reset_mock()
        unpacked[0] = 0
        return found

    return take


def _lines_of(log: Path, **options: Any) -> int:
    with closing(LogReader(log, LogOptions(**options), lambda: True)) as found:
        return sum(piece.count(b"\n") for piece in found.pieces(lambda _: False))


@pytest.mark.parametrize("more", [{}, {"limit": 41 * 5}, {"follow": True}, {"tail": 3 * _LINES}], ids=str)
@pytest.mark.parametrize(
    ("back", "opened"),
    [(-1000, 1), (5, 1), (_LINES - 100, 1), (_LINES + 100, 2), (2 * _LINES + 100, 3), (3 * _LINES + 100, 4)],
)
def test_no_more_is_read_than_the_lines_since_a_time(
    log: Path, work: Callable[[], tuple[int, int, int]], back: int, opened: int, more: dict[str, Any]
) -> None:
    """Files whose last line is older are not even opened; in the first one that may have a line it is searched."""
    end = _START + 4 * _LINES
    wanted = min(max(0, back), more.get("limit", 1 << 60) // 41, more.get("tail", 1 << 60))
    assert _lines_of(log, since=_at(end - back), **more) == wanted
    files_opened, parsed, unpacked = work()
    assert files_opened == opened
    assert parsed <= wanted + 1000
    at_most = opened - 2 if opened > 2 else 0
    once = at_most * _LINES * len(_line(_START))
    assert unpacked <= (2 if "tail" in more else 1) * once + 1000


@pytest.mark.parametrize(
    ("name", "changed", "is_read"),
    [("20009999-000000", 0, True), ("20200101-000000", _START, True), ("20991231-000000", 0, True),
     ("20200101-000000", 0, False)],
    ids=["name without a date", "written after it was renamed", "times lost", "old"],
)  # fmt: skip
def test_a_rotated_file_is_left_out_only_if_it_is_old_for_sure(
    tmp_path: Path, name: str, changed: int, *, is_read: bool
) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"")
    (file := path.with_name(f"0.log.{name}")).write_bytes(_line(_START))
    os.utime(file, (changed, changed))
    assert _lines_of(path, since=_at(_START)) == is_read


_TEXTS = st.lists(
    st.sampled_from([b"\0" * 90, b"no line\n", b"\n", b"2026-13-01T00:00:00Z stdout F bad\n", b""]), max_size=4
)


@given(
    entries=st.lists(st.tuples(st.integers(0, 3), _TEXTS, st.integers(0, 120)), max_size=30),
    since=st.integers(-1, 60),
    packed=st.booleans(),
)
def test_the_place_is_before_the_first_line_of_the_time(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, list[bytes], int]], since: int, *, packed: bool
) -> None:
    """Whatever else is in the file. What a search shows is what reading the whole file shows."""
    text, second = bytearray(), _START
    for seconds, others, length in entries:
        second += seconds
        text += b"".join(each if each.endswith(b"\n") else each + b"\n" for each in others if each)
        text += _line(second, "x" * length)
    directory = tmp_path_factory.mktemp("log")
    path = directory / "0.log"
    path.write_bytes(b"")
    (file := path.with_name(f"0.log.20991120-000000{'.gz' if packed else ''}")).write_bytes(
        gzip.compress(bytes(text)) if packed else bytes(text)
    )
    found_lines = bytes(text).splitlines(keepends=True)
    first = next(
        (at for at, each in enumerate(found_lines) if (time_of(each) or -1) >= _at(_START + since)), len(found_lines)
    )
    options = LogOptions(since=_at(_START + since), timestamps=True)
    shown = []
    for skips in (True, False):
        with pytest.MonkeyPatch.context() as patch, closing(LogReader(path, options, lambda: True)) as found:
            if not skips:
                patch.setattr(reader, "skip_older", lambda *_: None)
            shown.append(b"".join(found.pieces(lambda _: False)))
    assert shown[0] == shown[1]
    if not packed:
        with file.open("rb") as opened:
            place = find_since(opened.fileno(), _at(_START + since), 0, len(text), 100)
        assert place in (0, *(len(b"".join(found_lines[:at])) for at in range(first + 1)))
