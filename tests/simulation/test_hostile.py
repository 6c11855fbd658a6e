"""A hostile node beside the honest ones changes nothing for them; were there a hole, it would be noticed."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.cloudhub import routing
from modules.lab.simulate import run
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.draw import FaultProfile
from modules.lab.simulate.hostile_node import NODE, HostileNode
from modules.lab.simulate.seeds import SeedSettings, run_seed
from modules.lab.simulate.status_watch import StatusWatch
from modules.lab.simulate.world import World
from tests.support.slow import one_in

_EVERY = 0.5


@pytest.mark.parametrize("seed", one_in(3, range(7000, 7003)))
@pytest.mark.parametrize("profile", one_in(3, [FaultProfile.ALL, FaultProfile.CLOUD, FaultProfile.NONE]))
def test_it_changes_nothing_of_others(profile: FaultProfile, seed: int) -> None:
    """With the workload and the faults of the honest nodes."""
    settings = SeedSettings(nodes=2, seconds=90, pods=3, profile=profile, hostile=_EVERY)
    violation = run_seed(seed, settings).violation
    assert violation is None, str(violation)


def test_what_it_does_not_acknowledge_stays_recorded(tmp_path: Path) -> None:
    """The deletion of a pod that it has made up; of an honest node that is a violation."""
    with World(1) as world:
        cloud = SimulatedCloud(world, tmp_path, StatusWatch(world))
        cloud.start()
        with closing(sqlite3.connect(cloud.state_path)) as database, database:
            row = "'a', 'Pod', 'default', 'a', 0"
            for node in ("node-0", NODE):
                columns = "(node, uid, kind, namespace, name, version)"
                database.execute(f"INSERT INTO cluster_syncs {columns} VALUES (?, {row})", (node,))  # noqa: S608 - ours
        HostileNode(world, cloud, _EVERY)
        assert list(cloud.disagreements()) == ["the record that node-0 has Pod a (a) is left over"]
        cloud.close()


def _admits_all(_gate: AccessControl, _node: str) -> Callable[[Any, Any], None]:
    return lambda _old, _new: None


def _no_authorizer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AccessControl, "authorize", lambda _gate, _asked: None)


def _no_restriction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AccessControl, "admission", _admits_all)


def _no_border(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(routing, "_is_allowed", lambda *_: True)
    patch.setattr("modules.cloud.cloudhub.module.on_node", lambda message, _node: message)


@pytest.mark.parametrize("hole", [_no_authorizer, _no_restriction, _no_border])
def test_a_hole_is_found(monkeypatch: pytest.MonkeyPatch, hole: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Within a few seeds, by one of the invariants of its own."""
    hole(monkeypatch)
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 300.0)
    settings = SeedSettings(nodes=1, seconds=90, pods=3, profile=FaultProfile.NONE, hostile=_EVERY)
    found = (run_seed(seed, settings).violation for seed in range(10))
    assert any(violation is not None for violation in found)
