"""What both programs say when they cannot start: one line with the reason, and the status of a failed start."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import Process, run_program, wait_until
from tests.support.own_node import write_node

PROGRAMS = {
    "edgecore": ("run", "--allow-unisolated-root", "--root"),
    "cloudcore": ("run", "--listen", "127.0.0.1:0", "--root"),
}


def start(program: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that will not start."""
    return run_program(program, *PROGRAMS[program], str(root))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a file system of 64 KiB."""
    mounted: list[Path] = []

    def mount(*options: str) -> Path:
        path = tmp_path / "small"
        path.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", ",".join(("size=64k", *options)), "tmpfs", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.splitlines()[0].rpartition(': ')[2]}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "--lazy", path], check=True)


def check(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that a start has failed, with these words in its last line."""
    assert done.returncode == ExitCode.START_FAILED, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert [word for word in words if word not in last] == [], last


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_read_only_file_system(program: str, small: Callable[..., Path]) -> None:
    """Root is not told to be root."""
    check(start(program, small("ro") / "n"), "the file system is read-only: mount it for writing", "--root")


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_space(program: str, small: Callable[..., Path]) -> None:
    """The path and the device are what to look at."""
    path = small()
    write_node(path / "n")
    with (path / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    done = start(program, path / "n")
    assert "full" in done.stderr or "no space is left" in done.stderr
    check(done)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_in_the_place_of_the_directory(program: str, tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "file").touch()
    check(start(program, tmp_path / "file"), str(tmp_path / "file"), "not a directory", "--root")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_second_one(program: str, tmp_path: Path) -> None:
    """The first one's process is named, and goes on."""
    root = tmp_path / "n"
    write_node(root)
    first = Process(f"modules.processes.{program}", [*PROGRAMS[program], str(root)], tmp_path / "log")
    try:
        ready = {"edgecore": "is running", "cloudcore": "listening on"}[program]
        wait_until(lambda: ready in first.text() or not first.runs, "the first one is ready")
        check(start(program, root), f"another {program}", f"process {first.pid}", "stop that one first")
        assert first.runs
    finally:
        first.kill()
