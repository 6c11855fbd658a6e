"""What a pull of a job has left when a call of the runtime fails."""

from types import SimpleNamespace
from typing import Any

import pytest

from edged.cri.errors import CriError
from modules.edge.taskmanager.pulls import _pull
from tests.modules.edge.taskmanager.jobs import NO_ROUTE
from tests.support.failing import Attempt, Failing, fail_at_each_call


@pytest.mark.parametrize("error", [NO_ROUTE, RuntimeError("of this test")])
def test_the_connection_to_the_runtime_is_closed_whatever_fails(error: Exception) -> None:
    """A job of a hundred images that fail would keep as many channels."""
    opened: list[Any] = []

    def make(failing: Failing) -> Attempt:
        def open_runtime() -> Any:
            opened.append(failing)
            return SimpleNamespace(
                image_status=failing.call(lambda _: None), pull_image=failing.call(lambda *_: ""), close=opened.clear
            )

        def run() -> None:
            told = _pull(open_runtime, "busybox", ())
            assert bool(told) == (failing.has_failed and isinstance(error, CriError))

        return Attempt(run, left=lambda: len(opened), is_repeatable=False)

    assert fail_at_each_call(make, error) == 2
    assert not opened
