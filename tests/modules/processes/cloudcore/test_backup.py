"""A cloud that is restored: its objects are as they were, and nodes take them although they are older."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from modules.processes.cloudcore.renewed_versions import MOST_LOST, renew_versions
from modules.processes.common.backup.errors import BackupError
from tests.end_to_end.processes import Process, wait_until
from tests.end_to_end.test_backup import call

COLOURS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: colours}
data: {sky: %s}
"""


def test_versions_are_new(tmp_path: Path) -> None:
    """In the order of the old ones, above all that were given; deletions keep theirs."""
    path = tmp_path / "cloudcore.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE cluster_state (revision)")
        database.execute("INSERT INTO cluster_state VALUES (20)")
        database.execute("CREATE TABLE cluster_objects (name, revision, body)")
        rows = [("late", 9), ("early", 3)]
        for name, version in rows:
            body = json.dumps({"metadata": {"name": name, "resourceVersion": str(version)}})
            database.execute("INSERT INTO cluster_objects VALUES (?, ?, ?)", (name, version, body.encode()))
        database.execute("INSERT INTO cluster_objects VALUES ('gone', 4, NULL)")
    renew_versions(path, 100.0)
    with closing(sqlite3.connect(path)) as database:
        found = {row[0]: row[1:] for row in database.execute("SELECT * FROM cluster_objects")}
        state = database.execute("SELECT revision FROM cluster_state").fetchone()
    first = 100 + MOST_LOST
    assert [found[name][0] for name in ("early", "late", "gone")] == [first + 1, first + 2, 4]
    assert json.loads(found["late"][1])["metadata"] == {"name": "late", "resourceVersion": str(first + 2)}
    assert state == (first + 2,)


def test_another_database_is_refused(tmp_path: Path) -> None:
    """Its error says whose it is not."""
    with closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
        database.execute("CREATE TABLE t (a)")
    with pytest.raises(BackupError, match="it is not cloudcore's"):
        renew_versions(tmp_path / "x.db", 0.0)


def test_a_cloud_there_and_back(tmp_path: Path) -> None:
    """Backed up while it runs; restored when it has stopped; a later start has the old content with a newer version."""
    root, ready = tmp_path / "c", tmp_path / "ready"

    def started() -> Process:
        ready.unlink(missing_ok=True)
        arguments = ["run", "--root", str(root), "--listen", "127.0.0.1:0", "--ready-file", str(ready)]
        process = Process("modules.processes.cloudcore", arguments, tmp_path / "log")
        wait_until(lambda: ready.exists() or not process.runs, "the cloud is ready")
        return process

    def colour() -> tuple[str, int]:
        found = json.loads(call("cloudcore", "get", "cm", "colours", "-o", "json", "--root", str(root)))
        return found["data"]["sky"], int(found["metadata"]["resourceVersion"])

    process = started()
    try:
        call("cloudcore", "apply", "-f", "-", "--root", str(root), text=COLOURS % "blue")
        assert "database/cloudcore.db" in call("cloudcore", "backup", str(tmp_path / "b.tgz"), "--root", str(root))
        call("cloudcore", "apply", "-f", "-", "--root", str(root), text=COLOURS % "grey")
        grey = colour()
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.tail()
        call("cloudcore", "restore", str(tmp_path / "b.tgz"), "--root", str(root), "--reason", "drill")
        process = started()
        blue = colour()
        assert (grey[0], blue[0]) == ("grey", "blue")
        assert blue[1] > grey[1]
        changes = json.loads(call("cloudcore", "changes", "database", "-o", "json", "--root", str(root)))
        assert [(each["verb"], each["manager"], each["fields"][0]) for each in changes] == [
            ("restored", "cloudcore restore", "reason: drill")
        ]
    finally:
        process.kill()
