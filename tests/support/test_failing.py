"""Operations that fail at each of their calls: what they leave is found."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.descriptors import open_descriptors
from tests.support.failing import Attempt, Failing, PlannedError, fail_at_each_call


class _Device:
    """A double with two calls."""

    def open(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Do nothing."""


class _User:
    """Opens a device, and keeps books of it."""

    def __init__(self, device: _Device, directory: Path, leaves: str = "") -> None:
        self._device = device
        self._directory = directory
        self._leaves = leaves
        self.known: dict[str, int] = {}
        self.stop = threading.Event()

    def begin(self) -> None:
        """Open it and start it; undo all of that, but for what is to be left."""
        self._device.open()
        descriptor = os.open(self._directory, os.O_RDONLY)
        thread = threading.Thread(target=self.stop.wait, daemon=True)
        thread.start()
        self.known["device"] = 1
        try:
            self._device.start()
        except BaseException:
            if self._leaves != "a descriptor":
                os.close(descriptor)
            if self._leaves != "a thread":
                self.stop.set()
                thread.join()
            if self._leaves != "an entry":
                del self.known["device"]
            raise
        os.close(descriptor)
        self.stop.set()
        thread.join()
        self.known.clear()


def _using(directory: Path, leaves: str = "") -> Callable[[Failing], Attempt]:
    def make(failing: Failing) -> Attempt:
        user = _User(failing.calls_of(_Device()), directory, leaves)
        return Attempt(user.begin, (user,), is_repeatable=False)

    return make


def test_each_call_fails_until_the_operation_passes(tmp_path: Path) -> None:
    assert fail_at_each_call(_using(tmp_path)) == 2


@pytest.mark.parametrize(
    ("leaves", "told"),
    [("a descriptor", "call 2 there is left: open:"), ("a thread", "thread Thread-"), ("an entry", "known has 1")],
)
def test_what_is_left_is_told(tmp_path: Path, leaves: str, told: str) -> None:
    made: list[_User] = []

    def make(failing: Failing) -> Attempt:
        made.append(_User(failing.calls_of(_Device()), tmp_path, leaves))
        return Attempt(made[-1].begin, (made[-1],), is_repeatable=False)

    with pytest.raises(AssertionError, match=told):
        fail_at_each_call(make)
    for user in made:
        user.stop.set()
    for descriptor, target in open_descriptors():
        if target == str(tmp_path):
            os.close(descriptor)


def test_steps_of_files_fail_before_they_are_taken(tmp_path: Path) -> None:
    failing = Failing(1)
    with pytest.raises(PlannedError), failing.steps_of_files():
        (tmp_path / "first").mkdir()
        (tmp_path / "second").mkdir()
    assert [each.name for each in tmp_path.iterdir()] == ["first"]
