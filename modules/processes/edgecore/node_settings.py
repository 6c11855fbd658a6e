"""`edgecore config set` for the jobs of the cloud."""

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from beehive.files.durable import make_directories
from modules.edge.taskmanager.programs import ProgramEnd
from modules.edge.taskmanager.settings_updates import SettingsState
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.detached_program import DetachedProgram, location_of
from modules.processes.edgecore.location import changing


class LocalSettingsCommands:
    """The configuration file of this process (`SettingsCommands`).

    Args:
        prefix: the Python environment.
        words: of this process; where the node's configuration is.
    """

    def __init__(self, prefix: str = sys.prefix, words: tuple[str, ...] = tuple(sys.argv[1:])) -> None:
        self._prefix = Path(prefix)
        self._location = location_of(words)
        self._program = DetachedProgram()

    def state(self, settings: Mapping[str, str]) -> SettingsState | None:
        """Return its state, for settings by dotted key; None without a file."""
        from modules.processes.edgecore.upgrade.updater.installation import Installation  # noqa: PLC0415 - few nodes need it
        from modules.processes.edgecore.upgrade.updater.journal import Phase  # noqa: PLC0415 - few nodes need it

        file = self._location.file
        if file is None:
            return None
        journal, is_under_way = self._program.last_change(Installation(changing(file.absolute())))
        went_back = journal is not None and journal.phase is Phase.ROLLED_BACK
        report = "; ".join(journal.report) if journal is not None and went_back else ""
        return SettingsState(not is_under_way and _has(file, settings), is_under_way, report)

    def begin(self, settings: Mapping[str, str], *, only_check: bool) -> None:
        """Start the program, which reads the settings from its standard input: the job writes no command line. Raises
        OSError.
        """
        from modules.processes.edgecore.upgrade.updater.installation import Installation, installation_of  # noqa: PLC0415

        file = self._location.file
        if file is None:
            raise FileNotFoundError("no configuration file")
        own, change = installation_of(self._prefix), Installation(changing(file.absolute()))
        make_directories(change.state, 0o700)
        program = self._prefix / "bin" / "edgecore" if own is None else own.launcher
        words = [str(program), "config", "set", "--from", "-", *self._location.options]
        given = msgspec.json.encode(dict(settings))
        self._program.start([*words, *(["--only-check"] if only_check else [])], change.state / "job.log", given)

    def end(self) -> ProgramEnd | None:
        """Return how the program has ended; None while it runs, and without one."""
        return self._program.end()


def _has(file: Path, settings: Mapping[str, str]) -> bool:
    """Return whether a configuration file has settings."""
    from modules.processes.edgecore.config.editing import with_setting  # noqa: PLC0415 - few nodes need it
    from modules.processes.edgecore.config.loading import loads  # noqa: PLC0415 - the same

    try:
        text = former = file.read_bytes().decode("utf-8-sig")
        for key, written in settings.items():
            text = with_setting(text, key, written).text
        return loads(text, str(file)).config == loads(former, str(file)).config
    except (OSError, UnicodeDecodeError, ConfigError):
        return False
