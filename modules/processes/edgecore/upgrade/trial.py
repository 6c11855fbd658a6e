"""Tries a version before the node runs it: by its own commands, on copies, each within a time limit."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beehive.on_failure import on_failure
from modules.processes.common.backup.archive import check_database, copy_database
from modules.processes.edgecore.database_copies import forget_completeness
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.updater.database import backup_of, schema_of
from modules.processes.edgecore.upgrade.updater.files import sync_directory, sync_file
from modules.processes.edgecore.upgrade.updater.journal import read_json

_SECONDS: Final = 120.0
_LONGEST: Final = 300


class VersionTrial:
    """A version that is to be tried.

    Args:
        directory: of the version.
        version: its name.
    """

    def __init__(self, directory: Path, version: str) -> None:
        self.program = directory / "bin" / "edgecore"
        self._version = version

    def check_program(self) -> None:
        """Check that it starts, and is the version that it says. Raises UpgradeError."""
        text = self._run("version", "-o", "json")
        try:
            found = read_json(text.encode())["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise UpgradeError("the version does not work", self._version, "`version` prints no JSON") from error
        if found != self._version:
            raise UpgradeError("the version does not work", self._version, f"it says that it is {str(found)[:60]!r}")

    def check_configuration(self, file: Path | None) -> None:
        """Check that it accepts the node's configuration. Raises UpgradeError."""
        if file is not None:
            self._run("config", "check", str(file))

    def check_database(self, database: Path, scratch: Path, schema: int) -> int:
        """Copy the node's database, and check on another copy that the version reads it; return the present schema.

        Args:
            database: of the node; the copy beside it is what a rollback restores, in which the node no longer counts as
                complete.
            scratch: a directory for the other copy.
            schema: that the version must have.

        Raises:
            BackupError: the database cannot be copied, or is damaged.
            UpgradeError: the version does not read it, or gives it another schema.
        """
        copy = backup_of(database)
        copy.unlink(missing_ok=True)
        with on_failure(lambda: copy.unlink(missing_ok=True)):
            copy_database(database, copy)
            check_database(copy)
            forget_completeness(copy)
            sync_file(copy)
            sync_directory(copy.parent)
            present = schema_of(copy)
            tried = scratch / "tried.db"
            copy_database(copy, tried)
            self._run("store", "migrate", str(tried))
            if schema_of(tried) != schema or present is None:
                raise UpgradeError(
                    "the version does not work", self._version, f"the database's schema is not {schema} with it"
                )
        return present

    def _run(self, *words: str) -> str:
        return run_version(self.program, words, self._version)


def run_version(program: Path, words: Sequence[str], version: str) -> str:
    """Run a command of a version; return its output. Raises UpgradeError if it fails or takes too long."""
    try:
        done = subprocess.run(
            [str(program), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = str(error.stderr or error.stdout).strip()[-_LONGEST:]
        raise UpgradeError("the version does not work", version, f"`edgecore {words[0]}`: {said}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise UpgradeError("the version does not work", version, f"`edgecore {words[0]}`: {error}") from error
    return done.stdout
