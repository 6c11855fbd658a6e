"""`make bundle KEY=FILE`: the wheels in dist/ and all that they need, with the list of them, as one signed file for
`edgecore upgrade`.

FILE has an Ed25519 private key (PEM), which is made if there is none; the public key for the nodes' configuration is
printed. The wheels of dependencies are those of this Python and this architecture, held to the hashes of
`constraints.txt`.
"""

import base64
import calendar
import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from metamanager.sqlite_migrations import NEWEST
from modules.processes.common.backup.archive import PartEntry
from modules.processes.edgecore.upgrade.bundle import CONTEXT, FORMAT, MANIFEST, SBOM, SIGNATURE, BundleManifest
from tests.packaging.sbom import sbom_of

_SECONDS: Final = 900.0
_GOOD_SECONDS: Final = 366 * 24 * 3600
"""Until the signature expires."""
_PROGRAM: Final = "edgecore"
_OWN: Final = ("edgecore-", "edgecore_lab-")
_DIFFERENCES: Final = ("frame patch podpatch to the cloud", "put podpatch in the store")
"""What a node of this release means to decide otherwise than one of the release before: the end of a pod is one status.
A new release begins with none."""


def manifest_of(files: Sequence[Path], version: str, commit: str, schema: int = NEWEST) -> BundleManifest:
    """Return the manifest of wheels, and of their list, for this Python and this architecture."""
    parts = tuple(
        PartEntry(each.name, each.stat().st_size, hashlib.sha256(each.read_bytes()).hexdigest()) for each in files
    )
    wheels = [each for each in files if each.suffix == ".whl"]
    unpacked = sum(member.file_size for each in wheels for member in zipfile.ZipFile(each).infolist())
    python = "{}.{}".format(*sys.version_info[:2])
    return BundleManifest(
        FORMAT, version, commit, (platform.machine(),), (python,), schema, unpacked=max(1, unpacked), parts=parts
    )


def write_bundle(target: Path, manifest: BundleManifest, files: Sequence[Path], key: Ed25519PrivateKey) -> None:
    """Write a bundle."""
    text = msgspec.json.encode(manifest)
    with tarfile.open(target, "w") as tar:
        for name, content in ((MANIFEST, text), (SIGNATURE, key.sign(CONTEXT + text))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for file in files:
            member = tarfile.TarInfo(file.name)
            member.size = file.stat().st_size
            with file.open("rb") as content_of_it:
                tar.addfile(member, content_of_it)


def public_key(key: Ed25519PrivateKey) -> str:
    """Return the key for `upgrade.trustedKeys`."""
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def _key_in(file: Path) -> Ed25519PrivateKey:
    if not file.exists():
        made = Ed25519PrivateKey.generate()
        file.touch(mode=0o600)
        file.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key = load_pem_private_key(file.read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise SystemExit(f"bundle: {file} has no Ed25519 key")
    return key


def released(directory: Path) -> tuple[list[Path], str]:
    """Return edgecore's own wheels of a release, and its version; the wheels that edgecore contains are none."""
    own = sorted(wheel for wheel in directory.glob("*.whl") if wheel.name.startswith(_OWN))
    return own, next(each.name.split("-")[1] for each in own if each.name.startswith(f"{_PROGRAM}-"))


def parts_of(directory: Path, scratch: Path) -> list[Path]:
    """Return the wheels of a release and of all that it needs, and the list of them, which is made beside the release.

    Args:
        directory: of the release.
        scratch: for the wheels that are downloaded.

    Raises:
        subprocess.SubprocessError: pip does not get them; its output is on standard error.
    """
    own, version = released(directory)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    options = ["--only-binary", ":all:", "--dest", str(scratch), "--requirement", str(directory / "constraints.txt")]
    subprocess.run([*command, *options], check=True, timeout=_SECONDS)
    wheels = [*own, *sorted(scratch.glob("*.whl"))]
    listed = directory / SBOM
    listed.write_bytes(sbom_of(wheels, version, released_at(own)))
    return [*wheels, listed]


def released_at(wheels: Sequence[Path]) -> int:
    """Return the time of a release in seconds since the epoch: that of its commit, which files in its wheels have."""
    times = [member.date_time for wheel in wheels for member in zipfile.ZipFile(wheel).infolist()]
    return calendar.timegm((*max(times), 0, 0, 0))


def main() -> int:
    """Make the bundle of the wheels in a directory, signed with the key in a file."""
    directory, file = Path(sys.argv[1]), Path(sys.argv[2])
    _, version = released(directory)
    with tempfile.TemporaryDirectory(prefix="edgecore-bundle-") as scratch:
        files = parts_of(directory, Path(scratch))
        commit = version.partition("+g")[2].removesuffix(".dirty")
        key = _key_in(file)
        python = "{}{}".format(*sys.version_info[:2])
        target = directory / f"{_PROGRAM}-{version}-cp{python}-{platform.machine()}.bundle"
        made = manifest_of(files, version, commit)
        manifest = msgspec.structs.replace(made, differences=_DIFFERENCES, expires=int(time.time()) + _GOOD_SECONDS)
        write_bundle(target, manifest, files, key)
    sys.stdout.write(f"{target}\nupgrade.trustedKeys: [{public_key(key)}]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
