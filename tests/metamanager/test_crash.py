"""What was acknowledged to the cloud survives the death of the process."""

from contextlib import closing
from pathlib import Path

import pytest

from metamanager.sqlite_store import SqliteStore
from tests.support.killed import output_until_kill


@pytest.mark.parametrize("acknowledged", [1, 40, 333])
def test_acknowledged_pods_are_stored_after_a_kill(tmp_path: Path, acknowledged: int) -> None:
    """SIGKILL in the middle of the stream of batches: every pod whose acknowledgement left the process is stored."""
    path = tmp_path / "edgecore.db"
    seen = output_until_kill("tests.metamanager.crash_child", path, acknowledged)
    with closing(SqliteStore(path)) as store:
        assert [key for key in seen if store.get(key) is None] == []
