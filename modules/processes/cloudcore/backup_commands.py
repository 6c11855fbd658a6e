"""The commands `cloudcore backup` and `cloudcore restore`: database and certificate authority as one file."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from modules.processes.cloudcore.paths import CloudPaths, add_socket_options, paths_of
from modules.processes.common.backup.arguments import add_backup_arguments

_DATABASE: Final = "database/cloudcore.db"
_TLS: Final = {
    "tls/ca.crt": 0o644,
    "tls/ca.key": 0o600,
    "tls/server.crt": 0o644,
    "tls/server.key": 0o600,
}
"""Members from the directory of the certificate authority, with their modes."""


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add `backup` and `restore`."""
    backing = commands.add_parser("backup", help="write the cloud's state to a file, also while it runs")
    add_backup_arguments(backing, "the keys of the certificate authority and of the servers")
    _add_places(backing)
    backing.set_defaults(command=backup)
    restoring = commands.add_parser("restore", help="put the cloud's state back from a file")
    restoring.add_argument("file", type=Path, metavar="FILE", help="written by `cloudcore backup`")
    restoring.add_argument("--reason", metavar="TEXT", default="", help="shown by `cloudcore changes`")
    _add_places(restoring)
    restoring.set_defaults(command=restore)


def backup(chosen: argparse.Namespace) -> int:
    """Write the cloud's state to a file; return the exit status."""
    from modules.processes.common.reporting import reporting  # noqa: PLC0415 - only these commands need it

    return reporting("cloudcore")(_backup)(chosen)


def restore(chosen: argparse.Namespace) -> int:
    """Put the cloud's state back; return the exit status."""
    from modules.processes.common.reporting import reporting  # noqa: PLC0415 - likewise

    return reporting("cloudcore")(_restore)(chosen)


def _add_places(parser: argparse.ArgumentParser) -> None:
    add_socket_options(parser)
    parser.add_argument("--database", default="", metavar="FILE", help="the same as of `run`")
    parser.add_argument("--tls-dir", type=Path, metavar="DIR", help="the same as of `run`")


def _backup(chosen: argparse.Namespace) -> None:
    from modules.apimachinery.printing.terminal import print_error, print_lines  # noqa: PLC0415
    from modules.processes.common.backup.archive import Part, copy_database, write_archive  # noqa: PLC0415
    from modules.processes.common.backup.commands import files_of, head_of  # noqa: PLC0415
    from modules.processes.common.backup.errors import BackupError  # noqa: PLC0415
    from modules.processes.common.backup.scratch import scratch_for_a_backup  # noqa: PLC0415

    paths = paths_of(chosen)
    database = _database_file(paths)
    with scratch_for_a_backup(chosen.file) as scratch:
        if not database.is_file():
            raise BackupError("there is nothing to back up", str(database), "has a cloudcore run here? see --root")
        copy_database(database, copy := scratch / "cloudcore.db")
        parts = [Part(_DATABASE, copy)]
        for name in _TLS:
            file = paths.tls / Path(name).name
            if file.is_file() and not (chosen.exclude_keys and file.suffix == ".key"):
                parts.append(Part(name, file.read_bytes()))
        manifest = write_archive(chosen.file, head_of("cloudcore", ""), parts)
    print_lines([f"cloud in {paths.root}: {files_of(manifest)} in {chosen.file}", *sorted(manifest.names)])
    print_error("cloudcore", "the file holds the cloud's secrets and its authority's key: keep it as you keep that")


def _restore(chosen: argparse.Namespace) -> None:
    from beehive.clock import RealClock  # noqa: PLC0415
    from modules.apimachinery.printing.terminal import print_lines  # noqa: PLC0415
    from modules.processes.cloudcore.renewed_versions import renew_versions  # noqa: PLC0415
    from modules.processes.cloudcore.starting import running  # noqa: PLC0415
    from modules.processes.common.backup.archive import check_database, read_archive  # noqa: PLC0415
    from modules.processes.common.backup.commands import files_of  # noqa: PLC0415
    from modules.processes.common.backup.errors import BackupError  # noqa: PLC0415
    from modules.processes.common.backup.replacement import (  # noqa: PLC0415
        Replacement,
        check_places,
        replace_all,
        replacing_database,
        suffix_for,
    )
    from modules.processes.common.backup.scratch import scratch_beside  # noqa: PLC0415

    paths = paths_of(chosen)
    database = _database_file(paths)
    with ExitStack() as stack:
        extracted = stack.enter_context(scratch_beside(database))
        manifest = read_archive(chosen.file, extracted, "cloudcore", lambda name: name in (_DATABASE, *_TLS))
        check_database(extracted / _DATABASE)
        if owner := running(paths.socket):
            hint = f"process {owner}; stop it first"
            raise BackupError("a cloudcore is running there", str(paths.socket), hint)
        renew_versions(extracted / _DATABASE, RealClock().now())
        _record_restore(extracted / _DATABASE, f"backup of: {manifest.created}", chosen.reason)
        tls = [
            Replacement(extracted / name, paths.tls / Path(name).name, mode)
            for name, mode in _TLS.items()
            if name in manifest.names
        ]
        replacements = [*replacing_database(extracted / _DATABASE, database), *tls]
        check_places(replacements)
        kept = replace_all(replacements, suffix_for(replacements, RealClock().now()))
    print_lines([f"cloud in {paths.root}: {files_of(manifest)} of {manifest.created} are back"])
    print_lines(f"kept: {path}" for path in kept)


def _record_restore(database: Path, made: str, reason: str) -> None:
    """Note the restore in the change journal of the restored database."""
    from beehive.clock import RealClock  # noqa: PLC0415 - as above
    from beehive.turns import Turns  # noqa: PLC0415
    from modules.cloud.journal.database import JournalDatabase  # noqa: PLC0415
    from modules.cloud.journal.writes import WriteStore  # noqa: PLC0415
    from modules.cloud.object_writes import ADMINISTRATOR, RESTORED, access_entry  # noqa: PLC0415
    from modules.cloud.storage.database.errors import DatabaseError  # noqa: PLC0415
    from modules.processes.common.backup.errors import BackupError  # noqa: PLC0415

    entry = access_entry(
        RealClock(), ADMINISTRATOR, "cloudcore restore", RESTORED, "Database", "cloudcore", reason=reason, facts=(made,)
    )
    try:
        with closing(JournalDatabase(str(database), Turns())) as journal:
            WriteStore(journal).write_accesses([entry])
    except DatabaseError as error:
        raise BackupError("cannot restore the database", database.name, str(error)) from error


def _database_file(paths: CloudPaths) -> Path:
    from metamanager.store import sqlite_path  # noqa: PLC0415
    from modules.processes.common.backup.errors import BackupError  # noqa: PLC0415

    file = sqlite_path(paths.database)
    if file is None:
        hint = "use its server's own tools: pg_dump and pg_restore for PostgreSQL; --tls-dir is a directory to copy"
        raise BackupError("the database is no SQLite file", hint=hint)
    return file
