"""The trial of an ordinary user's namespaces, which decides whether a new node isolates containers."""

import os
from pathlib import Path

import pytest

from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.oci.rootless import entering
from modules.runtimes.oci.rootless.probe import probe
from tests.modules.runtimes.oci.rootless.node import reason_missing


def test_a_trial_leaves_nothing(tmp_path: Path) -> None:
    """Not even a namespace of this process."""
    if reason := reason_missing():
        pytest.skip(reason)
    before = Path("/proc/self/ns/user").readlink()
    probe(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert Path("/proc/self/ns/user").readlink() == before


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """The error comes from the process of the trial."""
    if reason := reason_missing():
        pytest.skip(reason)
    with pytest.raises(StateDirectoryError, match="No such file or directory"):
        probe(tmp_path / "missing")


def test_what_is_missing_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the start of a node would."""
    monkeypatch.setattr(entering, "_SEARCHED", str(tmp_path))
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("this process may not have other users")
    with pytest.raises(StateDirectoryError, match=r"newuidmap is not installed \(apt-get install uidmap\)"):
        probe(tmp_path)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names alone
