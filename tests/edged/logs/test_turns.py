"""One log is read at a time."""

import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from edged.logs import reader
from edged.logs.reader import LogReader
from edged.logs.turns import ReadingTurns
from modules.apimachinery.pods.log_options import LogOptions
from tests.end_to_end.processes import wait_until
from tests.support.failing import Failing, PlannedError

_LINE = b"2026-11-20T05:42:16.000000001Z stdout F text\n"


def _queued(turns: ReadingTurns, order: list[str], *names: str) -> list[threading.Thread]:
    """Start threads that note their turn, one after the other."""

    def note(name: str) -> None:
        with turns.turn():
            order.append(name)

    threads = []
    for number, name in enumerate(names, 1):
        threads.append(threading.Thread(target=note, args=(name,)))
        threads[-1].start()
        wait_until(lambda number=number: len(turns._turns._waiting) == number, "it waits")  # type: ignore[misc]
    return threads


def test_turns_come_in_their_order() -> None:
    turns, order = ReadingTurns(), list[str]()
    with turns.turn():
        threads = _queued(turns, order, "first", "second")
        assert order == []
    for each in threads:
        each.join()
    assert order == ["first", "second"]
    with turns.turn():
        order.append("again")


@pytest.mark.parametrize("way", ["pass_on", "pause"])
def test_the_holder_of_the_turn_lets_waiting_readers_go_first(way: str) -> None:
    turns, order = ReadingTurns(), list[str]()
    with turns.turn():
        threads = _queued(turns, order, "first", "second")
        if way == "pass_on":
            turns.pass_on()
        else:
            with turns.pause():
                for each in threads:
                    each.join()
        order.append("last")
    for each in threads:
        each.join()
    assert order == ["first", "second", "last"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "ns_pod_uid" / "c" / "0.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(_LINE * 2000)
    return path


def _read(log: Path, **options: Any) -> bytes:
    with closing(LogReader(log, LogOptions(**options), lambda: True)) as found:
        return b"".join(found.pieces(lambda _: False))


def test_a_pause_that_ends_with_an_error_ends_with_the_turn() -> None:
    """The one who gives the turn back has to have it: two readers would have it afterwards."""
    turns = ReadingTurns()
    with turns.turn():
        with pytest.raises(ValueError, match="of this test"), turns.pause():
            raise ValueError("of this test")
        assert turns._turns.locked()
    assert not turns._turns.locked()


def test_a_log_is_read_in_its_turn_and_waits_without_it(log: Path) -> None:
    """Otherwise a client that takes nothing, or a container that writes nothing, would stop all other readers."""
    held: list[bool] = []

    def ended() -> bool:
        held.append(reader._TURNS._turns.locked())
        return len(held) > 1

    with closing(LogReader(log, LogOptions(follow=True), ended)) as followed:
        pieces = followed.pieces(lambda _: not _read(log))
        assert next(pieces) == b"text\n" * 2000
        assert _read(log), "beside a client that takes nothing more"
        assert list(pieces) == []
    assert held == [True, True]


def test_lines_that_are_not_shown_take_several_turns(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of 50 MiB of which another stream is wanted would hold up the others for a second."""
    passed: list[None] = []
    monkeypatch.setattr(reader, "_TURN", 10 * len(_LINE))
    monkeypatch.setattr(reader._TURNS, "pass_on", lambda: passed.append(None))
    assert _read(log, streams=("stderr",)) == b""
    assert len(passed) == 200


def test_a_reader_that_fails_gives_its_turn_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would read a log any more. It gives back no other reader's, also when it fails while it waits."""
    turns = Mock(wraps=reader._TURNS._turns)
    monkeypatch.setattr(reader._TURNS, "_turns", turns)
    (path := tmp_path / "0.log").write_bytes(_LINE)
    with closing(LogReader(path, LogOptions(follow=True), lambda: False)) as read, pytest.raises(PlannedError):
        list(read.pieces(Failing(0).call(lambda _: False)))
    calls = [name for name, *_ in turns.method_calls if name in ("acquire", "release")]
    assert calls == ["acquire", "release"] * (len(calls) // 2)
