"""The start of a node from a directory of versions, or with a configuration that `edgecore config set` has changed."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from modules.apimachinery.attempts import AttemptError
from modules.processes.edgecore.location import NodeLocation, changing

_VERSIONS: Final = "versions"


class NodeStartError(AttemptError):
    """The node may not start now, or not in this version."""


def hold_start(location: NodeLocation, stack: ExitStack, prefix: Path) -> None:
    """Let nobody put the version, the database or the configuration of this node back until the stack is closed; see to
    a change of the configuration that is unfinished before it is read.

    Args:
        location: of the configuration.
        stack: is closed when the node has its own lock.
        prefix: the Python environment.

    Raises:
        NodeStartError: another start takes too long, or this version is not the current one.
    """
    change = None if location.file is None else changing(location.file)
    if prefix.parent.name != _VERSIONS and (change is None or not change.exists()):
        return
    from modules.processes.edgecore.upgrade.updater import starting  # noqa: PLC0415 - most nodes do without
    from modules.processes.edgecore.upgrade.updater.installation import Installation, installation_of  # noqa: PLC0415
    from modules.processes.edgecore.upgrade.updater.locks import StartError, StartLock  # noqa: PLC0415

    own = installation_of(prefix)
    try:
        if own is not None:
            lock = StartLock(own.starting)
            stack.callback(lock.leave)
            lock.wait()
            if own.current() != prefix.name:
                reason = f"{own.current()} is current"
                raise NodeStartError(f"run version {prefix.name}", reason, f"{own.launcher} run")
        if change is not None and change.exists():
            stack.callback(starting.hold_start(Installation(change)).leave)
    except StartError as error:
        raise NodeStartError("start this node", str(error)) from error
    except OSError as error:
        sys.stderr.write(f"edgecore: an upgrade may not see this start: {error}\n")
