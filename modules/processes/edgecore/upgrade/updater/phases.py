"""The phases of an upgrade, from wherever it is to its end."""

from __future__ import annotations

import sys
from typing import Final

from .installation import Installation
from .journal import Phase, UpgradeJournal
from .node_control import NodeControl
from .probation import watch
from .processes import AGAIN_SECONDS

_BACK_SECONDS: Final = 60.0
"""Seconds that the updater waits for the earlier version to answer."""
_MOST_RETURNS: Final = 3


class Updater:
    """The updater that carries an upgrade to its end, from wherever it is.

    Args:
        installation: with the journal.
        node: the node.
        is_starting: whether the node is just being started, so that it must not be started again.
    """

    def __init__(self, installation: Installation, node: NodeControl, *, is_starting: bool = False) -> None:
        self._installation = installation
        self._node = node
        self._is_starting = is_starting

    def run(self, journal: UpgradeJournal) -> None:
        """Go to the end. Raises OSError if a file cannot be written; the next call then goes on."""
        if journal.phase in (Phase.STAGED, Phase.SWITCHING):
            self._installation.switch(journal)
        if journal.phase is Phase.PROBATION:
            self._ensure_running(journal)
            trouble = watch(journal, self._node)
            if not trouble:
                self._installation.finish(journal, Phase.COMMITTED)
                return
            journal.report.append(trouble)
            self._installation.write(journal, Phase.ROLLING_BACK)
        if journal.phase is Phase.ROLLING_BACK:
            if not (self._is_starting and self._installation.is_back(journal)):
                self._go_back(journal)
            if not journal.configuration:
                self._ensure_earlier(journal)
            self._installation.finish(journal, Phase.ROLLED_BACK)

    def _go_back(self, journal: UpgradeJournal) -> None:
        with self._node.stopped():
            self._installation.roll_back(journal)
        self._node.start()

    def _ensure_earlier(self, journal: UpgradeJournal) -> None:
        """Wait until the earlier version answers. If another one does, which was started without the launcher, go back
        again.
        """
        returns, deadline = 0, self._node.monotonic() + _BACK_SECONDS
        while (seen := self._node.observe()) is None or seen.version != journal.origin:
            if seen is not None and returns < _MOST_RETURNS:
                returns += 1
                journal.report.append(f"edgecore {seen.version} was started again, and is stopped")
                self._go_back(journal)
            if self._node.monotonic() >= deadline:
                found = "no edgecore answers" if seen is None else f"edgecore {seen.version} runs"
                journal.report.append(f"{found} after {_BACK_SECONDS:.0f} s")
                return
            self._node.wait(journal.limits.every)
            self._node.exits()

    def _ensure_running(self, journal: UpgradeJournal) -> None:
        """Let the node run the new version, if it does not, or start it with the new configuration."""
        seen = None if self._is_starting or journal.configuration else self._node.observe()
        if not self._is_starting and (seen is None or seen.version != journal.target):
            with self._node.stopped():
                pass
            self._node.start()
        self._is_starting = False


def carry_out(installation: Installation, journal: UpgradeJournal, node: NodeControl, *, is_starting: bool) -> None:
    """Carry an upgrade that has begun to its end, however often a file cannot be written: the node may be stopped.

    Raises:
        OSError: nothing was changed; or systemd runs the node, and starts an updater again that has failed.
    """
    said = ""
    while journal.phase not in (Phase.COMMITTED, Phase.ROLLED_BACK):
        try:
            Updater(installation, node, is_starting=is_starting).run(journal)
        except OSError as error:
            if journal.node.unit:
                raise
            is_starting, journal = False, _read_again(installation, node) or journal
            if journal.phase is Phase.STAGED:
                raise
            if said != str(error):
                said = str(error)
                sys.stderr.write(f"updater: tried again: {error}\n")
            node.wait(AGAIN_SECONDS)


def _read_again(installation: Installation, node: NodeControl) -> UpgradeJournal | None:
    """Return the journal as it is on the disk, however often it cannot be read."""
    while True:
        try:
            return installation.journal()
        except OSError:
            node.wait(AGAIN_SECONDS)
