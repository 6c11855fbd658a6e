"""A real `edgecore run --record`, on threads, with a real cloud and the process runtime: what it did happens again.

`make test` replays recordings that are stored; `make slow` records anew. In a recording of a machine that is very busy
two threads may once come in another order than in its replay, as docs/tracing.md says.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.trace import StoreCommit
from modules.lab.replay.fixture import reduced, rerecorded
from modules.lab.replay.outputs import NODE
from modules.lab.replay.recorded import Recorded, load
from modules.lab.replay.run import replay
from tests.replay.fixtures import PROCESS, path_of
from tests.replay.live import A_SECOND, MILLISECONDS, pods_of_each_kind
from tests.replay.runs import WITHOUT_DEVICES


@pytest.fixture(
    scope="module",
    params=["", pytest.param(A_SECOND, marks=pytest.mark.slow), pytest.param(MILLISECONDS, marks=pytest.mark.slow)],
    ids=["stored", "a-second", "milliseconds"],
)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """A pod runs, one crashes and comes again, one has files that change; all are deleted."""
    path = path_of(PROCESS)
    if request.param:
        path = tmp_path_factory.mktemp("recorded") / "run.trace"
        path.write_bytes(pods_of_each_kind(request.param))
    yield load(path)


@pytest.mark.parametrize("module", [NODE, *WITHOUT_DEVICES])
def test_the_recorded_acts_of_a_process_happen_again(recorded: Recorded, module: str, tmp_path: Path) -> None:
    """If this fails on purpose: `python -m tests.replay.fixtures` renews the stored ones."""
    result = replay(recorded, tmp_path, module)
    assert [one.render() for one in result.differences] == []
    assert len(result.recorded) > 20


def test_one_pod_of_it_becomes_a_fixture(recorded: Recorded, tmp_path: Path) -> None:
    """And that is reproduced too. Of the other pods nothing is left, nor of their events."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    smaller = reduced(recorded, "default", "crashes")
    assert {name for name in ("runs", "files", "crashes") if _has_events(recorded, name)} >= {"runs", "crashes"}
    assert [name for name in ("runs", "files", "crashes") if _has_events(smaller, name)] == ["crashes"]
    made, result = rerecorded(smaller, tmp_path / "first")
    assert [one.render() for one in result.differences] == []
    assert replay(made, tmp_path / "second").differences == []
    assert not any("/runs" in one.message.resource for one in made.delivered())


def _has_events(recorded: Recorded, pod_name: str) -> bool:
    keys = (change.key for one in recorded.records if isinstance(one, StoreCommit) for change in one.changes)
    return any(key.startswith(f"default/event/{pod_name}.") for key in keys)
