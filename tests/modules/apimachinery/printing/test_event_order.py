"""Events of one second are ordered by their versions, as numbers."""

from typing import Any

import pytest

from modules.apimachinery.printing.event_order import event_order

SECOND, NEXT = "2026-11-20T01:00:00Z", "2026-11-20T01:00:01Z"


def _event(name: str, version: str | None, last: str = SECOND, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}, "lastTimestamp": last, **fields}


@pytest.mark.parametrize(
    "events",
    [
        [_event("b", "9"), _event("a", "10"), _event("0", "100")],
        [_event("b", "10", SECOND), _event("a", "9", NEXT)],
        [_event("a", None), _event("b", None)],
        [_event("a", None, ""), _event("b", "1"), _event("a", "1", NEXT)],
        [_event("b", "1", "2026-11-20T01:00:00Z"), _event("a", "2", "", eventTime="2026-11-20T01:00:00.500000Z")],
        [_event("b", "1", NEXT), _event("a", "2", SECOND, series={"lastObservedTime": "2026-11-20T01:00:01.000001Z"})],
    ],
    ids=["one second", "two seconds", "no versions", "no time", "whole and parts of seconds", "a series"],
)
def test_the_newest_is_last(events: list[dict[str, Any]]) -> None:
    assert sorted(events, key=event_order, reverse=True) == events[::-1]
