"""Writes down what happened in a run: its plan, to be run again, and its log."""

from pathlib import Path

import msgspec

from modules.simulate.plan import Fault, Plan, Step, Write
from modules.simulate.run import Result


def plan_text(plan: Plan) -> str:
    """What happens in a plan, in order, a line each."""
    events: list[Step | Fault | Write] = sorted((*plan.steps, *plan.faults, *plan.writes), key=lambda event: event.at)
    head = f"seed {plan.seed}, {plan.nodes} node(s), {plan.seconds:g} s"
    head += f", resourceVersions from {plan.first_version}" if plan.first_version else ""
    return "\n".join((head, *(str(event) for event in events)))


def write_run(result: Result, directory: Path) -> Path:
    """Write the plan (JSON, to be run again with `--plan`) and the log; where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"seed-{result.plan.seed}.log"
    lines = [plan_text(result.plan), "", *(str(entry) for entry in result.log), "", str(result.violation or "ok"), ""]
    path.write_text("\n".join(lines))
    path.with_suffix(".plan.json").write_bytes(msgspec.json.format(msgspec.json.encode(result.plan), indent=1))
    return path


def read_plan(path: Path) -> Plan:
    """A plan that was written.

    Raises:
        msgspec.DecodeError: it is none.
        OSError: it cannot be read.
    """
    return msgspec.json.decode(path.read_bytes(), type=Plan)
