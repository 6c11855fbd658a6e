"""Who can write where logs are (a pod that mounts /var/log/pods) is shown nothing of the machine and stops nobody."""

import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edged.logs.files import LONGEST_LINE, open_log
from edged.logs.reader import _TURNS, LogReader
from edged.logs.rotation import pack
from modules.apimachinery.pods.log_options import LogOptions
from tests.edged.logs.test_reader import Follower, line, read
from tests.support.descriptors import open_descriptors
from tests.support.patience import PATIENCE

SECRET = b"root:$6$secret:19000:0:99999:7:::\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log where a kubelet has it, and a file of root's."""
    path = tmp_path / "pods" / "default_web_uid" / "main" / "0.log"
    path.parent.mkdir(parents=True)
    (tmp_path / "shadow").write_bytes(SECRET)
    return path


def secret_of(log: Path) -> Path:
    return log.parents[3] / "shadow"


def unfinished(text: bytes = b"x") -> bytes:
    """A line of a log that is longer than what is taken at a time, and does not end."""
    return line("").removesuffix(b"\n") + text * LONGEST_LINE


def test_a_line_whose_end_alone_is_too_much_at_a_time_ends(log: Path) -> None:
    log.write_bytes(unfinished()[:LONGEST_LINE] + b"\n")
    assert read(log).endswith("x\n")


def test_a_line_that_is_cut_by_a_rotation_does_not_go_on_in_another_file(log: Path) -> None:
    """The rest is a line of its own; what is no log line is not shown."""
    log.with_name("0.log.20261120-053000").write_bytes(unfinished())
    log.write_bytes(SECRET + line("own"))
    shown = read(log)
    assert "secret" not in shown
    assert shown.endswith("x\nown\n")


def test_nor_for_a_follower(log: Path) -> None:
    """Over a rotation while it reads, and in a file that was emptied."""
    log.write_bytes(unfinished())

    def rotate() -> None:
        log.rename(log.with_name("0.log.20261120-060000"))
        log.write_bytes(SECRET + line("own"))

    shown = "".join(Follower(log, rotate).pieces())
    assert "secret" not in shown
    assert shown.endswith("x\nown\n")

    def empty() -> None:
        os.truncate(log, 0)
        log.write_bytes(SECRET)

    log.write_bytes(unfinished(b"y"))
    assert "secret" not in "".join(Follower(log, empty).pieces())


def link_file(log: Path) -> None:
    log.symlink_to(secret_of(log))


def link_container(log: Path) -> None:
    elsewhere = log.parents[3] / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "0.log").write_bytes(line("foreign"))
    log.parent.rmdir()
    log.parent.symlink_to(elsewhere)


def link_pod(log: Path) -> None:
    elsewhere = log.parents[3] / "elsewhere"
    (elsewhere / "main").mkdir(parents=True)
    (elsewhere / "main" / "0.log").write_bytes(line("foreign"))
    log.parent.rmdir()
    log.parents[1].rmdir()
    log.parents[1].symlink_to(elsewhere)


def pipe(log: Path) -> None:
    os.mkfifo(log)


def directory(log: Path) -> None:
    log.mkdir()


@pytest.mark.parametrize("plant", [link_file, link_container, link_pod, pipe, directory])
def test_a_link_or_pipe_in_the_place_of_a_log_is_not_read(log: Path, plant: Callable[[Path], None]) -> None:
    """Neither a link to anywhere nor a pipe, which a thread would wait for."""
    plant(log)
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(3):
        with pytest.raises(OSError, match=r"(Too many levels|Not a directory|no regular file)"):
            LogReader(log, LogOptions(), lambda: True)
        assert not _TURNS._turns.locked()
    assert len([*Path("/proc/self/fd").iterdir()]) == before, "nor does it cost a descriptor"


@pytest.mark.parametrize("name", ["0.log.20261120-053000", "0.log.20261120-053000.gz"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_pipe_among_the_rotated_files_is_left_out(log: Path, name: str, kind: str) -> None:
    """The others are shown."""
    log.write_bytes(line("own"))
    packed = secret_of(log).with_name("shadow.gz")
    packed.write_bytes(gzip.compress(line("foreign")))
    other = log.with_name(name)
    if kind == "pipe":
        os.mkfifo(other)
    else:
        other.symlink_to(packed if name.endswith(".gz") else secret_of(log))
    assert read(log) == "own\n"


def test_a_follower_does_not_go_on_in_a_link(log: Path) -> None:
    """It waits until there is a log again, or the container has ended."""
    log.write_bytes(line("own"))

    def exchange() -> None:
        log.unlink()
        log.symlink_to(secret_of(log))

    assert "".join(Follower(log, exchange).pieces()) == "own\n"


def test_rotation_packs_no_foreign_file(log: Path) -> None:
    """Neither is one read through a link, nor is one written over."""
    old, unfinished_pack = log.with_name("0.log.20261120-053000"), log.with_name("0.log.20261120-053000.tmp")
    old.symlink_to(secret_of(log))
    with pytest.raises(OSError, match="Too many levels"):
        pack(old)
    old.unlink()
    old.write_bytes(line("own"))
    unfinished_pack.symlink_to(secret_of(log))
    with pytest.raises(FileExistsError):
        pack(old)
    assert secret_of(log).read_bytes() == SECRET


def test_a_packed_file_releases_its_input(log: Path) -> None:
    """Each look at a log would otherwise keep a descriptor."""
    log.write_bytes(line("own"))
    log.with_name("0.log.20261120-053000.gz").write_bytes(gzip.compress(line("old")))
    before = open_descriptors()
    for _ in range(5):
        assert read(log) == "old\nown\n"
    assert open_descriptors() <= before


def test_a_path_of_one_part_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime may have its logs anywhere."""
    (tmp_path / "x.log").write_bytes(b"1")
    monkeypatch.chdir(tmp_path)
    with open_log(Path("x.log")) as file:
        assert file.read() == b"1"


def test_nobody_waits_for_a_pipe(log: Path) -> None:
    """Even in its own thread the read ends immediately."""
    os.mkfifo(log)
    ended = threading.Event()

    def look() -> None:
        with pytest.raises(OSError, match="no regular file"):
            open_log(log)
        ended.set()

    threading.Thread(target=look, daemon=True).start()
    assert ended.wait(PATIENCE)
