"""Formats pods and workloads as rows of the demo's table. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.printing.ages import age_of
from modules.apimachinery.printing.pods import pod_ready, pod_restarts
from modules.apimachinery.printing.tables import aligned
from modules.processes.demo.examples import Expectation, ObjectName
from modules.processes.demo.goals import available_pods, last_message, phase_of, unmet

TITLES = ("", "NAME", "PHASE", "READY", "RESTARTS", "AGE", "LAST MESSAGE")
_THERE, _UNDER_WAY = "ok", "…"


class Row(NamedTuple):
    """The displayed values of a pod."""

    name: str
    there: bool
    """Whether it is in its expected state."""
    phase: str
    ready: str
    restarts: int
    message: str
    age: str


def row_of(name: ObjectName, expectation: Expectation, pod: JsonObject | None, now: float) -> Row:
    """Return the row of a pod or workload, also if it is not in the cloud (yet).

    Args:
        name: its name.
        expectation: its expected state.
        pod: the pod as the cloud has it.
        now: seconds since the epoch, for the age.
    """
    if pod is None:
        return Row(name.shown, there=False, phase="-", ready="-", restarts=0, message="", age="-")
    if expectation in (Expectation.AVAILABLE, Expectation.SCHEDULED, Expectation.ANSWERS):
        return _workload_row(name, expectation, pod, age_of(pod, now))
    return Row(
        name=name.name,
        there=not unmet(expectation, pod),
        phase=phase_of(pod),
        ready=pod_ready(pod),
        restarts=pod_restarts(pod),
        message=last_message(pod),
        age=age_of(pod, now),
    )


def _workload_row(name: ObjectName, expectation: Expectation, obj: JsonObject, age: str) -> Row:
    there = not unmet(expectation, obj)
    if expectation is Expectation.SCHEDULED:
        last = (obj.get("status") or {}).get("lastScheduleTime")
        schedule = f"schedule {(obj.get('spec') or {}).get('schedule')}"
        message = f"{schedule}, last at {last}" if last else schedule
        return Row(name.shown, there, str(expectation), "-", 0, message, age)
    if expectation is Expectation.ANSWERS:
        message = str(obj["status"].get("answer") or "")
        return Row(name.shown, there, str(expectation) if there else "Waiting", "-", 0, message, "-")
    ready = "/".join(map(str, available_pods(obj)))
    return Row(name.shown, there, str(expectation) if there else "Progressing", ready, 0, "", age)


def table_of(rows: Sequence[Row], width: int) -> list[str]:
    """Return the rows as a table with a head; no line is longer than `width` characters."""
    cells = [TITLES, *(_cells(row) for row in rows)]
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in aligned(cells)]


def line_of(row: Row) -> str:
    """Return the row as a line for a pipe."""
    mark = " [as it should be]" if row.there else ""
    restarts = f", {row.restarts} restart{'s' if row.restarts != 1 else ''}" if row.restarts else ""
    message = f": {row.message}" if row.message else ""
    ready, age = (f", {row.ready} ready", f", {row.age} old") if row.age != "-" else ("", "")
    return f"{row.name}: {row.phase}{ready}{restarts}{age}{mark}{message}"


def _cells(row: Row) -> tuple[str, ...]:
    mark = _THERE if row.there else _UNDER_WAY
    return (mark, row.name, row.phase, row.ready, str(row.restarts), row.age, row.message)
