"""The commands `edgecore backup` and `edgecore restore`."""

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from beehive import RealClock
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.common.backup.archive import (
    BackupManifest,
    check_database,
    read_archive,
    write_archive,
)
from modules.processes.common.backup.commands import files_of, head_of
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.backup.replacement import check_places, replace_all, suffix_for
from modules.processes.common.backup.scratch import scratch_beside, scratch_for_a_backup
from modules.processes.common.confirming import is_confirmed
from modules.processes.edgecore.backup import node
from modules.processes.edgecore.backup.node import NodeFiles
from modules.processes.edgecore.config import EdgeCoreConfig, load
from modules.processes.edgecore.database_copies import forget_completeness
from modules.processes.edgecore.join import written
from modules.processes.edgecore.location import node_location
from modules.processes.edgecore.ownership import LOCK_FILE, lock_root_directory
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.upgrade.exclusion import changes_of, held

_KUBEEDGE: Final = (Path("/etc/kubeedge"), Path("/var/lib/kubeedge"), Path("/var/lib/kubelet"))
"""KubeEdge's directories of configuration, certificates, static pods, database and pods."""
_SHOWN: Final = 5


@reporting_errors
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


@reporting_errors
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
        replacements = files.replacements(manifest.names, extracted)
        targets = [*(each.target for each in replacements), following.modules.edged.root_directory / LOCK_FILE]
        places = (*((root,) if root is not None else ()), *_KUBEEDGE)
        strange = _strange_places(targets, _own_files(present, file, root), places)
        print_lines(f"outside of the node's directories: {each}" for each in strange)
        if not chosen.force:
            _confirm(strange)
            node.check_certificates(extracted, manifest.names)
        check_places(replacements)
        for name in manifest.names & {node.DATABASE, node.OUTBOX}:
            check_database(extracted / name)
        if node.DATABASE in manifest.names:
            forget_completeness(extracted / node.DATABASE)
        stack.enter_context(held(changes_of(location, present or following)))
        for directory in {each.modules.edged.root_directory for each in (following, present) if each}:
            lock_root_directory(directory, stack)
        kept = replace_all(replacements, suffix_for(replacements, RealClock().now()))
    print_lines([f"node {manifest.node}: {files_of(manifest)} of {manifest.created} are back"])
    print_lines(f"kept: {path}" for path in kept)
    print_lines([f"next: edgecore run {' '.join(node_location(chosen).options)}"])


def _following(
    manifest: BackupManifest, extracted: Path, present: EdgeCoreConfig | None, root: Path | None
) -> EdgeCoreConfig:
    """Return the configuration that the node has afterwards."""
    if node.CONFIGURATION in manifest.names:
        return load(extracted / node.CONFIGURATION).config
    if present is not None:
        return present
    if root is None:
        hint = "the backup has no configuration, so it is of a node on the process runtime: give --root DIR"
        raise BackupError("cannot tell where the node's files belong", hint=hint)
    return EdgeCoreConfig.below(root)


def _check_name(manifest: BackupManifest, following: EdgeCoreConfig, present: EdgeCoreConfig | None) -> None:
    for config in (following, present):
        if config is not None and config.node_name != manifest.node:
            hint = f"here is {config.node_name}; --force restores it nevertheless"
            raise BackupError("the backup is of another node", manifest.node, hint)


def _own_files(present: EdgeCoreConfig | None, file: Path, root: Path | None) -> set[Path]:
    """Return the files of the node that is here, or would be without a configuration."""
    config = present or (EdgeCoreConfig.below(root) if root else None)
    if config is None:
        return set()
    own = NodeFiles.of(config, file)
    names = frozenset({node.CONFIGURATION, node.DATABASE, node.OUTBOX, *node.CERTIFICATES})
    directory = {own.manifests / path.name for path in own.manifests.glob("*")} if own.manifests else set()
    lock = config.modules.edged.root_directory / LOCK_FILE
    return {each.target for each in own.replacements(names, Path())} | directory | {lock}


def _strange_places(targets: Iterable[Path], own: Collection[Path], directories: Sequence[Path]) -> list[Path]:
    """Return the places that are the node's only by the backup's word: its configuration can name any.

    A new file belongs to the node in its own directories, also when links are followed; a present one only if it is a
    file of the node that is here.
    """
    roots = [Path(os.path.realpath(each)) for each in directories]

    def is_own(target: Path) -> bool:
        inside = any(Path(os.path.realpath(target.parent)).is_relative_to(each) for each in roots)
        return target in own or (inside and not os.path.lexists(target))

    return sorted({each for each in targets if not is_own(each)})


def _confirm(strange: Sequence[Path]) -> None:
    """Ask the person at the terminal whether files may be in strange places.

    Raises:
        BackupError: they may not, or nobody can be asked.
    """
    if not strange:
        return
    question = "the backup puts these files there, and keeps those that are there beside them. Go on?"
    if sys.stdin.isatty() and is_confirmed(question):
        return
    hint = "--force puts the backup's files there, and keeps the old ones beside them"
    more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
    where = ", ".join(map(str, strange[:_SHOWN])) + more
    raise BackupError("the backup would write or replace files that are not this node's", where, hint)
