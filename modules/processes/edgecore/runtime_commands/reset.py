"""`edgecore reset --runtime`: ends and removes everything that the runtime inside edgecore has ever made."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from beehive import RealClock
from edged.embedded.errors import EmbeddedRuntimeError
from edged.errors import EdgedError
from modules.processes.edgecore.backup.commands import reporting
from modules.processes.edgecore.embedded_runtime import purge_embedded_runtime
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.location import node_location
from modules.processes.edgecore.ownership import take_root_directory
from modules.tools.printing.terminal import print_error, print_lines

if TYPE_CHECKING:
    import argparse


def reset(chosen: argparse.Namespace) -> int:
    """Remove the chosen parts; return the exit status."""
    if chosen.runtime:
        return reset_runtime(chosen)
    hint = "add --runtime to remove what the runtime inside edgecore has made; `edgecore uninstall` removes the node"
    print_error("edgecore", f"error: reset needs to know what: {hint}")
    return ExitCode.USAGE


@reporting("edgecore")
def reset_runtime(chosen: argparse.Namespace) -> None:
    """Remove containers, sandboxes, images, mounts and namespaces; edgecore must not run."""
    config = node_location(chosen).load().config
    root = config.embedded_runtime_root
    if not config.uses_embedded_runtime:
        raise EdgedError("reset the runtime", "it is not inside edgecore", "its own tools remove what it has")
    if not root.exists():
        print_error("edgecore", f"nothing is there: {root}")
        return
    with ExitStack() as stack:
        take_root_directory(config.modules.edged.root_directory, stack)
        if not chosen.yes:
            _ask(str(root))
        clock = RealClock()
        stack.callback(clock.close)
        try:
            purge_embedded_runtime(config, clock)
        except EmbeddedRuntimeError as error:
            raise EdgedError(error.attempt, error.reason, error.hint) from error
    print_lines([f"removed the containers, sandboxes and images of {root}"])


def _ask(what: str) -> None:
    if not sys.stdin.isatty():
        raise EdgedError("reset the runtime", what, "--yes says that it is meant")
    sys.stderr.write(f"edgecore: end all pods and remove {what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise EdgedError("reset the runtime", what, "nothing was changed")
