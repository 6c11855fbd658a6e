"""A private PostgreSQL server for a test, on a unix socket in its own directory."""

import os
import pwd
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.directories import new_directory
from tests.support.patience import PATIENCE

_USER = "postgres"
"""PostgreSQL refuses to run as root; Debian's package makes this user."""


def _programs() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


def missing() -> str:
    """Return why this machine cannot run a server, or an empty text."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed (pip install 'edgecore[postgresql]')"
    return "" if _programs() else "PostgreSQL is not installed"


needs_postgresql = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


class PrivatePostgresql:
    """A running server. A context manager.

    Args:
        flushes: whether a commit waits for the disk, as by default of a server.
    """

    def __init__(self, *, flushes: bool = False) -> None:
        self._flushes = flushes
        programs = _programs()
        assert programs is not None, missing()
        self._programs = programs
        self._as = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.geteuid() == 0 else []
        self._directory = new_directory("pg-")

    @property
    def url(self) -> str:
        """URL of its only database."""
        user = _USER if self._as else pwd.getpwuid(os.geteuid()).pw_name
        return f"postgresql://{user}@/postgres?host={self._directory}"

    def __enter__(self) -> "PrivatePostgresql":
        if self._as:
            shutil.chown(self._directory, _USER, _USER)
        self._run("initdb", "--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8", f"--username={_USER}"
                  if self._as else "--auth-local=trust")  # fmt: skip
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        """Start the server (again), and wait until it serves."""
        flushes = "on" if self._flushes else "off"
        options = f"-c listen_addresses='' -c unix_socket_directories={self._directory} -c fsync={flushes}"
        wait = ("--wait", f"--timeout={PATIENCE}")
        self._run("pg_ctl", "start", *wait, f"--log={self._directory}/log", f"--options={options}")

    def stop(self) -> None:
        """Stop the server immediately, with all connections."""
        self._run("pg_ctl", "stop", "--mode=immediate")

    def processes(self) -> list[int]:
        """Return the ids of its processes."""
        first = int((self._directory / "data" / "postmaster.pid").read_text().splitlines()[0])
        return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._programs / program), f"--pgdata={self._directory}/data", *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=PATIENCE)
