"""How a start finds the namespaces of its node among processes that come and go."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from modules.runtimes.oci.rootless import entering
from tests.support.failing import Failing, census


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


@pytest.mark.parametrize(
    ("mount", "is_lost"),
    [
        ("583 362 0:57 / / rw - overlay overlay rw,lowerdir=/x,upperdir={top}/oci/containers/a/upper", True),
        ("583 362 0:57 / / rw - tmpfs {top}/oci/namespaces/a/root rw", True),
        ("583 362 0:57 / /run/lock rw shared:3 - tmpfs {top}/oci-namespaces rw", True),
        ("583 362 0:57 / {top}/oci/containers/a/root rw - overlay overlay rw,upperdir={top}/oci/a/upper", False),
        ("583 362 0:57 / /run/lock rw - tmpfs tmpfs rw", False),
        ("583 362 0:57 / / rw - overlay overlay rw,upperdir={top}-2/oci/containers/a/upper", False),
        ("nonsense", False),
    ],
)
def test_lost_processes_are_those_whose_root_or_tmpfs_is_of_the_node(
    mount: str, is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root sees the mounts of its containers in those of every process of the machine."""
    top, processes = tmp_path / "a node", tmp_path / "proc"
    top.mkdir()
    with process() as one:
        (processes / str(one.pid)).mkdir(parents=True)
        text = mount.format(top=str(top).replace(" ", "\\040"))
        (processes / str(one.pid) / "mountinfo").write_text(f"1 2 0:1 / /proc rw - proc proc rw\n{text}\n")
        monkeypatch.setattr(entering, "_PROC", processes)
        assert entering.signal_lost(top) == is_lost
        assert entering.signal_lost(top, signal.SIGKILL) == is_lost
        if is_lost:
            assert one.wait() == -signal.SIGKILL
        assert one.poll() == (-signal.SIGKILL if is_lost else None)


def test_the_mounts_of_a_process_that_may_not_be_ended_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be many."""
    (tmp_path / str(os.getpid())).mkdir()  # without a file
    monkeypatch.setattr(entering, "_PROC", tmp_path)
    monkeypatch.setattr(signal, "pidfd_send_signal", Failing(0).call(print))
    before = census()
    assert entering.signal_lost(tmp_path) == 0
    assert not census().more_than(before)
