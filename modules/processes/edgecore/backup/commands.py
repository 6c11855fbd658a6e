"""The commands `edgecore backup` and `edgecore restore`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from time import gmtime, strftime
from typing import TYPE_CHECKING

from beehive import RealClock
from beehive.errors import BeehiveError
from beehive.files.advice import advice
from edged.errors import EdgedError
from modules.processes.edgecore.backup import node
from modules.processes.edgecore.backup.archive import (
    FORMAT,
    BackupManifest,
    check_database,
    read_archive,
    write_archive,
)
from modules.processes.edgecore.backup.errors import BackupError
from modules.processes.edgecore.backup.node import NodeFiles
from modules.processes.edgecore.backup.replacement import replace_all
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig, load
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.join import written
from modules.processes.edgecore.location import node_location
from modules.processes.edgecore.ownership import take_root_directory
from modules.processes.edgecore.version import VERSION
from modules.tools.printing.terminal import print_error, print_lines

if TYPE_CHECKING:
    import argparse

_Command = Callable[["argparse.Namespace"], None]


def reporting(program: str) -> Callable[[_Command], Callable[[argparse.Namespace], int]]:
    """Turn errors of a command into a line on standard error and an exit status."""

    def wrapped(function: _Command) -> Callable[[argparse.Namespace], int]:
        @wraps(function)
        def called(chosen: argparse.Namespace) -> int:
            try:
                function(chosen)
            except ConfigError as error:
                for problem in error.problems:
                    print_error(program, f"error: {problem.render(error.source)}")
                return ExitCode.CONFIGURATION
            except (BeehiveError, EdgedError) as error:
                print_error(program, f"error: {error}")
                return ExitCode.NOT_DONE
            except OSError as error:
                print_error(program, f"error: {error.filename or program}: {advice(error)}")
                return ExitCode.NOT_DONE
            return ExitCode.OK

        return called

    return wrapped


@reporting("edgecore")
def backup(chosen: argparse.Namespace) -> None:
    """Write the node's state to a file."""
    location = node_location(chosen)
    config = location.load().config
    files = NodeFiles.of(config, location.file or written(chosen.config, chosen.root)[0])
    with scratch_for_a_backup(chosen.file) as scratch:
        parts = files.parts(scratch, with_keys=not chosen.exclude_keys)
        if not parts:
            raise BackupError("there is nothing to back up", str(location), "has a node run or joined here?")
        manifest = write_archive(chosen.file, head_of("edgecore", config.node_name), parts)
    print_lines([f"node {config.node_name}: {files_of(manifest)} in {chosen.file}", *sorted(manifest.names)])
    print_error("edgecore", "the file holds the node's secrets: keep it as you keep its key")


@reporting("edgecore")
def restore(chosen: argparse.Namespace) -> None:
    """Put the node's state back."""
    location = node_location(chosen)
    file, root = location.file or written(chosen.config, chosen.root)[0], location.root
    present = load(file).config if os.path.lexists(file) else None
    with ExitStack() as stack:
        extracted = stack.enter_context(scratch_beside(file))
        manifest = read_archive(chosen.file, extracted, "edgecore", node.is_part)
        following = _following(manifest, extracted, present, root)
        if not chosen.force:
            _check_name(manifest, following, present)
        files = NodeFiles.of(following, file)
        if not chosen.force:
            _check_place(files, NodeFiles.of(present, file) if present else None, manifest, extracted, root)
        for name in manifest.names & {node.DATABASE, node.OUTBOX}:
            check_database(extracted / name)
        if node.DATABASE in manifest.names:
            node.forget_completeness(extracted / node.DATABASE)
        for directory in {each.modules.edged.root_directory for each in (following, present) if each}:
            take_root_directory(directory, stack)
        kept = replace_all(files.replacements(manifest.names, extracted), suffix())
    print_lines([f"node {manifest.node}: {files_of(manifest)} of {manifest.created} are back"])
    print_lines(f"kept: {path}" for path in kept)
    print_lines([f"next: edgecore run {' '.join(node_location(chosen).options)}"])


def scratch_for_a_backup(file: Path) -> AbstractContextManager[Path]:
    """Return a directory for this user alone beside a new file, whose own directory must exist: a mistyped path makes
    none.

    Raises:
        BackupError: there is no such directory.
    """
    if not file.parent.is_dir():
        raise BackupError("cannot write the backup", str(file), f"there is no directory {file.parent}")
    return scratch_beside(file)


@contextmanager
def scratch_beside(file: Path) -> Iterator[Path]:
    """Yield a directory for this user alone, beside a file."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=file.parent) as directory:
        yield Path(directory)


def head_of(program: str, name: str) -> BackupManifest:
    """Return a manifest without members."""
    return BackupManifest(FORMAT, program, VERSION, name, strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(RealClock().now())))


def files_of(manifest: BackupManifest) -> str:
    """Return how many files a backup has, in words."""
    return f"{len(manifest.parts)} file{'' if len(manifest.parts) == 1 else 's'}"


def suffix() -> str:
    """Return the suffix for the names of files that a restore replaces."""
    now = RealClock().now()
    return f"{strftime('.before-restore-%Y%m%dT%H%M%S', gmtime(now))}.{int(now % 1 * 1000):03}Z"


def _following(
    manifest: BackupManifest, extracted: Path, present: EdgeCoreConfig | None, root: Path | None
) -> EdgeCoreConfig:
    """Return the configuration that the node has afterwards."""
    if node.CONFIGURATION in manifest.names:
        return load(extracted / node.CONFIGURATION).config
    if present is not None:
        return present
    if root is None:
        hint = "the backup has no configuration, so it is of a node on the embedded runtime: give --root DIR"
        raise BackupError("cannot tell where the node's files belong", hint=hint)
    return EdgeCoreConfig.embedded(root)


def _check_name(manifest: BackupManifest, following: EdgeCoreConfig, present: EdgeCoreConfig | None) -> None:
    for config in (following, present):
        if config is not None and config.node_name != manifest.node:
            hint = f"here is {config.node_name}; --force restores it nevertheless"
            raise BackupError("the backup is of another node", manifest.node, hint)


def _check_place(
    files: NodeFiles, present: NodeFiles | None, manifest: BackupManifest, extracted: Path, root: Path | None
) -> None:
    """Refuse to replace files that are not this node's: the configuration in a backup can name any."""
    own = present or (NodeFiles.of(EdgeCoreConfig.embedded(root), files.configuration) if root else None)
    known = {each.target for each in own.replacements(manifest.names, extracted)} if own else set()
    for each in files.replacements(manifest.names, extracted):
        if os.path.lexists(each.target) and each.target not in known:
            hint = "it is not this node's now; --force replaces it, and keeps the old one beside it"
            raise BackupError("the backup would replace a file", str(each.target), hint)
