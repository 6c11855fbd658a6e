"""After a loss of power or with a failing disk, the runtime starts, keeps all that can be read, and lets nothing run on
unseen.
"""

import json
import shutil
from pathlib import Path

import pytest

from beehive.files.damaged import KEPT, all_set_aside
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process.node import LocalNode, alive, wait_for_death
from tests.support.spoiling import SPOILT, Spoil

_LOOP = "exec sleep 1000"


def _pods(node: LocalNode) -> set[str]:
    answer = node.cri.ListPodSandbox(cri.ListPodSandboxRequest())
    return {each.metadata.name for each in answer.items}


def _sandbox_of(node: LocalNode, name: str) -> Path:
    answer: cri.ListPodSandboxResponse = node.cri.ListPodSandbox(cri.ListPodSandboxRequest())
    return next(node.state / "sandboxes" / each.id for each in answer.items if each.metadata.name == name)


@pytest.mark.parametrize("file", ["request.pb", "record.json"])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_container_that_cannot_be_read_is_ended_and_the_others_stay(
    node: LocalNode, file: str, spoil: Spoil, caplog: pytest.LogCaptureFixture
) -> None:
    """Its processes do not go on unseen, nor do their descendants."""
    good, bad = node.shell(_LOOP), node.shell(f"setsid sleep 999 & {_LOOP}")
    good_pid, pid = node.pid(good), node.pid(bad)
    spoil(node.state / "containers" / bad / file)
    node.restart()
    assert node.states() == {good: cri.CONTAINER_RUNNING}
    assert alive(good_pid)
    wait_for_death(pid)
    assert not (node.state / "containers" / bad).exists()
    assert bad in caplog.text
    assert [path.name for path in all_set_aside(node.state)] == [f"{bad}.1"]


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_sandboxes_that_cannot_be_read_end_no_start(node: LocalNode, spoil: Spoil) -> None:
    """Two with an empty request had the same name, none, and that ended every start."""
    for name in ("a", "b", "c"):
        node.pod(name)
    inside = node.shell(_LOOP, pod=_sandbox_of(node, "b").name)
    pid = node.pid(inside)
    for name in ("a", "b"):
        spoil(_sandbox_of(node, name) / "request.pb")
    node.restart()
    assert _pods(node) == {"c"}
    assert node.states() == {}, "what ran in one of them is not left alone"
    wait_for_death(pid)
    node.restart()
    assert node.pod("a")


@pytest.mark.parametrize("file", ["run.json", "exit.json"])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_container_whose_end_cannot_be_read_has_ended_all_the_same(node: LocalNode, file: str, spoil: Spoil) -> None:
    container = node.shell("exit 3")
    node.ended(container)
    spoil(node.state / "containers" / container / file)
    node.restart()
    if file == "run.json":
        assert node.status(container).exit_code == 3
    else:
        assert node.ended(container).exit_code == 255


def test_of_two_with_one_name_the_newer_counts(node: LocalNode) -> None:
    """A person's copy, or the directories of two agents."""
    container = node.shell(_LOOP, pod=node.pod("a"))
    for kind in ("sandboxes", "containers"):
        original = next(path for path in (node.state / kind).iterdir())
        copy = original.with_name("0" * 64)
        shutil.copytree(original, copy, ignore=shutil.ignore_patterns("control"))
        record = copy / "record.json"
        record.write_bytes(record.read_bytes().replace(b'"created_at":1', b'"created_at":0'))
    node.restart()
    assert _pods(node) == {"a"}
    assert node.states() == {container: cri.CONTAINER_RUNNING}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_names_of_images_that_cannot_be_read_are_forgotten(node: LocalNode, spoil: Spoil) -> None:
    node.shell("true")
    spoil(node.state / "images.json")
    node.restart()
    images = node.state / "images.json"
    node.shell("true")
    assert json.loads(images.read_bytes()) == ["busybox:latest"]


@pytest.mark.parametrize("name", ["sandboxes", "containers", "probe"])
def test_strangers_in_the_directories_end_no_start(node: LocalNode, name: str) -> None:
    """Files, links and directories that no edgecore has made; and a file in a directory's place."""
    node.runtime.stop()
    directory = node.state / name
    for entry in ("file", "directory/inner", ".hidden/inner"):
        (directory / entry).parent.mkdir(exist_ok=True)
        (directory / entry).touch()
    precious = node.directory / "precious" / "work"
    precious.mkdir(parents=True)
    (directory / "link").symlink_to(precious.parent)
    node.restart()
    node.runtime.stop()
    shutil.rmtree(directory)
    directory.write_text("")
    node.restart()
    assert node.states() == {}
    node.shell("true")
    assert precious.is_dir(), "no link is followed"


def test_a_directory_in_the_locks_place_gives_way(node: LocalNode) -> None:
    node.runtime.stop()
    (node.state / "lock").unlink()
    (node.state / "lock").mkdir()
    node.restart()
    assert (node.state / "lock").is_file()


def test_the_number_of_damaged_entries_is_bounded(node: LocalNode) -> None:
    """The newest entries are kept, without files that containers have written."""
    for number in range(KEPT + 4):
        directory = node.state / "containers" / f"{number:064x}"
        (directory / "work").mkdir(parents=True)
        (directory / "work" / "much").touch()
        (directory / "request.pb").touch()
    node.restart()
    kept = all_set_aside(node.state)
    assert len(kept) == KEPT
    assert not any((path / "work").exists() for path in kept)
