"""The state directory: whole or absent, one owner, unreadable only for others."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.runtimes.engine import state as state_module
from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.engine.journal import Journal
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import BootId, Exit, SandboxId, SandboxRecord
from modules.runtimes.engine.state import (
    StateDirectory,
    discard,
    entries,
    publish,
    read_container_request,
    read_record,
    without_secrets,
    write_container_request,
    write_record,
)
from modules.runtimes.engine.views import sandbox_matches
from modules.runtimes.process.images import image_id
from modules.runtimes.shim.procfs import parse_stat, read_stat
from protos.cri.v1 import api_pb2 as cri
from tests.beehive.files.trees import DEEP, make_deep, no_way_down

_RECORD = SandboxRecord(created_at=1, ip="127.0.0.1", boot_id=BootId("b"))


@given(st.builds(Exit, st.integers(0, 255), st.integers(0, 2**62), st.text(), st.text()))
def test_records_are_read_as_written(tmp_path_factory: pytest.TempPathFactory, record: Exit) -> None:
    """Any record comes back equal."""
    path = tmp_path_factory.getbasetemp() / "record.json"
    write_record(path, record)
    assert read_record(path, Exit) == record


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"exit_code": "x"}', b"\xff", b'{"reason": "\xff"}'])
def test_damaged_records_count_as_absent(tmp_path: Path, content: bytes) -> None:
    """A record damaged by a power failure counts as missing."""
    (tmp_path / "r").write_bytes(content)
    assert read_record(tmp_path / "r", Exit) is None


def test_published_and_discarded(tmp_path: Path) -> None:
    """A published directory is there with its files, for its owner's eyes only; a discarded one is gone."""
    state = StateDirectory(tmp_path)
    request = cri.RunPodSandboxRequest(config=cri.PodSandboxConfig(hostname="h"))
    publish(state.journal, state.sandboxes / "a", request, _RECORD)
    assert entries(state.sandboxes) == [state.sandboxes / "a"]
    assert (state.sandboxes / "a/request.pb").stat().st_mode & 0o077 == 0
    assert cri.RunPodSandboxRequest.FromString((state.sandboxes / "a/request.pb").read_bytes()) == request
    discard(state.journal, state.sandboxes / "a")
    discard(state.journal, state.sandboxes / "a")
    assert os.listdir(state.sandboxes) == []  # noqa: PTH208
    state.release()


def test_half_made_directories_are_cleaned(tmp_path: Path) -> None:
    """Directories that a crash left half made or half removed are neither listed nor kept."""
    StateDirectory(tmp_path).release()
    (tmp_path / "containers/.half").mkdir()
    (tmp_path / "containers/.half/request.pb").touch()
    state = StateDirectory(tmp_path)
    assert list(state.containers.iterdir()) == []
    state.release()


def test_deeply_nested_directories_of_a_container_do_not_fail_a_start(tmp_path: Path) -> None:
    """1,500 nested directories in a container's HOME failed its removal with RecursionError, and then every start of
    the agent.
    """
    state = StateDirectory(tmp_path)
    publish(state.journal, state.containers / "a", cri.CreateContainerRequest(), _RECORD, ("work",))
    make_deep(state.containers / "a/work/deep", DEEP)
    make_deep(state.containers / ".half/work/deep", DEEP)
    with no_way_down():
        discard(state.journal, state.containers / "a")
        state.release()
        assert [path.name for path in state.containers.iterdir()] == [".half"]
        StateDirectory(tmp_path).release()
    assert list(state.containers.iterdir()) == []


def test_the_lock_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if it could not be set aside: the runtime, root, would make its target."""
    monkeypatch.setattr(state_module, "set_aside_unless_file", lambda *_: None)
    (tmp_path / "state").mkdir()
    (tmp_path / "state/lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match="symbolic"):
        StateDirectory(tmp_path / "state")
    assert not (tmp_path / "made").exists()


def test_two_runtimes_cannot_use_one_state_directory(tmp_path: Path) -> None:
    """A second runtime on the same directory is refused with a remedy, until the first has stopped."""
    first = StateDirectory(tmp_path)
    with pytest.raises(StateDirectoryError, match=r"another edgecore.*configure another"):
        StateDirectory(tmp_path)
    first.release()
    StateDirectory(tmp_path).release()


@pytest.mark.parametrize(
    ("name", "same_as"),
    [
        ("busybox", "busybox:latest"),
        ("localhost:5000/busybox", "localhost:5000/busybox:latest"),
        (image_id("busybox"), "busybox"),
    ],
)
def test_names_of_one_image(name: str, same_as: str) -> None:
    """A name without a tag means the latest; an id means itself."""
    assert image_id(name) == image_id(same_as)


def test_different_images() -> None:
    """Different names are different images."""
    names = ["busybox", "busybox:1", "localhost:5000/busybox", "localhost/busybox"]
    assert len({image_id(name) for name in names}) == len(names)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=15))
def test_process_names_may_hold_anything(name: str) -> None:
    """Spaces and parentheses in a command's name do not shift the fields."""
    numbers = " ".join(str(number) for number in range(4, 53))
    stat = parse_stat(f"17 ({name}) S {numbers}\n")
    assert (stat.pid, stat.parent, stat.minor_faults, stat.own_ticks, stat.resident_pages) == (17, 4, 10, 14 + 15, 24)


def test_own_process() -> None:
    """This process is the child of its parent; a number that nobody has is nobody."""
    stat = read_stat(os.getpid())
    assert stat is not None
    assert stat.parent == os.getppid()
    assert read_stat(2**22 + 1) is None


def _request() -> cri.CreateContainerRequest:
    """What a pod with a secret in a variable becomes."""
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="c"),
        envs=[cri.KeyValue(key="PASSWORD", value=b"hunter2 hunter2")],
        command=["db", "--password=hunter2 hunter2"],
        args=["hunter2 hunter2"],
        labels={"a": "b"},
    )
    return cri.CreateContainerRequest(pod_sandbox_id="s", config=config)


def test_no_secret_of_a_container_is_on_the_disk(tmp_path: Path) -> None:
    """Its variables and command may contain some; also in the files of an earlier version, once they are read."""
    state = StateDirectory(tmp_path)
    directory = state.containers / "c"
    publish(state.journal, directory, _request(), _RECORD)
    file = directory / "request.pb"
    assert b"hunter2" in file.read_bytes()
    stored = read_container_request(directory)
    assert stored == without_secrets(_request())
    assert stored is not None
    assert (stored.config.labels["a"], stored.config.metadata.name) == ("b", "c")
    assert b"hunter2" not in file.read_bytes()
    write_container_request(state.journal, directory, _request())
    assert b"hunter2" not in file.read_bytes()
    assert read_container_request(directory) == stored
    assert file.stat().st_mode & 0o077 == 0
    state.release()


def test_sandboxes_are_filtered_by_their_state() -> None:
    sandbox = Sandbox(SandboxId("s"), Path("/nowhere"), cri.RunPodSandboxRequest(), _RECORD)
    states = cri.SANDBOX_READY, cri.SANDBOX_NOTREADY
    filters = [cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=state)) for state in states]
    assert [sandbox_matches(sandbox, each) for each in (*filters, cri.PodSandboxFilter())] == [True, False, True]


def test_remains_of_an_earlier_attempt_keep_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has the hidden name cannot always be emptied; the directory goes all the same, and its journal's frames."""
    (tmp_path / "a").mkdir()
    journal = Journal(tmp_path, "boot")
    journal.write(tmp_path / "a" / "record.json", b"")

    def refuses(*_: object) -> None:
        raise OSError("directory not empty")

    monkeypatch.setattr(Path, "rename", refuses)
    discard(journal, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert journal._live == {}
    journal.close()


def test_a_link_that_is_set_aside_loses_nothing_elsewhere(tmp_path: Path) -> None:
    """Only a directory of ours is emptied."""
    kept = tmp_path / "elsewhere" / "work" / "file"
    kept.parent.mkdir(parents=True)
    kept.touch()
    state = StateDirectory(tmp_path / "state", bulky=("work",))
    link = state.containers / "x"
    link.symlink_to(tmp_path / "elsewhere")
    state.set_aside(link, "no record")
    assert kept.exists() and not link.is_symlink()
    state.release()
