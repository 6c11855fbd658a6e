"""Reported values with earlier times than the stored values.

A node's times grow even when its clock is set back, as long as it has its database. A node without its database and
with a clock that is behind would have all its reports taken for old, until the clock has caught up. So the answer has
the stored times, and the node reports its values again with later times. A report that really is old came over a
connection that has ended, so its answer is lost. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.unvalidated import as_object
from modules.cloud.devicecontroller.reports import Report, ReportedValue, is_older, milliseconds

Times = dict[str, dict[str, int]]
"""Milliseconds since 1970 by property, and by side of the node's twin, `actual` or `expected`."""

_SIDES: Final = (("actual", "reported"), ("expected", "observedDesired"))
"""The sides of a twin, and their fields in a DeviceStatus."""


def later_values(status: JsonObject, reports: Sequence[Report]) -> list[Times]:
    """Return, for each of several reports in the order of their coming, the times of stored values that are later than
    those in the report. A value that a further report of them has replaced is not missed.

    Args:
        status: the DeviceStatus, with the reports in it.
        reports: of its device.
    """
    stored = _stored_times(status)
    replaced: dict[tuple[str, str], int] = {}
    found: list[Times] = []
    for report in reversed(reports):
        times: Times = {}
        for name, side, value in _values(report):
            later = stored.get((name, side), 0)
            if is_older(value.timestamp, later) and replaced.get((name, side), 0) < value.timestamp:
                times.setdefault(name, {})[side] = later
            replaced[name, side] = max(value.timestamp, replaced.get((name, side), 0))
        found.append(times)
    return found[::-1]


def _values(report: Report) -> Iterator[tuple[str, str, ReportedValue]]:
    for (side, _), values in zip(_SIDES, (report.reported, report.observed), strict=True):
        for name, value in values.items():
            yield name, side, value


def _stored_times(status: JsonObject) -> dict[tuple[str, str], int]:
    made = {}
    for twin in as_object(status.get("status")).get("twins") or ():
        for side, field in _SIDES:
            metadata = as_object(as_object(as_object(twin).get(field)).get("metadata"))
            made[str(as_object(twin).get("propertyName")), side] = milliseconds(metadata.get("timestamp"))
    return made
