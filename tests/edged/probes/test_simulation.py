"""Probed and hooked pods in a bad world (`tests.edged.world`), a run for each seed; answers are drawn too."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from edged.cri.contract import ExecResult
from edged.cri.errors import CriError
from tests.edged import world
from tests.edged.world import World
from tests.support.slow import one_in

RUNS = 60
_EXEC = {"exec": {"command": ["how", "are", "you"]}}
_PROBE = {**_EXEC, "periodSeconds": 2, "failureThreshold": 2}
_HOOKS = {"postStart": {"sleep": {"seconds": 3}}, "preStop": _EXEC}


def _with(**fields: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"], **fields}


KINDS = {
    "ready": {"containers": [_with(readinessProbe=_PROBE)]},
    "alive": {"containers": [_with(livenessProbe=_PROBE, startupProbe=_PROBE)]},
    "hooked": {"containers": [_with(lifecycle=_HOOKS), {**_with(), "name": "side"}]},
    "all": {"containers": [_with(lifecycle={"postStart": _EXEC, "preStop": _EXEC}, livenessProbe=_PROBE)]},
    "sidecar": {
        "initContainers": [{**_with(startupProbe=_PROBE), "name": "i1", "restartPolicy": "Always"}],
        "containers": [_with(readinessProbe=_PROBE)],
    },
}


class UneasyWorld(World):
    """Commands in containers fail, take their time, or cannot be run."""

    def __init__(self, seed: int, root: Path) -> None:
        super().__init__(seed, root)
        self.uneasy = 0.0
        self.runtime.on_exec = self._execute

    def _change_manners(self) -> None:
        super()._change_manners()
        self.uneasy = self.chance.choice([0.0, 0.2, 0.9])

    def _calm(self) -> None:
        super()._calm()
        self.uneasy = 0.0

    def unsettled(self) -> list[str]:
        """Besides: what is not ready although everything answers well."""
        pods = self.bench.snapshots.pods
        unready = [p.metadata.uid for p in pods if not all(c.ready for c in p.status.container_statuses)]
        return [*super().unsettled(), *(f"{uid} is not ready" for uid in unready)]

    def _execute(self, _name: str, _command: Sequence[str]) -> ExecResult:
        if self.chance.random() >= self.uneasy:
            return ExecResult(b"", b"", 0)
        clock, over = self.bench.bee.clock, self.bench.bee.simulation.future()
        clock.after(self.chance.choice([0.0, 1.0, 10.0]), over.set)
        over.get()
        error: CriError | None = self.chance.choice([None, *world.ERRORS])
        if error is not None:
            raise error
        return ExecResult(b"", b"", 1)


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    with patch.dict(world.KINDS, KINDS, clear=True):
        yield


@pytest.mark.parametrize("seed", one_in(15, range(RUNS)))
def test_for_any_answers_nothing_runs_twice_and_all_is_well_in_the_end(seed: int, tmp_path: Path) -> None:
    uneasy = UneasyWorld(seed, tmp_path)
    try:
        uneasy.live(60.0)
        assert uneasy.wrong == [], f"seed {seed}"
        assert uneasy.unsettled() == [], f"seed {seed}"
    finally:
        uneasy.bench.stop()


def test_the_world_is_as_uneasy_as_planned(tmp_path: Path) -> None:
    """Commands were run, containers were killed for what they came to, and some started again."""
    uneasy = UneasyWorld(1, tmp_path)
    uneasy.live(60.0)
    uneasy.bench.stop()
    calls = uneasy.runtime.calls
    assert calls["exec_sync"] > 20
    assert calls["stop_container"] > 3
    assert calls["start_container"] > 5
