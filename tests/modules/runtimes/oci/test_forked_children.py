"""Forked children whose work fails unforeseen: each ends, and runs none of its parent's code."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modules.runtimes.oci.images.worker import unpack
from modules.runtimes.oci.network.pause import process as pause
from modules.runtimes.oci.rootless import entering, probe


class _EndedError(BaseException):
    """The end of the process, with its status."""


def _fail(*_: object) -> Any:
    raise MemoryError


def _end(status: int) -> None:
    raise _EndedError(status)


def _unpacks(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(unpack, "kernel", SimpleNamespace(die_with_parent=_fail))
    unpack._run_child(os.getppid(), 0, [], cast("Any", None))


def _is_a_pods_first(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(pause, "_enter", lambda *_: 0)
    patched.setattr(os, "read", _fail)
    patched.setattr(os, "set_inheritable", lambda *_: None)
    pause.main(0, "", [])


def _maps_users(_: pytest.MonkeyPatch) -> None:
    entering._map_parent(-1, -1, [])


def _tries(_: pytest.MonkeyPatch) -> None:
    probe._report(-1, _fail)


def _tries_proc(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(probe, "kernel", SimpleNamespace(unshare=lambda _: None, mount=_fail))
    probe._try_proc(Path())


@pytest.mark.parametrize(
    ("work", "status"),
    [
        (_unpacks, 0), (_is_a_pods_first, 1), (_maps_users, 1), (_tries, 1),
        (_tries_proc, 1),
    ],
    ids=["layer", "pod", "users", "trial", "proc"],
)  # fmt: skip
def test_a_child_whose_work_fails_ends(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[pytest.MonkeyPatch], None], status: int
) -> None:
    """It would be a second edgecore, with the descriptors and the work of the first."""
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(os, "_exit", _end)
    with monkeypatch.context() as patched, pytest.raises(_EndedError) as ended:
        work(patched)
    assert ended.value.args == (status,)
