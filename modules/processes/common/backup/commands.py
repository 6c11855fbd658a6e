"""The common parts of `backup` and `restore`, edgecore's and cloudcore's."""

from time import gmtime, strftime

from beehive import RealClock
from modules.processes.common.backup.archive import FORMAT, BackupManifest
from modules.processes.common.version import VERSION


def head_of(program: str, name: str) -> BackupManifest:
    """Return a manifest without members."""
    return BackupManifest(FORMAT, program, VERSION, name, strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(RealClock().now())))


def files_of(manifest: BackupManifest) -> str:
    """Return how many files a backup has, in words."""
    return f"{len(manifest.parts)} file{'' if len(manifest.parts) == 1 else 's'}"
