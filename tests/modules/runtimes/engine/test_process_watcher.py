"""Ends of containers that cannot be handled at once."""

import errno
import logging
import os
import select
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from modules.runtimes.engine.process_watcher import ProcessWatcher, Watched
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


class Ending:
    """A container that ends when `end` is called; its end cannot be handled as often as there are errors."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self.calls = 0

    def end(self) -> None:
        """Ends."""
        os.close(self._write)

    def fileno(self) -> int:
        return self._read

    def read(self) -> bool:
        return False

    def gone(self) -> None:
        self.close()
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)

    def close(self) -> None:
        if self._read >= 0:
            os.close(self._read)
            self._read = -1


@pytest.fixture
def watcher() -> Iterator[ProcessWatcher]:
    """Its thread does not run: `settle` does its work."""
    made = ProcessWatcher()
    yield made
    made.stop()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_an_end_without_descriptors_is_handled_later(watcher: ProcessWatcher, code: int) -> None:
    """Its exit code would be lost otherwise, or the container would run for ever."""
    ending = Ending(*(OSError(code, os.strerror(code)) for _ in range(2)))
    watcher.add(ending)
    ending.end()
    watcher.settle()
    assert ending.calls == 1
    watcher.settle()
    watcher.settle()
    assert ending.calls == 3
    watcher.settle()
    assert ending.calls == 3, "once is enough"


@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O error"), ValueError("other")])
def test_other_errors_are_logged_once_and_the_rest_goes_on(
    watcher: ProcessWatcher, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    ending, other = Ending(error), Ending()
    for each in (ending, other):
        watcher.add(each)
        each.end()
    with caplog.at_level(logging.ERROR):
        watcher.settle()
        watcher.settle()
    assert (ending.calls, other.calls) == (1, 1)
    assert caplog.text.count("no longer watched") == 1


def test_what_cannot_be_watched_is_closed_and_forgotten(
    watcher: ProcessWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's room for watches is shared by all of the user's processes; the next one may have its number."""

    def make(failing: Failing) -> Attempt:
        monkeypatch.setattr(watcher, "_epoll", failing.calls_of(select.epoll(), "register"))

        def run() -> None:
            ending = Ending()
            ending.end()
            watcher.add(ending)
            watcher.settle()

        return Attempt(run, (watcher,))

    assert fail_at_each_call(make) == 1


def test_a_watcher_that_cannot_be_made_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    before = census()
    monkeypatch.setattr(select, "epoll", Failing(0).call(select.epoll))
    with pytest.raises(PlannedError):
        ProcessWatcher()
    assert not census().more_than(before)


def test_a_watcher_that_stops_closes_what_it_has() -> None:
    """The containers go on, and the next edgecore watches them."""
    before, watcher = census(), ProcessWatcher()
    endings = [Ending() for _ in range(2)]
    for each in endings:
        watcher.add(each)
        each.end()
    watcher.stop()
    assert [each.calls for each in endings] == [0, 0]
    assert not census().more_than(before)


def test_what_is_watched_no_longer_has_no_end(watcher: ProcessWatcher) -> None:
    """Also if it has ended already, or a second time."""
    before, ending = census((watcher,)), Ending()
    watcher.add(ending)
    ending.end()
    for _ in range(2):
        watcher.remove(ending)
        watcher.settle()
    assert ending.calls == 0
    assert not census((watcher,)).more_than(before)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_connection_that_is_not_read_is_closed_all_the_same(*, is_stopped: bool) -> None:
    """It was never added, or the watcher has stopped meanwhile."""
    watcher, closed = ProcessWatcher(), list[int]()
    ours, theirs = os.pipe()
    link = cast("Watched", SimpleNamespace(fileno=lambda: ours, close=lambda: closed.append(1)))
    if is_stopped:
        watcher.add(link)
        watcher.stop()
        closed.clear()
    watcher.remove(link)
    assert closed
    if not is_stopped:
        watcher.stop()
    for each in (ours, theirs):
        os.close(each)
