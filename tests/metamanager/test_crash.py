"""What was acknowledged to the cloud survives the death of the process."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from metamanager.sqlite_store import SqliteStore


@pytest.mark.parametrize("acknowledged", [1, 40, 333])
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path, acknowledged: int) -> None:
    """SIGKILL in the middle of the stream of batches: every pod whose acknowledgement left the process is stored."""
    path = tmp_path / "edgecore.db"
    command = [sys.executable, "-m", "tests.metamanager.crash_child", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        seen = [child.stdout.readline().strip() for _ in range(acknowledged)]
        child.kill()
        seen += [line.strip() for line in child.stdout if line.endswith("\n")]
    assert len(seen) >= acknowledged
    with closing(SqliteStore(path)) as store:
        assert [key for key in seen if store.get(key) is None] == []
