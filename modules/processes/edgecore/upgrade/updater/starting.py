"""The start of a node, and of the updater."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from .installation import Installation
from .journal import UNFINISHED, NodeHandle, Phase, UpgradeJournal
from .locks import StartError, StartLock, is_held, owner_of
from .processes import AGAIN_SECONDS, COMMAND_SECONDS

_START_FAILED: Final = 4
"""Exit status of a node that cannot start."""
_UNIT: Final = "edgecore-updater"


def start_updater(installation: Installation, node: NodeHandle, *, is_starting: bool) -> None:
    """Start the updater: as a transient unit where systemd runs the node, else as a process of its own.

    systemd starts it again when it is killed.

    Raises:
        OSError: a program is missing.
        subprocess.SubprocessError: systemd did not start it.
    """
    command = [sys.executable, "-I", str(installation.state / "updater.py"), str(installation.root)]
    if node.unit:
        options = [
            "--quiet",
            f"--unit={_UNIT}",
            "--collect",
            "--property=Restart=on-failure",
            f"--property=RestartSec={AGAIN_SECONDS:.0f}",
        ]
        words = ["systemd-run", *(["--user"] if node.user else []), *options, "--", *command]
        subprocess.run(words, stdin=subprocess.DEVNULL, check=True, timeout=COMMAND_SECONDS)
        return
    with (installation.state / "updater.log").open("ab") as log:
        subprocess.Popen(
            [*command, *(["starting"] if is_starting else [])],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def hold_start(installation: Installation) -> StartLock:
    """Take the right to start the node, and see to an upgrade that is unfinished.

    Raises:
        StartError: another start takes too long, or the node runs.
        OSError: this user must not take it.
    """
    lock = StartLock(installation.starting)
    is_held = lock.wait(partial(_runs, installation))
    resume(installation)
    if not is_held:
        raise StartError(f"process {lock.holder()} runs it")
    return lock


def _runs(installation: Installation, process: int) -> bool:
    """Return whether a process is the node that was changed last, which has its lock."""
    with suppress(OSError, ValueError):
        journal = installation.journal()
        return journal is not None and owner_of(Path(journal.node.lock)) == process
    return False


def resume(installation: Installation) -> None:
    """See to an upgrade that is unfinished, before a node starts; whatever fails there is said.

    Raises:
        StartError: the version that is current would get a database that was put back for the one before.
    """
    journal = None
    try:
        with installation.locked() as is_free:
            journal = installation.journal() if is_free else None
            if journal is None or journal.phase not in UNFINISHED:
                return
            if not (runs := is_held(Path(journal.node.lock))):
                installation.recover(journal)
        start_updater(installation, journal.node, is_starting=not runs)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"edgecore: cannot go on with the upgrade: {error}\n")
        if journal is not None and _is_half_back(installation, journal):
            with suppress(OSError, subprocess.SubprocessError):
                start_updater(installation, journal.node, is_starting=False)
            raise StartError(f"{journal.target} is being taken back") from error


def _is_half_back(installation: Installation, journal: UpgradeJournal) -> bool:
    """Return whether the database may be another version's than the link names."""
    return journal.phase is Phase.ROLLING_BACK and bool(journal.database) and installation.current() != journal.origin


def launch(root: Path, words: Sequence[str]) -> NoReturn:
    """Start the current version in the place of this process; before a node runs, go on with what is unfinished.

    Beside a configuration there are no versions, and the program itself sees to what is unfinished.
    """
    installation = Installation(root)
    if words[:1] == ["run"] and installation.versions.is_dir():
        try:
            hold_start(installation).pass_on()
        except StartError as error:
            sys.stderr.write(f"edgecore: error: cannot start this node: {error}\n")
            sys.exit(_START_FAILED)
        except OSError as error:
            sys.stderr.write(f"edgecore: an upgrade may not see this start: {error}\n")
    program = str(installation.program())
    os.execv(program, [program, *words])  # noqa: S606 - in the place of this process
