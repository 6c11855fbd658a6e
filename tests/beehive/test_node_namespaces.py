"""Whether a process is in the namespaces of an ordinary user's node."""

import os
from pathlib import Path

import pytest

from beehive.node_namespaces import is_machine_root, namespaces_id, write_namespaces_id

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
