"""How a start finds the namespaces of its node among processes that come and go."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from modules.runtimes.oci.rootless import entering


class Descriptor:
    """A descriptor that is closed at the end."""

    def __init__(self, number: int) -> None:
        self.number = number

    def close(self) -> None:
        """Close it."""
        os.close(self.number)


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    with subprocess.Popen(["sleep", "infinity"]) as made:
        try:
            yield made
        finally:
            made.kill()


def mounts() -> str:
    """The mount namespace of this process, and of those that it starts."""
    return str(Path("/proc/self/ns/mnt").readlink())


def opened(process: subprocess.Popen[bytes]) -> int:
    """A descriptor of the directory of a process."""
    return os.open(f"/proc/{process.pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def found(monkeypatch: pytest.MonkeyPatch, *candidates: tuple[int, str]) -> int | None:
    """What is chosen of processes that have the mark, with the namespace that it names."""
    monkeypatch.setattr(entering, "_with_mark", lambda _: iter(candidates))
    return entering._member("a1")


def test_a_process_that_ends_while_it_is_looked_at_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a crun of the edgecore that was killed: the start was refused."""
    with process() as ends, process() as lives:
        directory = opened(ends)
        ends.kill()
        ends.wait()
        member = found(monkeypatch, (directory, mounts()), (opened(lives), mounts()))
        assert member is not None
        with closing(Descriptor(member)):
            assert str(Path(f"/proc/self/fd/{member}").readlink()) == mounts()


def test_the_namespace_is_held_when_its_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with process() as ends:
        member = found(monkeypatch, (opened(ends), mounts()))
    assert member is not None
    with closing(Descriptor(member)):
        assert str(Path(f"/proc/self/fd/{member}").readlink()) == mounts()


def test_a_process_with_other_mounts_is_no_member_and_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a slirp4netns that alone is left."""
    with process() as stranger:
        assert found(monkeypatch, (opened(stranger), "mnt:[1]")) is None
        assert stranger.wait() == -signal.SIGKILL
