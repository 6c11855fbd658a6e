"""What crun keeps of an ended container is removed without crun, unless crun has more to do."""

import errno
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from modules.runtimes.oci.crun.launching import Launcher
from modules.runtimes.oci.crun.runtime_command import CommandFailedError, RuntimeCommand

_GROUP: Final = "/pods/one"
_NOBODY: Final = 1 << 22
"""No process has this number: the kernel's are smaller."""


@pytest.fixture
def groups(tmp_path: Path) -> list[Path]:
    """Two hierarchies; the group is left in the first."""
    (tmp_path / "cpu/pods/one").mkdir(parents=True)
    (tmp_path / "memory/pods").mkdir(parents=True)
    return [tmp_path / "cpu", tmp_path / "memory"]


def _delete(tmp_path: Path, groups: list[Path], status: dict[str, Any], config: dict[str, Any]) -> Path:
    """Delete a container; crun fails."""
    state = tmp_path / "states" / "one"
    state.mkdir(parents=True)
    ended = {"pid": _NOBODY, "cgroup-path": _GROUP, "systemd-cgroup": False}
    (state / "status").write_text(json.dumps({**ended, **status}))
    (state / "config.json").write_text(json.dumps({"linux": {}, **config}))
    RuntimeCommand(Launcher(hides_unified=False), Path("/bin/false"), state.parent, groups=groups).delete("one")
    return state


def test_nothing_is_left(tmp_path: Path, groups: list[Path]) -> None:
    state = _delete(tmp_path, groups, {}, {"hooks": {"poststart": [{"path": "/hook"}]}})
    assert not state.exists()
    assert [each.name for each in tmp_path.glob("*/pods/*")] == []


def test_a_half_way_removal_is_one_that_crun_ends(
    tmp_path: Path, groups: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`crun delete --force` removes a directory without `status`, but fails for one without `config.json`."""
    unlink = os.unlink

    def unlink_status(path: str) -> None:
        if not path.endswith("/status"):
            raise OSError(errno.EIO, "stopped here", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", unlink_status)
    with pytest.raises(CommandFailedError):
        _delete(tmp_path, groups, {}, {})
    assert [each.name for each in (tmp_path / "states/one").iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("status", "config"),
    [
        pytest.param({"pid": os.getpid()}, {}, id="a process"),
        pytest.param({"pid": None}, {}, id="another state"),
        pytest.param({"systemd-cgroup": True}, {}, id="a scope of systemd"),
        pytest.param({"cgroup-path": ""}, {}, id="no group of its own"),
        pytest.param({"cgroup-path": "/pods"}, {}, id="a group with groups"),
        pytest.param({}, {"hooks": {"poststop": [{"path": "/hook"}]}}, id="a hook"),
        pytest.param({}, {"linux": {"intelRdt": {}}}, id="a part of the cache"),
        pytest.param({}, {"linux": None}, id="another configuration"),
    ],
)
def test_crun_does_the_rest(tmp_path: Path, groups: list[Path], status: dict[str, Any], config: dict[str, Any]) -> None:
    """It ends processes, calls hooks, and asks systemd."""
    with pytest.raises(CommandFailedError):
        _delete(tmp_path, groups, status, config)
    assert (tmp_path / "states/one/status").exists()


def test_what_somebody_else_removes_meanwhile_is_removed(
    tmp_path: Path, groups: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control group, and the files of the state."""
    unlink, rmdir = os.unlink, os.rmdir

    def gone(remove: Any, path: str) -> None:
        remove(path)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    monkeypatch.setattr(os, "rmdir", lambda path: gone(rmdir, path))
    state = _delete(tmp_path, groups, {}, {})
    assert not state.exists()
    monkeypatch.setattr(os, "unlink", lambda path: gone(unlink, path))
    assert not _delete(tmp_path, groups, {}, {}).exists()
