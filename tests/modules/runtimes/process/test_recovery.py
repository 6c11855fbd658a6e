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
from tests.support.spoiling import SPOILT

_LOOP = "exec sleep 1000"


def _pods(node: LocalNode) -> set[str]:
    answer = node.cri.ListPodSandbox(cri.ListPodSandboxRequest())
    return {each.metadata.name for each in answer.items}


def _sandbox_of(node: LocalNode, name: str) -> Path:
    answer: cri.ListPodSandboxResponse = node.cri.ListPodSandbox(cri.ListPodSandboxRequest())
    return next(node.state / "sandboxes" / each.id for each in answer.items if each.metadata.name == name)


@pytest.mark.parametrize("file", ["request.pb", "record.json"])
def test_a_container_that_cannot_be_read_is_ended_and_the_others_stay(
    node: LocalNode, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However it is damaged, its processes do not go on unseen, nor do their descendants."""
    good, bad = node.shell(_LOOP), {kind: node.shell(f"setsid sleep 999 & {_LOOP}") for kind in SPOILT}
    good_pid, pids = node.pid(good), [node.pid(each) for each in bad.values()]
    for kind, spoil in SPOILT.items():
        spoil(node.state / "containers" / bad[kind] / file)
    node.restart()
    assert node.states() == {good: cri.CONTAINER_RUNNING}
    assert alive(good_pid)
    for pid in pids:
        wait_for_death(pid)
    assert {kind for kind, each in bad.items() if (node.state / "containers" / each).exists()} == set()
    assert {kind for kind, each in bad.items() if each not in caplog.text} == set()
    assert {path.stem for path in all_set_aside(node.state)} == set(bad.values())


def test_sandboxes_that_cannot_be_read_end_no_start(node: LocalNode) -> None:
    """Two with an empty request had the same name, none, and that ended every start."""
    node.pod("good")
    pids = []
    for kind, spoil in SPOILT.items():
        pods = [node.pod(f"{number} {kind}") for number in range(2)]
        pids.append(node.pid(node.shell(_LOOP, pod=pods[0])))
        for number in range(2):
            spoil(_sandbox_of(node, f"{number} {kind}") / "request.pb")
    node.restart()
    assert _pods(node) == {"good"}
    assert node.states() == {}, "what ran in one of them is not left alone"
    for pid in pids:
        wait_for_death(pid)
    node.restart()
    assert [kind for kind in SPOILT if not node.pod(f"0 {kind}")] == []


def test_a_container_whose_end_cannot_be_read_has_ended_all_the_same(node: LocalNode) -> None:
    """The exit code is then 255; it stays what it was if only the record of the start is damaged."""
    expected = {"run.json": 3, "exit.json": 255}
    spoilt = {(kind, file): node.shell("exit 3") for kind in SPOILT for file in expected}
    for (kind, file), container in spoilt.items():
        node.ended(container)
        SPOILT[kind](node.state / "containers" / container / file)
    node.restart()
    found = {case: node.ended(container).exit_code for case, container in spoilt.items()}
    assert found == {(kind, file): expected[file] for kind, file in spoilt}


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


def test_names_of_images_that_cannot_be_read_are_forgotten(node: LocalNode) -> None:
    node.shell("true")
    images = node.state / "images.json"
    for kind, spoil in SPOILT.items():
        images.write_text('["of before"]')
        spoil(images)
        node.restart()
        node.shell("true")
        assert json.loads(images.read_bytes()) == ["busybox:latest"], kind


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
