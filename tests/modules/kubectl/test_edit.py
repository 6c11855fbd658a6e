"""`edit` against a real cloudcore, with editors that are scripts."""

from __future__ import annotations

import re
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from modules.apimachinery.merge_patch import merge_patch
from modules.cli.errors import UnreachableError
from modules.kubectl import edit
from modules.kubectl.edit import common_fields
from tests.modules.kubectl.cloud import Cloud, config_map

EDITOR = """\
import os, stat, sys
from pathlib import Path
file, log = Path(sys.argv[-1]), Path(sys.argv[1])
text = file.read_text()
with log.open("a") as stream:
    stream.write(f"{stat.S_IMODE(file.stat().st_mode):o}\\n{text}\\0")
for old, new in zip(sys.argv[2:-1:2], sys.argv[3:-1:2]):
    text = text.replace(old, new)
file.write_text(text)
"""


@pytest.fixture
def sessions(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """An editor, and a configmap to edit."""
    cloud.make(config_map(sky="blue", poem="one\ntwo\n"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return Editor(cloud, tmp_path, monkeypatch)


class Editor:
    """Sets EDITOR to a script, and tells what it was shown."""

    def __init__(self, cloud: Cloud, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self._cloud = cloud
        self._monkeypatch = monkeypatch
        (directory / "editor.py").write_text(EDITOR)

    def edit(self, *replaced: str, names: Sequence[str] = ("colours",)) -> Any:
        """Run `edit cm NAMES` with an editor that replaces texts."""
        command = [sys.executable, str(self.directory / "editor.py"), str(self.directory / "log"), *replaced]
        self._monkeypatch.setenv("EDITOR", shlex.join(command))
        self._monkeypatch.delenv("KUBE_EDITOR", raising=False)
        return self._cloud.run("edit", "cm", *names)

    @property
    def shown(self) -> list[str]:
        """Mode and text of each opening."""
        return (self.directory / "log").read_text().split("\0")[:-1]

    @property
    def left(self) -> list[Path]:
        """Files that an edit left behind."""
        return list(self.directory.glob("cloudcore-edit-*"))

    @property
    def data(self) -> dict[str, str]:
        """The data of the configmap."""
        found: dict[str, str] = self._cloud.run("get", "cm", "colours", "-o", "json").object["data"]
        return found


def test_edited_objects_are_written(sessions: Editor) -> None:
    done = sessions.edit("sky: blue", "sky: grey")
    assert (done.status, done.lines) == (0, ["configmap/colours edited"])
    assert sessions.data == {"sky": "grey", "poem": "one\ntwo\n"}
    assert sessions.shown[0].startswith("600\n# Please edit the object below.")
    assert "  poem: |\n    one\n    two\n" in sessions.shown[0]
    assert sessions.left == []


def test_a_member_is_removed(sessions: Editor) -> None:
    assert sessions.edit("  sky: blue\n", "").status == 0
    assert sessions.data == {"poem": "one\ntwo\n"}


def test_nothing_is_written_without_a_change(sessions: Editor) -> None:
    done = sessions.edit()
    assert (done.status, done.out, done.err) == (0, "", "Edit cancelled, no changes made.\n")
    assert sessions.left == []


def test_an_emptied_file_changes_nothing(cloud: Cloud, sessions: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_EDITOR", "truncate -s 0")
    done = cloud.run("edit", "cm", "colours")
    assert (done.status, done.out, done.err) == (0, "", "Edit cancelled, no changes made.\n")
    assert sessions.left == []


def test_a_refused_text_is_shown_again_with_the_reason_and_kept(sessions: Editor) -> None:
    done = sessions.edit("sky: blue", "sky: [blue")
    assert done.status == 1
    assert done.err.startswith("error: Edit cancelled, no valid changes were saved: error parsing the edited text:")
    assert len(sessions.shown) == 2
    assert "# error parsing the edited text:" in sessions.shown[1]
    kept = re.findall(r'stored to "(.*)"\)', done.err)
    assert stat.S_IMODE(Path(kept[0]).stat().st_mode) == 0o600
    assert "sky: [blue" in Path(kept[0]).read_text()
    assert sessions.data["sky"] == "blue"


def test_an_object_that_is_refused_keeps_none_from_being_edited(cloud: Cloud, sessions: Editor) -> None:
    cloud.make(config_map("shapes", form="round"))
    done = sessions.edit("sky: blue", "sky: [blue", "form: round", "form: square", names=("colours", "shapes"))
    assert (done.status, done.lines, len(sessions.left)) == (1, ["configmap/shapes edited"], 1)
    assert "Edit cancelled, no valid changes were saved" in done.err


@pytest.mark.parametrize(("old", "new"), [("name: colours", "name: other"), ("kind: ConfigMap", "kind: Secret")])
def test_an_object_keeps_its_type(sessions: Editor, old: str, new: str) -> None:
    done = sessions.edit(old, new)
    assert done.status == 1
    assert "apiVersion, kind, name and namespace cannot be changed" in done.err


def test_what_somebody_else_changes_meanwhile_is_not_overwritten(
    cloud: Cloud, sessions: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = sessions.directory / "meanwhile.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom modules.processes.cloudcore.cli import main\n"
        """change = '{"data": {"sky": "red"}}'\n"""
        f"main(['patch', 'cm', 'colours', '-p', change, '--socket', {str(cloud.socket)!r}])\n"
        "file = Path(sys.argv[-1])\nfile.write_text(file.read_text().replace('sky: blue', 'sky: grey'))\n"
    )
    monkeypatch.setenv("KUBE_EDITOR", shlex.join([sys.executable, str(script)]))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    done = cloud.run("edit", "cm", "colours")
    assert done.status == 1
    assert "somebody else has changed .data.sky meanwhile" in done.err
    assert sessions.data["sky"] == "red"


@pytest.mark.parametrize(("editor", "why"), [("/nope", "cannot run the editor"), ("false", "ended with status 1")])
def test_an_editor_that_fails_is_one_line(
    cloud: Cloud, sessions: Editor, monkeypatch: pytest.MonkeyPatch, editor: str, why: str
) -> None:
    monkeypatch.setenv("KUBE_EDITOR", editor)
    done = cloud.run("edit", "cm/colours")
    assert done.status == 1
    assert why in done.err
    assert len(done.err.splitlines()) == 1


def test_objects_to_edit_are_named(cloud: Cloud) -> None:
    assert "name the objects to edit" in cloud.run("edit", "cm").err
    assert cloud.run("edit", "cm", "nope").status == 1


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({}, {"a": {}}, {"a": {}}),
    ],
)
def test_a_merge_patch_has_only_what_changed(before: Any, after: Any, patch: Any) -> None:
    assert merge_patch(before, after) == patch


def test_fields_that_two_changes_have_in_common() -> None:
    assert common_fields({"a": {"b": 1, "c": 2}}, {"a": {"b": 2}, "d": 1}) == [".a.b"]
    assert common_fields({"a": 1}, {"a": 1}) == []


def test_a_server_that_is_gone_ends_an_edit_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The editor would come again and again with an error that nobody can mend in it."""
    edited = Mock(return_value="a: 2\n")
    monkeypatch.setattr(edit, "_edited", edited)
    monkeypatch.setattr(edit, "_object", lambda *_: {"a": 2})
    monkeypatch.setattr(edit, "_written", Mock(side_effect=UnreachableError("gone")))
    with pytest.raises(UnreachableError, match="gone"):
        edit._until_written(Mock(), Mock(), Mock(), {"a": 1}, tmp_path / "f")
    assert edited.call_count == 1
