"""A recorded run of short-lived pods: today's code does the same, and `--check` confirms it."""

from pathlib import Path

import msgspec
import pytest

from beehive.trace import Direction, LinkFrame, Record
from modules.lab.replay.compare import differences
from modules.lab.replay.outputs import NODE, Output, RunOutputs, message_of
from modules.lab.replay.recorded import Recorded, load
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from tests.replay.fixtures import DELETIONS, path_of
from tests.replay.live import ROUNDS, pods_come_and_go
from tests.replay.runs import WITHOUT_DEVICES


@pytest.fixture(scope="module", params=["stored", pytest.param("recorded", marks=pytest.mark.slow)])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of `pods_come_and_go`."""
    if request.param == "stored":
        return path_of(DELETIONS)
    path = tmp_path_factory.mktemp("recorded") / "run.trace"
    path.write_bytes(pods_come_and_go())
    return path


@pytest.mark.parametrize("module", [NODE, *WITHOUT_DEVICES])
def test_pods_that_come_and_go_are_no_difference(trace: Path, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails on purpose: `python -m tests.replay.fixtures` renews the stored ones."""
    which = ["--module", "edgehub" if module == "websocket" else module] if module else []
    assert (main(["replay", str(trace), "--check", *which]), capsys.readouterr().out) == (ExitCode.OK, "")


def test_a_deletion_that_is_not_confirmed_is_found(trace: Path) -> None:
    """Law of the comparison: an acknowledgement may come before or after, but must come, as must the confirmation."""
    recorded = load(trace)
    whole = _frames(recorded, recorded.records)
    confirmed = [one for one in recorded.frames() if _is_confirmation(one)]
    assert len({_resource(one) for one in confirmed}) == 3 * ROUNDS
    first = _resource(confirmed[0])
    without = _frames(
        recorded, [one for one in recorded.records if not _is_confirmation(one) or _resource(one) != first]
    )
    found = differences(whole, without, float("inf"))
    assert {one.recorded.title for one in found if one.recorded} == {f"frame delete {first} to the cloud"}


def test_an_acknowledgement_on_the_other_side_of_a_confirmation_does_not_count(trace: Path) -> None:
    """They are of two modules, and which comes first is a matter of milliseconds."""
    recorded = load(trace)
    first = next(one for one in recorded.frames() if _is_confirmation(one))
    later = msgspec.structs.replace(first, span=first.span + 1_000_000, time=first.time + 0.004)
    moved = [later if one is first else one for one in recorded.records]
    assert differences(_frames(recorded, recorded.records), _frames(recorded, moved), float("inf")) == []


def _frames(recorded: Recorded, records: "list[Record] | tuple[Record, ...]") -> list[Output]:
    given = frozenset(
        message.id
        for one in recorded.frames()
        if one.direction is Direction.IN and (message := message_of(one.frame)) is not None
    )
    return RunOutputs(NODE, given).outputs(one for one in records if isinstance(one, LinkFrame))


def _resource(one: Record) -> str:
    message = message_of(one.frame) if isinstance(one, LinkFrame) else None
    return "" if message is None else message.resource


def _is_confirmation(one: Record) -> bool:
    if not isinstance(one, LinkFrame) or one.direction is Direction.IN:
        return False
    message = message_of(one.frame)
    return message is not None and message.operation == "delete" and "/pod/" in message.resource
