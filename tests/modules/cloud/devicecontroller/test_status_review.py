"""The review of all DeviceStatuses, without an API server."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.devicecontroller import status_review
from modules.cloud.devicecontroller.devices_by_key import device_key
from modules.cloud.devicecontroller.status_review import StatusReview


class Bed:
    """A review of the statuses of three Devices, and what it asks for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens: list[str] = []
        self.refreshed: list[str] = []
        self.sized: list[str] = []
        self.timers: list[Callable[[], None]] = []
        self._answers: list[Callable[[ApiResult], None]] = []
        monkeypatch.setattr(status_review, "ask", self._ask)
        given: Any = (
            SimpleNamespace(after=lambda _seconds, then: self.timers.append(then)),
            lambda _key, status, _report: status,
            SimpleNamespace(devices=[device_key("default", name) for name in "abc"]),
            SimpleNamespace(put=lambda key, _status: self.sized.append(key.name)),
            lambda key: self.refreshed.append(key.name),
        )
        self.review = StatusReview(*given)

    def _ask(self, _module: object, call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        self.tokens.append(str(call.options.get("continue", "")))
        self._answers.append(answered)

    def answer(self, names: str = "", following: str = "", refusal: JsonObject | None = None, at: int = -1) -> None:
        """Answer one of the calls: with the statuses of these Devices, or a refusal."""
        items = [{"metadata": {"namespace": "default", "name": name}} for name in names]
        listed = {"items": items, "metadata": {"continue": following}}
        self._answers[at](ApiResult(refusal=refusal) if refusal else ApiResult(listed))


@pytest.fixture
def bed(monkeypatch: pytest.MonkeyPatch) -> Bed:
    made = Bed(monkeypatch)
    made.review.start()
    return made


def test_what_no_part_of_a_long_list_has_is_written(bed: Bed) -> None:
    bed.answer("a", following="second")
    assert bed.refreshed == [], "the rest may have the others"
    bed.answer("b")
    assert (bed.tokens, bed.sized, bed.refreshed) == (["", "second"], ["a", "b"], ["c"])


def test_a_review_that_another_has_followed_changes_nothing(bed: Bed) -> None:
    """What it lists is older than what has been written since."""
    bed.review.start()
    bed.answer("a", at=0)
    assert (bed.tokens, bed.sized, bed.refreshed) == (["", ""], [], [])
    bed.answer("ab")
    assert bed.refreshed == ["c"]


def test_a_review_that_fails_begins_again_unless_another_has(bed: Bed) -> None:
    bed.answer(refusal={"code": 500})
    bed.timers.pop()()
    bed.answer(refusal={"code": 500})
    bed.review.start()
    bed.timers.pop()()
    assert len(bed.tokens) == 3
    bed.answer(refusal={"code": 404})
    assert bed.timers == [], "there are none, and somebody has to define them"
