"""Whether a process is in the namespaces of an ordinary user's node."""

import os
from pathlib import Path

import pytest

from beehive.node_namespaces import give_to_pods, is_machine_root, namespaces_id, pod_id, write_namespaces_id

_MACHINE = "         0          0 4294967295\n"
_NODE = "         0       1001          1\n         1     100000      65536\n"


def test_the_file_counts_in_a_user_namespace_alone(tmp_path: Path) -> None:
    """On the machine anybody may have made it."""
    users = tmp_path / "uid_map"
    write_namespaces_id("abc123", tmp_path)
    assert (tmp_path / "abc123").exists()
    users.write_text(_MACHINE)
    assert namespaces_id(tmp_path, users) == ""
    users.write_text(_NODE)
    assert namespaces_id(tmp_path, users) == "", "it is not asked again"
    write_namespaces_id("abc123", tmp_path)
    identity = namespaces_id(tmp_path, users)
    assert identity
    assert "abc123" not in identity, "it is in command lines, and whoever knows the secret could be taken for the node"
    assert namespaces_id(tmp_path / "none", users) == ""


@pytest.mark.parametrize(
    ("user", "identity", "is_root"), [(0, "", True), (0, "abc123", False), (1000, "", False), (1000, "abc123", False)]
)
def test_root_of_a_node_is_not_the_machines(
    monkeypatch: pytest.MonkeyPatch, user: int, identity: str, is_root: bool
) -> None:
    """Though its number is 0."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr("beehive.node_namespaces.namespaces_id", lambda: identity)
    assert is_machine_root() is is_root


def test_pods_have_the_users_sub_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their root is the first; root's pods have the machine's users."""
    monkeypatch.setattr("beehive.node_namespaces.namespaces_id", lambda: "abc123")
    assert [pod_id(0), pod_id(1000)] == [1, 1001]
    monkeypatch.undo()
    assert [pod_id(0), pod_id(1000)] == [0, 1000]


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files to a user needs root")
def test_what_is_the_nodes_is_given_to_pods_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link itself is given, and not what it leads to; a pod's own files, and its group's, stay theirs."""
    monkeypatch.setattr("beehive.node_namespaces.namespaces_id", lambda: "abc123")
    mine, theirs, group, target = (tmp_path / name for name in ("mine", "theirs", "group", "target"))
    for each in (theirs, group, target):
        each.touch()
    mine.symlink_to(target)
    os.chown(theirs, 7, 8)
    os.chown(group, 0, 8)
    directory = os.open(tmp_path, os.O_PATH)
    for each in (mine, theirs, group):
        give_to_pods(each.name, directory)
    os.close(directory)
    found = {each.name: (each.lstat().st_uid, each.lstat().st_gid) for each in tmp_path.iterdir()}
    assert found == {"mine": (1, 1), "theirs": (7, 8), "group": (1, 8), "target": (0, 0)}
    opened = os.open(target, os.O_PATH)
    give_to_pods(opened)
    os.close(opened)
    assert target.stat().st_uid == 1
    monkeypatch.setattr("beehive.node_namespaces.namespaces_id", lambda: "")
    give_to_pods(tmp_path)
    assert tmp_path.stat().st_uid == 0
