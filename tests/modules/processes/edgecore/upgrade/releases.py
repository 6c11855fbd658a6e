"""Small releases: a wheel with a few lines that run the edgecore of this tree under a version of their own; the journal
of an upgrade.
"""

import sysconfig
import zipfile
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from modules.processes.edgecore.upgrade.bundle import BundleManifest
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import UpgradeJournal
from tests.end_to_end.processes import REPOSITORY
from tests.packaging.bundle import manifest_of, write_bundle

KEY: Final = Ed25519PrivateKey.generate()

_PAYLOAD: Final = """\
import sys
sys.path[:0] = {paths!r}
from modules.processes.common import version
version.VERSION = {version!r}

def main():
    if sys.argv[1:2] == ["run"]:
        fail()
    from modules.processes.edgecore.__main__ import main
    return main()

def fail():
    {failure}
"""

GOOD: Final = "pass"
DOES_NOT_START: Final = "sys.exit(4)"
DIES: Final = "import os, threading; timer = threading.Timer(2, os._exit, [1]); timer.daemon = True; timer.start()"
EATS_MEMORY: Final = "global eaten; eaten = b'x' * (700 << 20)"
NEVER_CONNECTS: Final = (
    "from modules.processes.edgecore.config import EdgeCoreConfig; "
    'EdgeCoreConfig.websocket_urls = property(lambda config: ("ws://127.0.0.1:1/e/n/events",))'
)


def make_wheel(directory: Path, version: str, failure: str = GOOD, **more: str) -> Path:
    """Make the wheel of a version, with further files."""
    paths = [str(REPOSITORY), sysconfig.get_paths()["purelib"]]
    about = f"edgecore-{version}.dist-info"
    files = {
        "edgecore_payload.py": _PAYLOAD.format(paths=paths, version=version, failure=failure),
        f"{about}/entry_points.txt": "[console_scripts]\nedgecore = edgecore_payload:main\n",
        **more,
    }
    wheel = directory / f"edgecore-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return wheel


def make_bundle(
    directory: Path, version: str, failure: str = GOOD, *, claimed: str = "", key: Ed25519PrivateKey = KEY
) -> Path:
    """Make the bundle of a version, whose manifest claims another one if that is given, signed with a key."""
    directory.mkdir(parents=True, exist_ok=True)
    wheel = make_wheel(directory, version, failure)
    target = directory / f"{version}.bundle"
    write_bundle(target, manifest_of([wheel], claimed or version, "0123456789abcdef"), [wheel], key)
    wheel.unlink()
    return target


def manifest_for(wheel: Path, version: str = "1.0.0") -> BundleManifest:
    """Return the manifest of one wheel."""
    return manifest_of([wheel], version, "")


def bundle_with(directory: Path, size: int, version: str = "1.2.3") -> bytes:
    """Return a bundle of a version with so many bytes in its wheel."""
    wheel = make_wheel(directory, version, **{"filler.txt": "x" * size})
    target = directory / "made.bundle"
    write_bundle(target, manifest_for(wheel, version), [wheel], KEY)
    return target.read_bytes()


def journal_of(installation: Installation) -> UpgradeJournal:
    """Return the journal of an upgrade, which there has to be."""
    journal = installation.journal()
    assert journal is not None
    return journal
