"""Namespaces of a pod with users of its own that cannot be made: nothing is left of the attempt."""

import os
from pathlib import Path

import pytest

from modules.runtimes.oci.network import user_namespaces
from modules.runtimes.oci.network.user_namespaces import IdRange, UserMapping, pin_with_users
from tests.support.failing import Attempt, Failing, fail_at_each_call


def test_no_descriptor_and_no_process_is_left_of_namespaces_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cat` stands for unshare: it answers, and ends when its input does."""
    spawned: list[int] = []

    def spawn(_kinds: object, stdin: int, stdout: int) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)]
        program = ("/bin/sh", "-c", "echo; exec cat")
        spawned.append(os.posix_spawn(program[0], program, {}, file_actions=actions))
        return spawned[-1]

    def make(failing: Failing) -> Attempt:
        monkeypatch.setattr(user_namespaces, "_spawn", spawn)
        for name in ("_write_mapping", "bind_file"):
            monkeypatch.setattr(user_namespaces, name, failing.call(lambda *_: None))

        def run() -> None:
            with failing.kernel_calls():
                pin_with_users(tmp_path, ["net"], UserMapping(IdRange(0, 1), IdRange(0, 1)))

        return Attempt(run)

    assert fail_at_each_call(make) >= 6
    for each in spawned:
        with pytest.raises(ProcessLookupError):
            os.kill(each, 0)
