"""The container that ended badly last, and what is shown of its log."""

from typing import Any

import pytest

from modules.insight.why.last_lines import EndedContainer, ended_badly, last_lines


def ended(code: int, at: str, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": f"2027-01-15T07:58:{at}Z"}}


RUNS = {"running": {"startedAt": "2027-01-15T07:58:40Z"}}


@pytest.mark.parametrize(
    ("statuses", "want"),
    [
        ([{"name": "a", "state": RUNS}], None),
        ([{"name": "a", "state": ended(1, "10")}], EndedContainer("a", is_previous=False)),
        (
            [{"name": "a", "state": RUNS, "lastState": ended(137, "10", "OOMKilled")}],
            EndedContainer("a", is_previous=True),
        ),
        ([{"name": "a", "state": ended(0, "20"), "lastState": ended(1, "10")}], None),
        ([{"name": "a", "state": ended(128, "10", "StartError")}], None),
        (
            [{"name": "a", "state": RUNS, "lastState": ended(1, "10")}, {"name": "b", "state": ended(2, "30")}],
            EndedContainer("b", is_previous=False),
        ),
    ],
)
def test_the_container_that_ended_badly_last(statuses: list[dict[str, Any]], want: EndedContainer | None) -> None:
    assert ended_badly({"status": {"containerStatuses": statuses}}) == want


def test_lines_are_few_and_short() -> None:
    found = last_lines("a", b"x" * 100_000 + b"\n" + b"\n".join(b"%d" % number for number in range(30)))
    assert found is not None
    assert found.lines == [str(number) for number in range(20, 30)]
    found = last_lines("a", b"x" * 200 + b"\n" + b"y" * 1000 + b"\xff\n")
    assert found is not None
    assert found.lines == ["x" * 200, "y" * 200 + " …"]
    assert last_lines("a", b"\n\n") is None
