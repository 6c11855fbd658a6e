"""Keeps the changes of a node apart: of its version, of its configuration, of whether it runs or exists at all.

An upgrade and a change of the configuration have directories, locks and updaters of their own. Whoever begins one of
them, or restarts, joins, restores or removes the node, holds the locks of both meanwhile. An updater holds its own
lock; between the command that has staged a change and the updater nobody does, and a change that is staged then, or
whose command was killed, is over.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from modules.apimachinery.node_jobs import ANOTHER_CHANGE
from modules.apimachinery.printing.terminal import print_error
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.location import NodeLocation, changing
from modules.processes.edgecore.ownership import LOCK_FILE
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.updater.installation import Installation, installation_of
from modules.processes.edgecore.upgrade.updater.journal import UNFINISHED, Phase, UpgradeJournal
from modules.processes.edgecore.upgrade.updater.locks import owner_of

_REPEAT: Final = "repeat this after its end"
_CANCELLED: Final = "another command has changed the node before this was begun"


def changes_of(location: NodeLocation, config: EdgeCoreConfig) -> list[Installation]:
    """Return where a node is changed: the directory of its configuration's changes, if there is one, and of the
    versions that the node, or this program, is run from.
    """
    found = [installation_of(prefix) for prefix in (Path(sys.prefix), _prefix_of(config)) if prefix is not None]
    if location.file is not None:
        found.append(Installation(changing(location.file)))
    return [each for each in found if each is not None and each.root.is_dir()]


def _prefix_of(config: EdgeCoreConfig) -> Path | None:
    """Return the Python environment of the node that runs; None if none does."""
    process = owner_of(config.modules.edged.root_directory / LOCK_FILE)
    words = words_of(process) if process else []
    return Path(words[0]).parent.parent if words else None


def words_of(process: int) -> list[str]:
    """Return the command line of a process. Raises OSError."""
    text = Path(f"/proc/{process}/cmdline").read_bytes()
    return [word.decode(errors="surrogateescape") for word in text.split(b"\0")[:-1]]


@contextmanager
def held(
    changes: Iterable[Installation], own: Installation | None = None, *, only_check: bool = False
) -> Iterator[None]:
    """Let no other command, and no updater, change the node. Another user's installation, from which the node is run,
    is left alone: this node's version is changed there by nobody.

    Args:
        changes: the directories where it may be changed.
        own: one more, where the caller stages a change.
        only_check: whether the caller changes nothing, so that what is staged can still begin.

    Raises:
        UpgradeError: one does, or has to.
        OSError: a lock cannot be opened, or the end of a staged change cannot be written.
    """
    with ExitStack() as stack:
        places = {each.root.resolve(): each for each in changes}
        if own is not None:
            places[own.root.resolve()] = own
        for each in places.values():
            try:
                is_free = stack.enter_context(each.locked())
            except PermissionError:
                if each is own:
                    raise
                continue
            journal = journal_of(each)
            if journal is not None and journal.phase in UNFINISHED:
                hint = f"{_REPEAT}; where no updater runs, the next start of the node goes on with it"
                does = "goes back" if journal.phase is Phase.ROLLING_BACK else "is on probation"
                raise UpgradeError(f"{ANOTHER_CHANGE}: {journal.subject} {does}", str(each.root), hint)
            if not is_free:
                raise UpgradeError(f"{ANOTHER_CHANGE}: a command prepares it", str(each.root), _REPEAT)
            if journal is not None and journal.phase is Phase.STAGED and each is not own and not only_check:
                journal.report.append(_CANCELLED)
                each.finish(journal, Phase.ROLLED_BACK)
        yield


def journal_of(installation: Installation) -> UpgradeJournal | None:
    """Return the last change; None without one, or if it cannot be read, and then say so. Raises OSError."""
    try:
        return installation.journal()
    except ValueError as error:
        print_error("edgecore", f"warning: the last change of {installation.root} is not known: {error}")
        return None
