"""A kill, or a failure, at each step of what sets up a volume."""

import os
from pathlib import Path
from typing import Final

import pytest

from edged.volumes import Files, MemoryMounts, VolumePlan, set_up
from edged.volumes.payload import VolumeFile
from edged.volumes.plan import EmptyDirectory, MemoryDirectory
from modules.apimachinery.types import Nanoseconds
from tests.support.failing import Attempt, Failing, fail_at_each_call
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut

NOW: Final = Nanoseconds(1)
GROUP: Final = os.getgid()
PLANS: Final = ("directory", "memory", "files")


def plan_of(kind: str, root: Path) -> VolumePlan:
    """The plan of a volume."""
    path = root / "volumes" / kind
    match kind:
        case "directory":
            return EmptyDirectory(path)
        case "memory":
            return MemoryDirectory(path, 1024)
        case _:
            return Files(path, {"a": VolumeFile(b"1"), "b/c": VolumeFile(b"2", 0o600)})


def seen(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """What a pod sees of a volume: modes, groups and contents by path, without the names of versions."""
    found, shown = {}, [path for path in root.glob("*") if not path.name.startswith("..1")]
    for path in (root, *shown, *root.glob("..data/**/*")):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (status.st_mode, status.st_gid, content)
    return found


@pytest.mark.parametrize("group", [None, GROUP])
@pytest.mark.parametrize("kind", PLANS)
def test_a_volume_is_the_same_after_a_kill_at_any_step(tmp_path: Path, kind: str, group: int | None) -> None:
    """The next start of the agent sets it up again; a directory that has its name is taken as it is, for ever."""
    well, root = tmp_path / "well", tmp_path / "killed"
    set_up(plan_of(kind, well), NOW, group, MemoryMounts())
    wanted = seen(well / "volumes" / kind)
    root.mkdir()

    def check(_cut: Cut) -> None:
        plan = plan_of(kind, root)
        if plan.path.exists():
            status = plan.path.stat()
            assert (status.st_mode, status.st_gid) == wanted["."][:2]
        set_up(plan, NOW, group, MemoryMounts())
        assert seen(plan.path) == wanted

    def life(_promise: Promise) -> None:
        set_up(plan_of(kind, root), NOW, group, MemoryMounts())

    assert after_each_cut(root, life, check, losses=(Loss.NOTHING,)) >= 3


@pytest.mark.parametrize("kind", PLANS)
def test_a_failed_step_of_a_volume_leaves_no_descriptor_and_can_be_repeated(tmp_path: Path, kind: str) -> None:
    roots = iter(range(200))

    def attempt(failing: Failing) -> Attempt:
        plan, mounts = plan_of(kind, tmp_path / str(next(roots))), MemoryMounts()

        def operation() -> None:
            with failing.steps_of_files():
                set_up(plan, NOW, None, mounts)

        return Attempt(operation)

    assert fail_at_each_call(attempt) >= 3
