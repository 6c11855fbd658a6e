"""`edgecore upgrade` for the jobs of the cloud, as a program of its own that outlives this process."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from modules.edge.taskmanager.upgrades import ProgramEnd, UpgradeState
from modules.processes.edgecore.location import add_location, located

_LONGEST: Final = 1000
"""Bytes of the program's last words."""


class LocalUpgradeCommands:
    """The installation that this process runs from (`UpgradeCommands`).

    Args:
        prefix: the Python environment.
        words: of this process; where the node's configuration is.
    """

    def __init__(self, prefix: str = sys.prefix, words: tuple[str, ...] = tuple(sys.argv[1:])) -> None:
        self._prefix = Path(prefix)
        self._words = words
        self._program: subprocess.Popen[bytes] | None = None

    def state(self) -> UpgradeState | None:
        """Return its state; None if this process runs from none."""
        from modules.processes.edgecore.upgrade.updater import UNFINISHED, Phase, installation_of  # noqa: PLC0415

        installation = installation_of(self._prefix)
        if installation is None:
            return None
        with installation.locked() as is_free:
            try:
                journal = installation.journal()
            except (OSError, ValueError):
                journal = None
        if journal is None:
            return UpgradeState(installation.current(), is_under_way=not is_free)
        is_under_way = not is_free or journal.phase in (*UNFINISHED, Phase.STAGED)
        report = "; ".join(journal.report) if journal.phase is Phase.ROLLED_BACK else ""
        return UpgradeState(installation.current(), is_under_way, journal.origin, journal.target, report)

    def begin(self, version: str, *, only_check: bool) -> None:
        """Start the program. Raises OSError."""
        from modules.processes.edgecore.upgrade.updater import installation_of  # noqa: PLC0415

        installation = installation_of(self._prefix)
        if installation is None:
            raise FileNotFoundError(self._prefix)
        words = [str(installation.launcher), "upgrade", version, *_location(self._words)]
        with self._log.open("wb") as log:
            self._program = subprocess.Popen(
                [*words, *(["--only-check"] if only_check else [])],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self) -> ProgramEnd | None:
        """Return how the program has ended; None while it runs, and without one."""
        program = self._program
        if program is None or program.poll() is None:
            return None
        self._program = None
        with self._log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LONGEST))
            lines = log.read(_LONGEST).decode(errors="replace").strip().splitlines()
        return ProgramEnd(program.returncode, " ".join(lines[-3:]))

    @property
    def _log(self) -> Path:
        return self._prefix.parent.parent / "upgrade" / "job.log"


def _location(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that lead a command to the node that this process runs."""
    parser = argparse.ArgumentParser(add_help=False)
    add_location(parser)
    chosen, _ = parser.parse_known_args(list(words))
    return located(chosen.config, chosen.root).options
