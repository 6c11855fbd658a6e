"""Rotation of logs, on real files and a runtime in memory that opens new ones."""

import errno
import gzip
import os
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import grpc
import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from edged.cri.contract import ContainerId
from edged.cri.errors import DeadlineExceededError, UnavailableError
from edged.logs import files
from edged.logs.files import remove_log, rotated
from edged.logs.reader import LogReader
from edged.logs.rotation import LogRotation, free_name, pack, running_logs
from edged.pods.paths import PodPaths
from edged.settings.gc import LogPolicy
from modules.apimachinery.pods.log_options import LogOptions
from modules.apimachinery.types import ContainerState, ContainerStateRunning, ContainerStatus, PodStatus
from modules.lab.doubles.container_runtime import FakeRuntime
from tests.edged.pods.builders import REF, a_pod
from tests.support.power_cuts import Cut, Promise, after_each_cut

LINE = b"2026-11-20T05:42:16.000000001Z stdout F line %d\n"


def a_status(*, runs: bool = True, attempt: int = 0) -> PodStatus:
    state = ContainerState(running=ContainerStateRunning(started_at=None)) if runs else ContainerState()
    each = ContainerStatus(name="bb", container_id="fake://c1", state=state, restart_count=attempt)
    return PodStatus(phase="Running", container_statuses=(each,))


class Opening(FakeRuntime):
    """Makes a file when it is asked to, as a runtime does."""

    def __init__(self, simulation: Simulation, log: Path) -> None:
        super().__init__(simulation)
        self._log = log

    def reopen_container_log(self, container_id: ContainerId) -> None:
        """It is always the same container's."""
        assert container_id == "c1"
        error = self._begin("reopen_container_log")
        self._log.touch()
        self._finish(error)


class Rotated:
    """A pod with one container, whose log may have 100 bytes."""

    def __init__(self, root: Path, **policy: int) -> None:
        self.simulation = Simulation(1)
        paths = PodPaths(root / "edged", root / "logs")
        self.file = paths.pod_logs(REF) / "bb" / "0.log"
        self.file.parent.mkdir(parents=True)
        self.runtime = Opening(self.simulation, self.file)
        self.status = a_status()
        made = LogPolicy(**{"size": 100, **policy})
        self.rotation = LogRotation(
            self.runtime, made, self.simulation.clock, paths, lambda: (a_pod(status=self.status),)
        )
        self._written = 0

    def write(self, lines: int = 10) -> None:
        with self.file.open("ab") as log:
            for number in range(self._written, self._written + lines):
                log.write(LINE % number)
        self._written += lines

    def look(self) -> list[str]:
        """The files that there are after a look."""
        self.rotation.rotate_logs()
        self.simulation.run_for(10)
        return sorted(each.name for each in self.file.parent.iterdir())


def shown(log: Path) -> list[str]:
    """What a reader gets of it, who does not follow."""
    reader = LogReader(log, LogOptions(), lambda: True)
    text = b"".join(reader.pieces(lambda _: False)).decode()
    reader.close()
    return text.splitlines()


def test_a_log_that_is_small_costs_the_runtime_nothing(tmp_path: Path) -> None:
    rotated = Rotated(tmp_path)
    rotated.write(1)
    assert rotated.look() == ["0.log"]
    assert not rotated.runtime.calls


def test_rotated_files_but_the_newest_are_packed_and_the_oldest_is_removed(tmp_path: Path) -> None:
    rotated = Rotated(tmp_path, files=4)
    seen = []
    for _ in range(5):
        rotated.write()
        seen.append(rotated.look())
    assert [len(names) for names in seen] == [2, 3, 4, 4, 4]
    assert [name.endswith(".gz") for name in seen[-1]] == [False, True, True, False]
    assert rotated.file.stat().st_size == 0


def test_a_reader_sees_all_remaining_lines(tmp_path: Path) -> None:
    rotation = Rotated(tmp_path)
    for _ in range(3):
        rotation.write()
        rotation.look()
    assert shown(rotation.file) == [f"line {n}" for n in range(30)]


@pytest.mark.parametrize("moment", [1, 2, 3])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_reader_that_opens_in_the_middle_of_a_rotation_sees_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int, before: bool
) -> None:
    """The log is renamed and an older one packed before, after or between any two looks at the directory."""
    rotation = Rotated(tmp_path)
    for _ in range(3):
        rotation.write()
        rotation.look()
    rotation.write()
    looks = 0

    def look(path: Path) -> list[Path]:
        nonlocal looks
        looks += 1
        if looks == moment and before:
            rotation.look()
        found = rotated(path)
        if looks == moment and not before:
            rotation.look()
        return found

    monkeypatch.setattr(files, "rotated", look)
    assert shown(rotation.file) == [f"line {n}" for n in range(40)]


def test_a_file_that_exists_plain_and_packed_is_read_once(tmp_path: Path) -> None:
    rotation = Rotated(tmp_path)
    rotation.write()
    rotation.look()
    (old,) = rotated(rotation.file)
    with gzip.open(f"{old}.gz", "wb") as packed:
        packed.write(old.read_bytes())
    assert shown(rotation.file) == [f"line {n}" for n in range(10)]


def test_a_log_whose_disk_cannot_rename_it_keeps_no_other_from_being_rotated(tmp_path: Path) -> None:
    rotation = Rotated(tmp_path)
    rotation.write()
    sick = ContainerStatus(name="aa", container_id="fake://c0", state=rotation.status.container_statuses[0].state)
    rotation.status = replace(rotation.status, container_statuses=(sick, *rotation.status.container_statuses))
    other = rotation.file.parents[1] / "aa" / "0.log"
    other.parent.mkdir()
    other.write_bytes(LINE * 10)
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path == other:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return rename(path, target)

    with patch.object(Path, "rename", fail):
        assert len(rotation.look()) == 2


def test_the_log_of_a_container_whose_id_is_not_known_is_left_alone(tmp_path: Path) -> None:
    """The runtime could not be asked for another file."""
    rotation = Rotated(tmp_path)
    rotation.write()
    [status] = rotation.status.container_statuses
    rotation.status = replace(rotation.status, container_statuses=(replace(status, container_id=""),))
    assert rotation.look() == ["0.log"]
    assert not rotation.runtime.calls


def test_rotated_files_are_shown_before_the_runtime_has_opened_another(tmp_path: Path) -> None:
    """As after an agent that was killed in between."""
    rotation = Rotated(tmp_path)
    rotation.write()
    rotation.file.rename(rotation.file.with_name("0.log.20261120-054216"))
    assert shown(rotation.file) == [f"line {n}" for n in range(10)]


@pytest.mark.parametrize("status", [a_status(runs=False), a_status(attempt=7)])
def test_only_logs_of_containers_that_run_are_rotated(tmp_path: Path, status: PodStatus) -> None:
    rotated = Rotated(tmp_path)
    rotated.status = status
    rotated.write()
    assert rotated.look() == ["0.log"]


def test_a_runtime_that_does_not_open_another_goes_on_in_the_one_it_has(tmp_path: Path) -> None:
    rotated = Rotated(tmp_path)
    rotated.write()
    rotated.runtime.fail("reopen_container_log", UnavailableError("Reopen", "c1", grpc.StatusCode.UNAVAILABLE, "gone"))
    assert rotated.look() == ["0.log"]
    assert rotated.file.stat().st_size > 100
    assert len(rotated.look()) == 2, "and is asked again"


def test_a_new_file_that_is_there_in_spite_of_an_error_is_not_replaced(tmp_path: Path) -> None:
    """The answer comes too late: the container writes to the new file already."""
    rotated = Rotated(tmp_path)
    rotated.write()

    def late(_: ContainerId) -> None:
        rotated.file.write_bytes(b"new")
        raise DeadlineExceededError("Reopen", "c1", grpc.StatusCode.DEADLINE_EXCEEDED, "")

    with patch.object(rotated.runtime, "reopen_container_log", late):
        assert len(rotated.look()) == 2
    assert rotated.file.read_bytes() == b"new"


def test_a_log_of_just_the_size_is_rotated(tmp_path: Path) -> None:
    rotated = Rotated(tmp_path)
    rotated.file.write_bytes(b"x" * 99)
    assert rotated.look() == ["0.log"]
    rotated.file.write_bytes(b"x" * 100)
    assert len(rotated.look()) == 2


def test_a_file_is_removed_only_when_its_packed_form_is_there(tmp_path: Path) -> None:
    file = tmp_path / "0.log.20261120-054216"
    file.write_bytes(b"whole")
    with (
        patch("edged.logs.rotation.put_in_place", side_effect=OSError("worn out")),
        pytest.raises(OSError, match="worn out"),
    ):
        pack(file)
    assert file.read_bytes() == b"whole"


def test_after_an_agent_that_was_killed_in_between_the_runtime_is_asked_to_open_the_log(tmp_path: Path) -> None:
    rotated = Rotated(tmp_path)
    rotated.write()
    rotated.file.rename(rotated.file.with_name("0.log.20261120-054216"))
    assert rotated.look() == ["0.log", "0.log.20261120-054216"]
    assert rotated.runtime.calls == {"reopen_container_log": 1}


def test_an_interrupted_packing_is_restarted(tmp_path: Path) -> None:
    rotated = Rotated(tmp_path)
    rotated.write()
    (rotated.file.parent / "0.log.20201120-054216").write_bytes(b"whole")
    (rotated.file.parent / "0.log.20201120-054216.tmp").write_bytes(b"ha")
    left = rotated.look()
    assert "0.log.20201120-054216.gz" in left
    assert not [name for name in left if ".tmp" in name]
    with gzip.open(rotated.file.parent / "0.log.20201120-054216.gz") as packed:
        assert packed.read() == b"whole"


def test_a_rotated_file_that_cannot_be_packed_or_removed_keeps_no_log_from_being_rotated(tmp_path: Path) -> None:
    """A worn disk, or a container that has got hold of its logs: the log would grow until the disk is full."""
    rotated = Rotated(tmp_path, files=3)
    for name in ("0.log.20200101-000000", "0.log.20200102-000000", "0.log.20200103-000000"):
        (rotated.file.parent / name).mkdir()
    (rotated.file.parent / "0.log.20200103-000000.tmp").mkdir()
    rotated.write()
    assert "0.log" in rotated.look()
    assert rotated.file.stat().st_size == 0


def test_a_directory_without_the_runtimes_own_is_not_its_log(tmp_path: Path) -> None:
    rotated = Rotated(tmp_path)
    rotated.file.parent.rmdir()
    rotated.rotation.rotate_logs()
    assert not rotated.runtime.calls


def test_a_name_that_is_taken_is_not_taken_twice(tmp_path: Path) -> None:
    now = datetime(2026, 11, 20, 5, 42, 16, tzinfo=UTC)
    log = tmp_path / "0.log"
    (tmp_path / "0.log.20261120-054216").touch()
    (tmp_path / "0.log.20261120-054217.gz").touch()
    assert free_name(log, now).name == "0.log.20261120-054218"


def test_the_order_of_names_is_the_order_of_contents_after_the_clock_was_set_back(tmp_path: Path) -> None:
    rotation = Rotated(tmp_path, files=3)
    for back in (0.0, 86_400.0, 3_600.0, 0.0):
        rotation.simulation.clock.jump_wall(-back)
        rotation.write()
        rotation.look()
    assert shown(rotation.file) == [f"line {n}" for n in range(20, 40)], "the newest logs are kept, in their order"


@pytest.mark.parametrize("stamp", ["20269940-996199", "99991231-235959"])
def test_a_name_that_is_no_time_is_not_followed(tmp_path: Path, stamp: str) -> None:
    now = datetime(2026, 11, 20, 5, 42, 16, tzinfo=UTC)
    (tmp_path / f"0.log.{stamp}").touch()
    assert free_name(tmp_path / "0.log", now).name == "0.log.20261120-054216"


def test_packing_keeps_the_mode_and_leaves_one_file(tmp_path: Path) -> None:
    file = tmp_path / "0.log.20261120-054216"
    file.write_bytes(b"x" * 1_000_000)
    file.chmod(0o640)
    pack(file)
    (packed,) = tmp_path.iterdir()
    assert (packed.name, packed.stat().st_mode & 0o777) == ("0.log.20261120-054216.gz", 0o640)
    assert gzip.decompress(packed.read_bytes()) == b"x" * 1_000_000


def test_a_packed_log_is_whole_after_a_power_cut(tmp_path: Path) -> None:
    file = tmp_path / "0.log.20261120-054216"
    file.write_bytes(LINE % 1)

    def life(promise: Promise) -> None:
        pack(file)
        promise("packed")

    def check(cut: Cut) -> None:
        packed = file.with_name(f"{file.name}.gz")
        there = [file.read_bytes()] if file.exists() else []
        assert LINE % 1 in (there or [gzip.decompress(packed.read_bytes())]), cut

    assert after_each_cut(tmp_path, life, check) > 3


def test_a_log_is_removed_with_its_rotated_files_and_no_other(tmp_path: Path) -> None:
    for name in ("0.log", "0.log.20261120-054216", "0.log.20261120-054226.gz", "10.log", "0.log.mine"):
        (tmp_path / name).touch()
    remove_log(tmp_path / "0.log")
    remove_log(tmp_path / "none.log")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0.log.mine", "10.log"]


def test_logs_are_found_without_a_look_at_the_disk(tmp_path: Path) -> None:
    (log,) = running_logs((a_pod(status=a_status(attempt=3)),), PodPaths(tmp_path, tmp_path))
    assert log.file == tmp_path / f"default_bb1_{REF.uid}" / "bb" / "3.log"
    assert list(running_logs((a_pod(),), PodPaths(tmp_path, tmp_path))) == []
    (one,) = a_status().container_statuses
    for status in (PodStatus(init_container_statuses=(one,)), PodStatus(ephemeral_container_statuses=(one,))):
        assert len(list(running_logs((a_pod(status=status),), PodPaths(tmp_path, tmp_path)))) == 1
