"""The pure parts of the driver, and programs that are started by it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.simulation import Simulation
from modules.runtimes.engine.errors import NoSuchObjectError
from modules.runtimes.oci.bundles import Bundles, Places
from modules.runtimes.oci.crun import conmon
from modules.runtimes.oci.crun.launching import Launcher, must_hide_unified
from modules.runtimes.oci.crun.runtime_command import CommandFailedError, RuntimeCommand, message_in
from modules.runtimes.oci.driver import OciDriver
from modules.runtimes.oci.images import ImageConfig, StoredImage
from modules.runtimes.oci.programs import ProgramMissingError, find_programs
from modules.runtimes.oci.stats import control_group
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import needs_root

REPOSITORY = Path(__file__).parents[5]


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (b"", ""),
        (b'{"msg":"no such thing","level":"error"}\n', "no such thing"),
        (b'first line\n{"level":"error","msg":"second"}\n', "second"),
        (b"plain text\n", "plain text"),
        (b'{"msg":', '{"msg":'),
        (b"[1, 2]\n", "[1, 2]"),
        (b"bell\x07 and \xff\n", "bell  and \ufffd"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"x" * 10_000, "x" * 2048),
    ],
)
def test_output_of_a_program(stderr: bytes, message: str) -> None:
    """The message of its last line, as text that can be printed, and of a bounded length."""
    assert message_in(stderr) == message


def test_a_container_whose_second_image_has_just_gone_keeps_none(tmp_path: Path) -> None:
    """The first one could not be removed any more."""
    held: dict[str, str] = {}

    def hold(holder: str, image_id: str) -> None:
        if image_id == "gone":
            raise NoSuchObjectError("find image gone", "it is not in the store")
        held[holder] = image_id

    images = SimpleNamespace(hold=hold, release=lambda holder: held.pop(holder, None))
    places = Places(cast("Any", None), cast("Any", None), cast("Any", None))
    bundles = Bundles(cast("Any", None), cast("Any", images), places, *[cast("Any", None)] * 3)
    first = StoredImage("first", (), (), ImageConfig(), (), {})
    made = SimpleNamespace(
        check=lambda _request: (first, (("app:1", "gone"),)),
        hold=bundles.hold,
        forget=bundles.forget,
        check_images=bundles.check_images,
    )
    driver = SimpleNamespace(
        _bundles=made,
        _clock=Simulation(1).clock,
        _new_id=lambda: "c" * 64,
        _state=SimpleNamespace(containers=tmp_path),
    )
    with pytest.raises(NoSuchObjectError):
        OciDriver.create(cast("Any", driver), cri.CreateContainerRequest(), cast("Any", None))
    assert held == {}


def test_hybrid_control_groups(tmp_path: Path) -> None:
    """Only controllers in version 2 beside version 1 disturb crun; systemd's own hybrid has no such ones."""
    assert not must_hide_unified(tmp_path)
    (tmp_path / "unified").mkdir()
    controllers = tmp_path / "unified" / "cgroup.controllers"
    controllers.write_text("\n")
    assert not must_hide_unified(tmp_path)
    controllers.write_text("hugetlb\n")
    assert must_hide_unified(tmp_path)


@needs_root
@pytest.mark.parametrize("propagation", ["private", "shared"])
def test_hybrid_control_groups_as_a_program_sees_them(tmp_path: Path, propagation: str) -> None:
    """All but version 2, and edgecore keeps that. Where mounts are passed on, both see each other's later ones."""
    command = [sys.executable, "-m", "tests.modules.runtimes.oci.crun.hybrid", propagation, str(tmp_path)]
    seen = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=REPOSITORY).stdout)
    groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"]
    own, edgecores = f"{tmp_path}/of-program", f"{tmp_path}/of-edgecore"
    is_shared = propagation == "shared"
    assert seen == {
        "program": groups + ([edgecores] if is_shared else []) + [own],
        "new in edgecore": [own] if is_shared else [],
        "lost in edgecore": [],
    }


def test_a_program_that_takes_too_long_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        Launcher(hides_unified=False).run(["sleep", "1000"], seconds=0.1)


def test_a_program_has_no_variables_of_edgecore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    ended = Launcher(hides_unified=False).run(["env"])
    assert [line.partition(b"=")[0] for line in ended.stdout.splitlines()] == [b"PATH"]


def test_a_runtime_that_is_not_there(tmp_path: Path) -> None:
    """It is an error of the driver's, with the path."""
    command = RuntimeCommand(Launcher(hides_unified=False), tmp_path / "crun", tmp_path)
    with pytest.raises(CommandFailedError, match="crun"):
        command.start("x")
    assert not command.is_created("x")
    (tmp_path / "x").mkdir()
    os.mkfifo(tmp_path / "x" / "exec.fifo")
    with pytest.raises(CommandFailedError, match="crun"):
        command.is_created("x")


@pytest.mark.parametrize("failures", [1, 2])
def test_a_deletion_is_repeated_once(tmp_path: Path, failures: int) -> None:
    """As crun 1.8 fails with "open pidfd" if a process ends meanwhile."""
    program = tmp_path / "crun"
    program.write_text(
        f"#!/bin/sh\ncd {tmp_path}\necho tried >>tries\n"
        f'[ "$(wc -l <tries)" -gt {failures} ] || {{ echo "open pidfd: No such file or directory" >&2; exit 1; }}\n'
    )
    program.chmod(0o755)
    command = RuntimeCommand(Launcher(hides_unified=False), program, tmp_path)
    if failures == 1:
        command.delete("x")
    else:
        with pytest.raises(CommandFailedError, match="open pidfd"):
            command.delete("x")
    assert (tmp_path / "tries").read_text().count("tried") == 2


def test_programs_are_found_in_fixed_directories(tmp_path: Path) -> None:
    """crun before runc; the error names what is missing and the command that installs it."""
    for name in ("runc", "conmon"):
        (tmp_path / name).touch(mode=0o755)
    found = find_programs(str(tmp_path))
    assert (found.runtime.name, found.is_crun) == ("runc", False)
    (tmp_path / "crun").touch(mode=0o755)
    assert find_programs(str(tmp_path)).is_crun
    assert find_programs(str(tmp_path)).conmon == tmp_path / "conmon"
    (tmp_path / "conmon").unlink()
    with pytest.raises(ProgramMissingError, match=r"conmon not found .*apt-get install crun conmon"):
        find_programs(str(tmp_path))
    (tmp_path / "conmon").touch(mode=0o755)
    for name in ("crun", "runc"):
        (tmp_path / name).unlink()
    with pytest.raises(ProgramMissingError, match=r"crun \(or runc\) not found .*apt-get install crun conmon"):
        find_programs(str(tmp_path))


@pytest.mark.parametrize(("written", "code"), [("3", 3), ("137\n", 137), ("", None), ("x", None)])
def test_the_record_of_an_end(tmp_path: Path, written: str, code: int | None) -> None:
    """An unreadable record does not count."""
    (tmp_path / conmon.PERSIST).mkdir()
    assert conmon.ended(tmp_path) is None
    (tmp_path / conmon.PERSIST / "exit").write_text(written)
    ended = conmon.ended(tmp_path)
    assert (None if ended is None else ended.code) == code


def test_the_conmon_of_another_container_is_not_taken(tmp_path: Path) -> None:
    """A process id in a file may belong to any process by now."""
    (tmp_path / conmon.BUNDLE).mkdir()
    assert conmon.find_conmon(tmp_path) is None
    (tmp_path / conmon.BUNDLE / "conmon.pid").write_text("1")
    assert conmon.find_conmon(tmp_path) is None


def test_the_control_group_of_an_ended_container() -> None:
    assert control_group(2**22 + 1, "x", []) == ""
