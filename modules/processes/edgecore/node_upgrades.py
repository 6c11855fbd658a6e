"""`edgecore upgrade` for the jobs of the cloud."""

import sys
from pathlib import Path

from modules.edge.taskmanager.programs import ProgramEnd
from modules.edge.taskmanager.upgrades import UpgradeState
from modules.processes.edgecore.detached_program import DetachedProgram, location_of


class LocalUpgradeCommands:
    """The installation that this process runs from (`UpgradeCommands`).

    Args:
        prefix: the Python environment.
        words: of this process; where the node's configuration is.
    """

    def __init__(self, prefix: str = sys.prefix, words: tuple[str, ...] = tuple(sys.argv[1:])) -> None:
        self._prefix = Path(prefix)
        self._words = words
        self._program = DetachedProgram()

    def state(self) -> UpgradeState | None:
        """Return its state; None if this process runs from none."""
        from modules.processes.edgecore.upgrade.updater.installation import installation_of  # noqa: PLC0415
        from modules.processes.edgecore.upgrade.updater.journal import Phase  # noqa: PLC0415

        installation = installation_of(self._prefix)
        if installation is None:
            return None
        journal, is_under_way = self._program.last_change(installation)
        if journal is None:
            return UpgradeState(installation.current(), is_under_way)
        report = "; ".join(journal.report) if journal.phase is Phase.ROLLED_BACK else ""
        return UpgradeState(installation.current(), is_under_way, journal.origin, journal.target, report)

    def begin(self, version: str, *, only_check: bool) -> None:
        """Start the program. Raises OSError."""
        from modules.processes.edgecore.upgrade.updater.installation import installation_of  # noqa: PLC0415

        installation = installation_of(self._prefix)
        if installation is None:
            raise FileNotFoundError(self._prefix)
        words = [str(installation.launcher), "upgrade", version, *location_of(self._words).options]
        log = installation.state / "job.log"
        self._program.start([*words, *(["--only-check"] if only_check else [])], log)

    def end(self) -> ProgramEnd | None:
        """Return how the program has ended; None while it runs, and without one."""
        return self._program.end()
