"""What the outbox has said to be on the disk survives the death of the process."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from beehive import decode
from edgehub.outbox.sqlite import SqliteOutbox


@pytest.mark.parametrize("written", [1, 40, 333])
def test_written_messages_are_there_after_a_kill_and_in_order(tmp_path: Path, written: int) -> None:
    """SIGKILL in the middle of the stream of changes."""
    path = tmp_path / "outbox.db"
    program = [sys.executable, "-m", "tests.edgehub.outbox_child", str(path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline().strip() for _ in range(written)]
        child.kill()
        told += [line.strip() for line in child.stdout if line.endswith("\n")]
    assert all(told), "it ended by itself"
    with closing(SqliteOutbox(path)) as store:
        found = [decode(one.frame) for one in store.load()]
    assert [message.id for message in found][: len(told)] == told
    numbers = [message.content_as(int) for message in found]
    assert numbers == sorted(numbers)
