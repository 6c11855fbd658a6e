"""What the outbox has said to be on the disk survives the death of the process."""

from contextlib import closing
from pathlib import Path

import pytest

from beehive import decode
from edgehub.outbox.sqlite import SqliteOutbox
from tests.support.killed import output_until_kill


@pytest.mark.parametrize("written", [1, 40, 333])
def test_written_messages_are_there_after_a_kill_and_in_order(tmp_path: Path, written: int) -> None:
    """SIGKILL in the middle of the stream of changes."""
    path = tmp_path / "outbox.db"
    told = output_until_kill("tests.edgehub.outbox_child", path, written)
    with closing(SqliteOutbox(path)) as store:
        found = [decode(one.frame) for one in store.load()]
    assert [message.id for message in found][: len(told)] == told
    numbers = [message.content_as(int) for message in found]
    assert numbers == sorted(numbers)
