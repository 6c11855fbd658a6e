"""`edgecore reset --runtime`: ends and removes everything that runtimes inside edgecore have ever made."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from beehive import RealClock
from edged.errors import EdgedError
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.common.confirming import is_confirmed
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.container_runtime import purge_kind
from modules.processes.edgecore.location import node_location
from modules.processes.edgecore.ownership import lock_root_directory
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.rootless import enter_namespaces
from modules.processes.edgecore.runtime_choice import forget_runtime
from modules.processes.edgecore.runtime_kinds import (
    RuntimeKind,
    configured_kind,
    has_records,
    kinds_with_records,
    of_kind,
    other_kinds,
)
from modules.processes.edgecore.uninstall.lost import described, signal_lost

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from beehive import Clock
    from modules.processes.edgecore.config import EdgeCoreConfig

_ALL: Final = "all"


def reset(chosen: argparse.Namespace) -> int:
    """Remove the chosen parts; return the exit status."""
    if chosen.runtime:
        return reset_runtime(chosen)
    hint = "add --runtime to remove what the runtime inside edgecore has made; `edgecore uninstall` removes the node"
    print_error("edgecore", f"error: reset needs to know what: {hint}")
    return ExitCode.USAGE


@reporting_errors
def reset_runtime(chosen: argparse.Namespace) -> None:
    """Remove containers, sandboxes, images, mounts and namespaces of the chosen kinds; edgecore must not run."""
    location = node_location(chosen)
    config = location.load().config
    directories = {kind: of_kind(config, kind).container_runtime_root for kind in _kinds(chosen.kind, config)}
    found = {kind: directory for kind, directory in directories.items() if has_records(directory)}
    if not found and (lost := signal_lost(config)):
        if not chosen.yes:
            _ask(described(lost))
        print_lines([f"ended the {described(signal_lost(config, signal.SIGKILL))}"])
    elif not found:
        print_error("edgecore", f"nothing is there: {_listed(list(directories.values()))}")
    else:
        if RuntimeKind.OCI in found:
            enter_namespaces(of_kind(config, RuntimeKind.OCI))
        with ExitStack() as stack:
            lock_root_directory(config.modules.edged.root_directory, stack)
            if not chosen.yes:
                _ask(_listed(list(found.values())))
            clock = RealClock()
            stack.callback(clock.close)
            _purge(config, found, clock)
    if location.file is None and location.root is not None and not kinds_with_records(config):
        forget_runtime(location.root)
    for left in other_kinds(config):
        print_error("edgecore", f"{left}: {left.remedy(' '.join(location.options))}")


def _kinds(wanted: str, config: EdgeCoreConfig) -> list[RuntimeKind]:
    """Return the chosen kinds; without a choice the configured one."""
    if wanted:
        return list(RuntimeKind) if wanted == _ALL else [RuntimeKind(wanted)]
    kind = configured_kind(config)
    if kind is None:
        hint = f"its own tools remove what it has; --kind {'|'.join(RuntimeKind)} removes what an earlier one has left"
        raise EdgedError("reset the runtime", "it is not inside edgecore", hint)
    return [kind]


def _purge(config: EdgeCoreConfig, found: dict[RuntimeKind, Path], clock: Clock) -> None:
    """Remove the kinds one after the other. Raises EdgedError, the first, after all others were tried."""
    first: AttemptError | None = None
    for kind, directory in found.items():
        try:
            purge_kind(config, kind, clock)
        except AttemptError as error:
            first = first or error
        else:
            print_lines([f"removed what the runtime has made in {directory}"])
    if first is not None:
        raise first


def _listed(directories: Sequence[Path]) -> str:
    return ", ".join(map(str, directories))


def _ask(what: str) -> None:
    if not sys.stdin.isatty():
        raise EdgedError("reset the runtime", what, "--yes confirms it")
    if not is_confirmed(f"end all pods and remove {what}?"):
        raise EdgedError("reset the runtime", what, "nothing was changed")
