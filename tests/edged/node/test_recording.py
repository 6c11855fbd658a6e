"""What a recording has of the machine and of Services, which a replay has not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from beehive.trace import Note
from beehive.trace.entries import EntrySink
from beehive.trace.redact import Redactor
from edged.cri.contract import ContainerRuntime
from edged.errors import ConfigError
from edged.eviction_api.usage import PodUsage
from edged.node.machine import FileSystem, MachineFacts, MachineInfo, MachineUsage
from edged.node.recording import MACHINE_NOTES, RecordingMachineInfo, recorded_ends, recorded_links
from edged.pods.model import PodUid
from modules.apimachinery.types import ObjectMeta, Pod, PodSpec
from modules.lab.doubles.container_runtime import FakeRuntime
from tests.edged.node.test_status import MACHINE

DISK = FileSystem(1, 2, 3, 4)
USAGE = MachineUsage(memory_available=1, memory=2, node_fs=DISK, image_fs=None, pids_free=3, pids=4)


class Source(MachineInfo):
    """Figures that the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.facts, self.used, self.of_pods = MACHINE, USAGE, (PodUsage("u", memory=7),)

    def machine(self, root: Path, node_ip: str = "") -> MachineFacts:
        return replace(self.facts, os_image=str(root), addresses=(node_ip,))

    def usage(self, root: Path, images: Path | None = None) -> MachineUsage:
        return self.used if images == root else USAGE

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:
        return self.of_pods if anew else ()


class Recording:
    """A sink whose entries are read as notes."""

    def __init__(self) -> None:
        self.simulation, self.redactor, self.entries = Simulation(1), Redactor(), list[Any]()
        self.sink = EntrySink(self.simulation.clock, self.redactor, lambda: 1, self.entries.append)

    def notes(self) -> list[tuple[float, str, Any]]:
        """Time, text and data of each note so far; they are dropped."""
        records = [entry.record(entry.time, self.redactor) for entry in self.entries]
        self.entries.clear()
        assert all(isinstance(record, Note) and record.kind == MACHINE_NOTES.kind for record in records)
        return [(record.time, record.text, record.data) for record in records]


def test_figures_are_passed_on_and_recorded_when_they_have_changed() -> None:
    recording, source, runtime = Recording(), Source(), FakeRuntime(Simulation(1))
    info, root = RecordingMachineInfo(source, recording.sink), Path("/r")
    for _ in range(2):
        assert info.machine(root, "192.0.2.9") == replace(MACHINE, os_image="/r", addresses=("192.0.2.9",))
        assert info.usage(root, root) == USAGE
        assert info.pods(runtime, anew=True) == source.of_pods
    began = recording.simulation.clock.monotonic()
    first = recording.notes()
    assert [(time, text) for time, text, _ in first] == [
        (began, MACHINE_NOTES.machine), (began, MACHINE_NOTES.usage), (began, MACHINE_NOTES.pods),
    ]  # fmt: skip
    assert (first[0][2]["boot_id"], first[1][2]["pids"], first[2][2][0]["memory"]) == ("b", 4, 7)
    recording.simulation.run_for(5.0)
    source.used = replace(USAGE, pids_free=2)
    assert info.usage(root, root).pids_free == 2
    info.machine(root, "192.0.2.9")
    [(time, text, data)] = recording.notes()
    assert (time - began, text, data["pids_free"]) == (5.0, MACHINE_NOTES.usage, 2)


@pytest.mark.parametrize(("enabled", "wanted"), [(None, True), (True, True), (False, False)])
def test_variables_of_services_are_recorded_with_the_time_that_they_took(*, enabled: bool | None, wanted: bool) -> None:
    """Values of secrets are not in them. A pod has variables unless it declines (`enableServiceLinks`)."""
    recording = Recording()
    recording.redactor.secret(b'{"kind":"Secret","stringData":{"host":"10.96.0.10"}}')

    def links(namespace: str, of_services: bool) -> Mapping[str, str]:
        recording.simulation.run_for(2.0)
        return {"WEB_SERVICE_HOST": "10.96.0.10", "ASKED": f"{namespace} {of_services}"}

    asked = Pod(metadata=ObjectMeta(name="a", namespace="shop", uid="u"), spec=PodSpec(enable_service_links=enabled))
    recording.simulation.run_for(1.0)
    began = recording.simulation.clock.monotonic()
    found = recorded_links(links, recording.sink)(asked)
    assert found == {"WEB_SERVICE_HOST": "10.96.0.10", "ASKED": f"shop {wanted}"}
    [(time, text, data)] = recording.notes()
    assert (time - began, text) == (2.0, MACHINE_NOTES.services)
    assert data == {
        "namespace": "shop", "enabled": wanted, "seconds": 2.0, "error": None, "uid": "u",
        "variables": {**found, "WEB_SERVICE_HOST": recording.redactor.mark(b"10.96.0.10")},
    }  # fmt: skip


def test_the_ends_of_pods_that_workers_notice_are_recorded() -> None:
    recording = Recording()
    noticed = recorded_ends(recording.sink)
    assert [noticed(PodUid(uid), is_ending) for uid, is_ending in (("a", False), ("b", True))] == [False, True]
    assert [(text, data) for _, text, data in recording.notes()] == [(MACHINE_NOTES.ends, "b")]


def test_an_error_about_the_variables_of_services_is_recorded_and_raised() -> None:
    recording = Recording()
    error = ConfigError("set the variables", "of Services", "they are not read yet", retryable=True)

    def links(_namespace: str, _enabled: bool) -> Mapping[str, str]:
        raise error

    with pytest.raises(ConfigError) as caught:
        recorded_links(links, recording.sink)(Pod(metadata=ObjectMeta(name="a", namespace="shop", uid="u")))
    assert caught.value is error
    [(_, text, data)] = recording.notes()
    assert (text, data["variables"]) == (MACHINE_NOTES.services, {})
    assert list(data["error"]) == ["set the variables", "of Services", "they are not read yet", True]
