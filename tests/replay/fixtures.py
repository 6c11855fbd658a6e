"""Renews the recorded fixtures, on purpose: `python -m tests.replay.fixtures`.

`crashes`, `init`, `mounts`, `late_settings` and `offline` are one pod's causes out of simulated runs, and must be done
by today's code as they were recorded. `no_grace` was recorded with a changed decision, containers get two seconds to
end instead of what their pod says, and must be found to be different. `process`, `deletions` and `rules` are real
processes, as they were recorded; the last two on a very busy machine.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

from modules.lab.replay.commands import write_run
from modules.lab.replay.fixture import reduced, rerecorded
from modules.lab.replay.recorded import Recorded
from modules.lab.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from tests.replay.live import pods_come_and_go, pods_of_each_kind
from tests.replay.live_rules import rules_and_streams
from tests.replay.runs import record

DIRECTORY: Final = Path(__file__).parent / "fixtures"
_SETTINGS: Final = (WorkloadStep(0.5, "settings-0", Shape.CONFIGMAP), WorkloadStep(0.6, "keys-0", Shape.SECRET))


class Fixture(NamedTuple):
    """The source of a fixture: a plan with several pods that come and go, and the pod to keep."""

    plan: Plan
    pod: str


FIXTURES: Final = {
    "crashes": Fixture(
        Plan(1, 1, 40.0, (WorkloadStep(1.0, "crash", Shape.CRASHES), WorkloadStep(2.0, "other", Shape.PLAIN)), ()),
        "crash",
    ),
    "init": Fixture(
        Plan(
            2,
            1,
            25.0,
            (
                WorkloadStep(1.0, "init-pod", Shape.INIT),
                WorkloadStep(1.2, "other", Shape.TWO),
                WorkloadStep(15.0, "init-pod", Shape.INIT, revision=0),
            ),
            (Fault(2.0, FaultKind.CRI_FAILS, seconds=4.0, amount=0.5),),
        ),
        "init-pod",
    ),
    "mounts": Fixture(
        Plan(
            3,
            1,
            25.0,
            (
                *_SETTINGS,
                WorkloadStep(1.0, "files", Shape.MOUNTS),
                WorkloadStep(3.0, "other", Shape.PLAIN),
                WorkloadStep(8.0, "settings-0", Shape.CONFIGMAP, revision=2),
                WorkloadStep(18.0, "files", Shape.MOUNTS, revision=0),
            ),
            (Fault(9.0, FaultKind.CUT, seconds=3.0),),
        ),
        "files",
    ),
    "late_settings": Fixture(
        Plan(
            4,
            1,
            9.0,
            (
                WorkloadStep(1.0, "files", Shape.MOUNTS),
                WorkloadStep(1.2, "other", Shape.PLAIN),
                WorkloadStep(3.0, "keys-0", Shape.SECRET),
                WorkloadStep(4.0, "settings-0", Shape.CONFIGMAP),
            ),
            (),
        ),
        "files",
    ),
    "offline": Fixture(
        Plan(5, 1, 18.0, (WorkloadStep(1.0, "runs", Shape.PLAIN),), (Fault(1.03, FaultKind.CUT, seconds=14.0),)),
        "runs",
    ),
}
"""Fixtures that today's code must reproduce, by name."""

PROCESS: Final = "process"
DELETIONS: Final = "deletions"
RULES: Final = "rules"
LIVE: Final[dict[str, Callable[[], bytes]]] = {
    PROCESS: pods_of_each_kind,
    DELETIONS: pods_come_and_go,
    RULES: rules_and_streams,
}
"""Recordings of real processes, by name."""

CHANGED: Final = "no_grace"
"""The fixture that it must not reproduce."""


def path_of(name: str) -> Path:
    """File of a fixture."""
    return DIRECTORY / f"{name}.trace"


def _made(fixture: Fixture) -> Recorded:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        old = reduced(record(fixture.plan, Path(first)), "default", fixture.pod)
        return rerecorded(old, Path(second))[0]


def main() -> None:
    """Make them all."""
    DIRECTORY.mkdir(exist_ok=True)
    for name, fixture in FIXTURES.items():
        write_run(path_of(name), _made(fixture))
    with mock.patch("edged.lifecycle.stop_container.grace_seconds", return_value=2):
        write_run(path_of(CHANGED), _made(FIXTURES["mounts"]))
    for name, recorded in LIVE.items():
        path_of(name).write_bytes(recorded())
    for path in sorted(DIRECTORY.glob("*.trace")):
        sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
