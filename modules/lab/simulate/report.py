"""Writes the plan of a run, which can be run again, and its log."""

from pathlib import Path

import msgspec

from beehive.decoding import decode_json
from modules.lab.simulate.plan import DeviceStep, Fault, Plan, RolloutStep, ServiceStep, WorkloadStep, Write
from modules.lab.simulate.run import SimulationResult


def plan_text(plan: Plan) -> str:
    """Return a plan as text, a line for each event."""
    events: list[WorkloadStep | Fault | Write | DeviceStep | RolloutStep | ServiceStep] = [
        *plan.steps, *plan.faults, *plan.writes, *plan.devices, *plan.rollouts, *plan.services,
    ]  # fmt: skip
    events.sort(key=lambda event: event.at)
    head = f"seed {plan.seed}, {plan.nodes} node(s), {plan.seconds:g} s"
    head += f", resourceVersions from {plan.first_version}" if plan.first_version else ""
    return "\n".join((head, *(str(event) for event in events)))


def write_run(result: SimulationResult, directory: Path) -> Path:
    """Write the plan (JSON for `--plan`) and the log; return the log's path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"seed-{result.plan.seed}.log"
    lines = [plan_text(result.plan), "", *(str(entry) for entry in result.log), "", str(result.violation or "ok"), ""]
    path.write_text("\n".join(lines))
    path.with_suffix(".plan.json").write_bytes(msgspec.json.format(msgspec.json.encode(result.plan), indent=1))
    return path


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        msgspec.DecodeError: the file is no plan.
        OSError: the file cannot be read.
    """
    return decode_json(path.read_bytes(), Plan)
