"""The state of a Job, from its status."""

from collections.abc import Iterable
from typing import Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.conditions import changed_at, condition_of
from modules.apimachinery.kinds import JsonObject

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA: Final = "SuccessCriteriaMet"
SUSPENDED: Final = "Suspended"


def finished(job: JsonObject) -> JsonObject | None:
    """Return the condition that ended a Job, or None."""
    for kind in (COMPLETE, FAILED):
        found = true_condition(job, kind)
        if found is not None:
            return found
    return None


def is_finished(job: JsonObject) -> bool:
    """Return whether a Job has ended."""
    return finished(job) is not None


def true_condition(job: JsonObject, kind: str) -> JsonObject | None:
    """Return a condition of a Job if it is True, or None."""
    found = condition_of(job, kind)
    return found if found.get("status") == "True" else None


def finish_time(job: JsonObject) -> float | None:
    """Return the end of a Job, in seconds since the epoch, or None."""
    end = finished(job)
    return None if end is None else changed_at(end)


def read_indexes(text: str, job: JsonObject) -> set[int]:
    """Return the indexes of `0-2,5`, whose parts ascend; others are left out, and indexes beyond a Job's completions,
    which may have become fewer.
    """
    bound = int(job["spec"].get("completions") or 0)
    found, least = set[int](), 0
    for part in filter(None, text.split(",")):
        begin, _, end = part.partition("-")
        first, last = whole_number(begin), whole_number(end or begin)
        if first is not None and last is not None and least <= first <= last:
            found.update(range(first, min(last + 1, bound)))
            least = last + 1
    return found


def indexes_text(indexes: Iterable[int]) -> str:
    """Return indexes as a Job's status has them."""
    spans: list[list[int]] = []
    for index in sorted(indexes):
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    parts = (
        f"{first}-{last}" if last - first > 1 else ",".join(map(str, range(first, last + 1))) for first, last in spans
    )
    return ",".join(parts)
