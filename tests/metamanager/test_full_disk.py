"""A disk without room: what is stored can be read, nothing is acknowledged that was not stored, and it passes."""

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import pytest

from beehive import Group, Operation, State
from beehive.testing import Harness
from metamanager.errors import StoreError
from metamanager.figures import StoreFigures
from metamanager.metrics import StoreCollector
from metamanager.module import PROBE_AFTER, MetaManager, MetaSettings
from metamanager.rows import Row
from metamanager.sqlite_store import COMMITS_BETWEEN_LOOKS, SqliteStore
from metamanager.store import open_store
from tests.metamanager.support import META, from_cloud, from_edged, node, store_of, thing

BIG = "x" * 100_000


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 1 MB."""
    if os.geteuid():
        pytest.skip("only root may mount")
    with TemporaryDirectory(prefix="full-") as directory:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "full", directory], check=False)
        if made.returncode:
            pytest.skip("this machine allows no mount")
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", directory], check=True)


def test_a_real_disk_that_is_full(small_disk: Path) -> None:
    """Errors in the place of acknowledgements, not ready, reading goes on; with room again it is ready by itself and
    takes changes. The metrics say the same.
    """
    path = small_disk / "edgecore.db"
    with node(path) as bee:
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.INSERT, thing()))
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            while True:
                file.write(b"\0" * 4096)
        bee.forget()
        for number in range(4):
            content = thing("b", uid=f"u{number}", text=BIG)
            bee.send(META, from_cloud(bee, f"default/configmap/b{number}", Operation.INSERT, content))
        answers = bee.sent_to(Group.HUB)
        assert [answer.route.operation for answer in answers] == [Operation.ERROR] * 4
        readiness = bee.hive.readiness()[META]
        assert readiness.state is not State.READY
        assert "disk space" in str(readiness)
        assert bee.ask(META, from_edged(bee, "default/configmap/a", Operation.QUERY), 1).content
        ballast.unlink()
        bee.run_for(PROBE_AFTER + 1)
        assert bee.hive.readiness()[META].state is State.READY
        bee.forget()
        bee.send(META, from_cloud(bee, "default/configmap/b0", Operation.INSERT, thing("b", uid="u0", text=BIG)))
        assert [answer.content for answer in bee.sent_to(Group.HUB)] == ["OK"]


def test_a_node_that_starts_with_a_full_disk_knows_its_pods(small_disk: Path) -> None:
    """SQLite would need room only to open the file; with room again changes are taken."""
    path, ballast = small_disk / "edgecore.db", small_disk / "ballast"
    with node(path) as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
        while True:
            file.write(b"\0" * 4096)
    with node(path) as bee:
        assert len(bee.ask(META, from_edged(bee, "default/pod", Operation.QUERY), 1).content) == 1
        bee.send(META, from_cloud(bee, "default/pod/b", Operation.INSERT, thing("b", uid="b", text=BIG)))
        assert bee.hive.readiness()[META].state is not State.READY
        ballast.unlink()
        bee.run_for(PROBE_AFTER + 1)
        bee.send(META, from_cloud(bee, "default/pod/b", Operation.INSERT, thing("b", uid="b", text=BIG)))
    with node(path) as bee:
        assert len(bee.ask(META, from_edged(bee, "default/pod", Operation.QUERY), 1).content) == 2


def test_a_database_that_cannot_even_be_read_does_not_end_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it looks whether changes are taken again: it looks once more later."""
    with node(tmp_path / "edgecore.db") as bee:
        store = store_of(bee)
        store._connection.execute("PRAGMA max_page_count=20")
        bee.send(META, from_cloud(bee, "default/configmap/b", Operation.INSERT, thing(text=BIG)))
        store._connection.execute("PRAGMA max_page_count=1000")
        with monkeypatch.context() as patched:
            patched.setattr(SqliteStore, "put", Mock(side_effect=StoreError("read the database", "", "I/O error")))
            bee.run_for(PROBE_AFTER + 1)
        assert bee.hive.restarts()[META] == 0
        assert "I/O error" in str(bee.hive.readiness()[META])
        bee.run_for(PROBE_AFTER + 1)
        assert bee.hive.readiness()[META].state is State.READY


def test_the_figures_say_it(tmp_path: Path) -> None:
    """A failure is counted, whether changes are taken is a gauge, and so are the sizes."""
    figures, path = StoreFigures(), tmp_path / "edgecore.db"
    collector = StoreCollector(figures, str(path))
    with Harness() as bee:
        bee.add(MetaManager, MetaSettings(str(path)), open_store, figures)
        bee.start()
        store_of(bee)._connection.execute("PRAGMA max_page_count=20")
        bee.send(META, from_cloud(bee, "default/configmap/b", Operation.INSERT, thing(text=BIG)))
        full = values(collector)
        store_of(bee)._connection.execute("PRAGMA max_page_count=1000")
        bee.run_for(PROBE_AFTER + 1)
        again = values(collector)
    assert (full["failures"], full["takes_changes"]) == (1, 0)
    assert (again["failures"], again["takes_changes"], again["damaged_files"]) == (1, 1, 0)
    assert again["bytes"] > 4096


def values(collector: StoreCollector) -> dict[str, float]:
    """The metrics by the ends of their names."""
    prefixes = ("metamanager_store_write_", "metamanager_store_")
    return {re.sub("|".join(prefixes), "", one.name): one.samples[0].value for one in collector.collect()}


def test_the_file_gives_room_back(tmp_path: Path) -> None:
    """What was deleted is free on the disk after some commits."""
    path = tmp_path / "edgecore.db"
    store = SqliteStore(path)
    rows = [Row(f"default/configmap/{number}", "configmap", BIG) for number in range(50)]
    for row in rows:
        store.put(row)
    store.commit()
    for row in rows:
        store.delete(row.key)
    for number in range(COMMITS_BETWEEN_LOOKS + 1):
        store.put(Row("default/configmap/small", "configmap", str(number)))
        store.commit()
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    assert path.stat().st_size < 2_500_000


def test_a_file_of_an_earlier_version_is_made_to_shrink(tmp_path: Path) -> None:
    path = tmp_path / "edgecore.db"
    with sqlite3.connect(path) as earlier:
        earlier.execute("CREATE TABLE meta (key text(256), type text(32), value text, PRIMARY KEY (key))")
        earlier.execute("INSERT INTO meta VALUES ('default/pod/a', 'pod', '{}')")
    earlier.close()
    store = SqliteStore(path)
    assert store._connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert store.get("default/pod/a") == "{}"
    store.close()
