"""The files of a node's state, with their names in a backup and their places on the node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from metamanager.store import sqlite_path
from modules.processes.common.backup.archive import LARGEST_FILE, Part, copy_database
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.backup.replacement import Replacement, replacing_database
from modules.processes.edgecore.config import EdgeCoreConfig

CONFIGURATION: Final = "config/edgecore.yaml"
DATABASE: Final = "database/edgecore.db"
OUTBOX: Final = "database/edgecore-outbox.db"
KEY: Final = "certs/server.key"
CERTIFICATES: Final = ("certs/rootCA.crt", "certs/server.crt", KEY)
_MANIFEST: Final = re.compile(r"manifests/([^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,200})")
_PUBLIC: Final = 0o644


class NodeFiles(NamedTuple):
    """The files of a node's state."""

    configuration: Path
    """The file, which need not exist."""
    database: Path
    outbox: Path
    certificates: tuple[Path, Path, Path]
    """CA, certificate, key."""
    manifests: Path | None
    """Directory of static pods."""

    @classmethod
    def of(cls, config: EdgeCoreConfig, configuration: Path) -> NodeFiles:
        """Return the files of a node with this configuration.

        Raises:
            BackupError: its database is no file.
        """
        database = sqlite_path(str(config.database_url))
        if database is None:
            hint = "back up its server with its own tools, such as pg_dump; the other files are small: copy them"
            raise BackupError("cannot back up a database that is no SQLite file", hint=hint)
        hub = config.modules.edge_hub
        manifests = config.modules.edged.tailored_kubelet_config.static_pod_path
        return cls(
            configuration,
            database,
            config.outbox_path,
            (hub.tls_ca_file, hub.tls_cert_file, hub.tls_private_key_file),
            Path(manifests) if manifests else None,
        )

    def parts(self, scratch: Path, *, with_keys: bool) -> list[Part]:
        """Return the parts of a backup; copies of the databases are made in `scratch`.

        Raises:
            BackupError: a database cannot be copied, or a file is too large.
            OSError: a file cannot be read.
        """
        found = [_read(CONFIGURATION, self.configuration)]
        for name, database in ((DATABASE, self.database), (OUTBOX, self.outbox)):
            if database.is_file():
                copy = scratch / Path(name).name
                copy_database(database, copy)
                found.append(Part(name, copy))
        wanted = [name for name in CERTIFICATES if with_keys or name != KEY]
        found += [
            _read(name, path) for name, path in zip(CERTIFICATES, self.certificates, strict=True) if name in wanted
        ]
        found += [_read(f"manifests/{path.name}", path) for path in self._static_pods()]
        return [part for part in found if part is not None]

    def replacements(self, names: frozenset[str], extracted: Path) -> list[Replacement]:
        """Return the replacements for a backup with these members. A database that the backup lacks stays as it is."""
        found = []
        for name, database in ((DATABASE, self.database), (OUTBOX, self.outbox)):
            if name in names:
                found += replacing_database(extracted / name, database)
        for name, path in zip(CERTIFICATES, self.certificates, strict=True):
            if name in names:
                found.append(Replacement(extracted / name, path, 0o600 if name == KEY else _PUBLIC))
        if self.manifests is not None:
            manifests = sorted(each for each in names if _MANIFEST.fullmatch(each))
            found += [
                Replacement(extracted / each, self.manifests / Path(each).name, _PUBLIC, hidden=True)
                for each in manifests
            ]
        if CONFIGURATION in names:
            found.append(Replacement(extracted / CONFIGURATION, self.configuration))
        return found

    def _static_pods(self) -> list[Path]:
        if self.manifests is None or not self.manifests.is_dir():
            return []
        return sorted(path for path in self.manifests.iterdir() if is_part(f"manifests/{path.name}") and path.is_file())


def check_certificates(extracted: Path, names: frozenset[str]) -> None:
    """Check that the CA, the certificate and the key in a backup can be read as such.

    Raises:
        BackupError: one is not.
    """
    from edgehub.certificates.certificate import Certificate, pem_blocks  # noqa: PLC0415 - for a restore only
    from edgehub.certificates.keys import is_key  # noqa: PLC0415 - loads cryptography

    for name in sorted(names & frozenset(CERTIFICATES)):
        content = (extracted / name).read_bytes()
        try:
            blocks = [] if name == KEY else pem_blocks(content)
            for block in blocks:
                Certificate.from_der(block)
            is_right = bool(blocks) if name != KEY else is_key(content)
        except ValueError:
            is_right = False
        if not is_right:
            what = "private key" if name == KEY else "certificate"
            raise BackupError("cannot restore the backup", name, f"it is no {what}; --force restores it nevertheless")


def is_part(name: str) -> bool:
    """Return whether a backup of a node may have a member of this name."""
    return name in (CONFIGURATION, DATABASE, OUTBOX, *CERTIFICATES) or _MANIFEST.fullmatch(name) is not None


def _read(name: str, path: Path) -> Part | None:
    """Return a file's content as a part; None without one."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        return None
    if len(content) > LARGEST_FILE:
        raise BackupError("cannot back up", str(path), f"it is larger than {LARGEST_FILE >> 20} MiB")
    return Part(name, content)
