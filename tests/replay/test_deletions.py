"""A recorded run in which pods come and go, each within a second: today's code does the same, and `--check` says so."""

import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from beehive.trace import Direction, LinkFrame, Record
from modules.edgecore.cli import main
from modules.edgecore.exit_codes import ExitCode
from modules.replay.compare import differences
from modules.replay.outputs import NODE, Output, View, message_of
from modules.replay.recorded import Recorded, load
from modules.replay.run import MODULES
from tests.end_to_end.pods import container, is_ready, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.replay.test_recorded_process import RecordedMachine

ROUNDS = 3


@pytest.fixture(scope="module")
def trace() -> Iterator[Path]:
    """Three pods at a time are applied, run and are deleted; one of them has to be killed."""
    machine = RecordedMachine(EmbeddedUnderTest())
    try:
        machine.cloud.start()
        machine.start_edge()
        for number in range(ROUNDS):
            _come_and_go(machine, number)
        wait_until(lambda: machine.edge.get("/healthz")[0] == 200, "the node answers after all of it")
        machine.edge.process.signal(signal.SIGTERM)
        assert machine.edge.process.wait() == 0
        yield machine.trace
    finally:
        machine.close()


def _come_and_go(machine: RecordedMachine, number: int) -> None:
    names = [f"p{number}-{letter}" for letter in "abc"]
    stubborn = container("trap '' TERM; while true; do sleep 1; done")
    machine.cloud.apply(pod(names[0]), pod(names[1]), pod(names[2], stubborn))
    for name in names:
        machine.cloud.pods.wait(name, is_ready)
    for name in names:
        machine.cloud.delete("pod", name, grace=1 if name == names[2] else None)
    for name in names:
        machine.cloud.pods.wait_gone(name)


@pytest.mark.parametrize("module", [NODE, *MODULES])
def test_pods_that_come_and_go_are_no_difference(trace: Path, module: str, capsys: pytest.CaptureFixture[str]) -> None:
    which = ["--module", "edgehub" if module == "websocket" else module] if module else []
    status = main(["replay", str(trace), "--check", *which])
    assert capsys.readouterr().out == ""
    assert status == ExitCode.OK


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


def test_an_acknowledgement_on_the_other_side_of_a_confirmation_is_none(trace: Path) -> None:
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
    return View(NODE, given).outputs(one for one in records if isinstance(one, LinkFrame))


def _resource(one: Record) -> str:
    message = message_of(one.frame) if isinstance(one, LinkFrame) else None
    return "" if message is None else message.resource


def _is_confirmation(one: Record) -> bool:
    if not isinstance(one, LinkFrame) or one.direction is Direction.IN:
        return False
    message = message_of(one.frame)
    return message is not None and message.operation == "delete" and "/pod/" in message.resource
