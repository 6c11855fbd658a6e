"""A kill at each statement of a migration: the version of a file says which steps it has."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from metamanager import sqlite_migrations
from metamanager.sqlite_migrations import migrate
from tests.metamanager import kubeedge_file
from tests.support.crash import Crash
from tests.support.failing import Failing

POD = {"kind": "Pod", "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}}
KUBEEDGES = {"key", "type", "value"}


class Killed(sqlite3.Connection):
    """A connection whose process is killed before a statement: nothing can be rolled back then."""

    failing = Failing(None)

    def execute(self, *statement: object) -> sqlite3.Cursor:
        """Execute a statement, unless the process has ended."""
        self.failing.step()
        return super().execute(*statement)  # type: ignore[arg-type]

    def rollback(self) -> None:
        """Do nothing if the process has ended."""
        if not self.failing.has_failed:
            super().rollback()


def steps_of(path: Path) -> tuple[int, bool, bool, bool]:
    """The version of a file, and whether it has the columns, the note that it is complete, and the history."""
    with closing(sqlite3.connect(path)) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
        columns = {row[1] for row in file.execute("PRAGMA table_info(meta)")} - KUBEEDGES
        note = file.execute("SELECT 1 FROM meta WHERE key = 'null/store/complete'").fetchone()
        history = file.execute("SELECT 1 FROM sqlite_master WHERE name = 'edgecore_history'").fetchone()
        return version, bool(columns), note is not None, history is not None


def test_a_version_has_its_step_and_no_step_runs_twice(tmp_path: Path) -> None:
    has_ended, statements, versions = False, 0, set[int]()
    while not has_ended:
        path = tmp_path / str(statements)
        kubeedge_file.make(path)
        kubeedge_file.save(path, POD)
        with closing(sqlite3.connect(path, isolation_level=None, factory=Killed)) as connection:
            connection.failing = Failing(statements, Crash())
            with suppress(Crash):
                migrate(connection, str(path))
            has_ended = not connection.failing.has_failed
            statements += 1
        version, *steps = steps_of(path)
        assert steps == [version >= number for number in (1, 2, 3)], statements
        versions.add(version)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            migrate(connection, str(path))
        assert steps_of(path) == (len(sqlite_migrations._STEPS), True, True, True)
    assert versions == {0, 1, 2, 3}
