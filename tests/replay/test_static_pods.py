"""Replays see the static pods that were seen when the run was recorded, and none of the machine that replays."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from beehive import Hive, Module, ModuleName, Operation
from beehive.names import SHUTDOWN_RESOURCE
from beehive.simulation import Simulation
from beehive.trace import Delivered, Record, RecordedMessage
from edged.static_pods.directory import StaticPodChanges
from modules.lab.replay.outputs import RunOutputs
from modules.lab.replay.static_pods import DirectoryState, directory_states, replay_directory

EDGED = str(ModuleName.EDGED)


def told(time: float, name: str, operation: str = Operation.INSERT, *, sender: str = EDGED) -> Delivered:
    """edged has heard of a pod, a quarter of a second after it was sent."""
    content = msgspec.json.encode({"metadata": {"name": name}, "spec": {"log": "/recorded/logs"}})
    source = "file" if sender == EDGED else "edgecontroller"
    message = RecordedMessage("", "", 0, "", False, "", source, "", "", operation, f"default/pod/{name}", content)  # noqa: FBT003
    return Delivered(time + 0.25, 1, 0, 1, sender, EDGED, "send", "handled", "", 0, 0.0, 0.25, message)


def change(gone: list[str], come: list[str]) -> StaticPodChanges:
    """What is different, as the replay has it."""
    made = {name: {"metadata": {"name": name}, "spec": {"log": "/ours/logs"}} for name in gone + come}
    return StaticPodChanges([made[name] for name in gone], [made[name] for name in come])


def test_events_of_one_moment_were_one_look() -> None:
    recorded = [
        told(1.0, "a"),
        told(1.001, "b"),
        told(1.5, "of-the-cloud", sender="metamanager"),
        told(2.0, "a", Operation.DELETE),
        told(2.001, "c"),
    ]
    found = directory_states(recorded, lambda text: text.replace(b"/recorded", b"/ours"))
    assert found == [(1.0, change([], ["a", "b"])), (2.0, change(["a"], ["c"]))]


class Owner(Module):
    """Has a directory, in the place of edged."""

    name = ModuleName.EDGED

    def __init__(self, recorded: list[DirectoryState], directory: Path) -> None:
        super().__init__()
        self._recorded = recorded
        self._directory = directory
        self.seen: list[tuple[float, StaticPodChanges]] = []

    def on_start(self) -> None:
        """Look."""
        self.start_actor(replay_directory(self._recorded), self._directory, "node", self)

    def post(self, changes: StaticPodChanges) -> None:
        self.seen.append((round(self.clock.monotonic(), 3), changes))


@pytest.mark.parametrize(
    ("recorded", "seen"),
    [
        pytest.param([], [(0.0, change([], []))], id="nothing, not even what lies in the directory"),
        pytest.param([(0.3, change([], ["a"]))], [(0.3, change([], ["a"]))], id="at the first look"),
        pytest.param(
            [(5.0, change([], ["a"])), (9.0, change(["a"], []))],
            [(0.0, change([], [])), (5.0, change([], ["a"])), (9.0, change(["a"], []))],
            id="later",
        ),
    ],
)
def test_the_directory_is_seen_as_it_was(
    recorded: list[DirectoryState], seen: list[DirectoryState], tmp_path: Path
) -> None:
    (tmp_path / "other.yaml").write_text("kind: Pod\nmetadata: {name: other}\nspec: {containers: [{name: a}]}\n")
    simulation = Simulation(1)
    hive = Hive(simulation)
    owners: list[Owner] = []

    class Kept(Owner):
        """As it is, and known to the test."""

        def __init__(self) -> None:
            super().__init__(recorded, tmp_path)
            owners.append(self)

    hive.add(Kept)
    hive.start()
    simulation.run_for(20.0)
    assert owners[0].seen == seen


def test_that_the_machine_shuts_down_is_nothing_that_edged_does() -> None:
    def outputs() -> Iterator[Record]:
        shutdown = told(1.0, "any", Operation.UPDATE, sender="edged/ShutdownWatch")
        yield msgspec.structs.replace(
            shutdown, message=msgspec.structs.replace(shutdown.message, resource=SHUTDOWN_RESOURCE)
        )
        yield told(2.0, "a")

    found = RunOutputs(EDGED, frozenset()).outputs(outputs())
    assert [one.title for one in found] == ["send insert default/pod/a to edged"]
