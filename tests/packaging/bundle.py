"""`make bundle KEY=FILE`: the wheels in dist/ and all that they need as one signed file, for `edgecore upgrade`.

FILE has an Ed25519 private key (PEM), which is made if there is none; the public key for the nodes' configuration is
printed. The wheels of dependencies are those of this Python and this architecture, held to the hashes of
`constraints.txt`.
"""

import base64
import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import tempfile
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
from modules.processes.edgecore.upgrade.bundle import CONTEXT, FORMAT, MANIFEST, SIGNATURE, BundleManifest

_SECONDS: Final = 900.0
_PROGRAM: Final = "edgecore"


def manifest_of(wheels: Sequence[Path], version: str, commit: str, schema: int = NEWEST) -> BundleManifest:
    """Return the manifest of wheels for this Python and this architecture."""
    parts = tuple(
        PartEntry(each.name, each.stat().st_size, hashlib.sha256(each.read_bytes()).hexdigest()) for each in wheels
    )
    unpacked = sum(member.file_size for each in wheels for member in zipfile.ZipFile(each).infolist())
    python = "{}.{}".format(*sys.version_info[:2])
    return BundleManifest(
        FORMAT, version, commit, (platform.machine(),), (python,), schema, unpacked=max(1, unpacked), parts=parts
    )


def write_bundle(target: Path, manifest: BundleManifest, wheels: Sequence[Path], key: Ed25519PrivateKey) -> None:
    """Write a bundle."""
    text = msgspec.json.encode(manifest)
    with tarfile.open(target, "w") as tar:
        for name, content in ((MANIFEST, text), (SIGNATURE, key.sign(CONTEXT + text))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for wheel in wheels:
            member = tarfile.TarInfo(wheel.name)
            member.size = wheel.stat().st_size
            with wheel.open("rb") as content_of_it:
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


def main() -> int:
    """Make the bundle of the wheels in a directory, signed with the key in a file."""
    directory, file = Path(sys.argv[1]), Path(sys.argv[2])
    own = sorted(directory.glob(f"{_PROGRAM}*.whl"))
    version = next(each.name.split("-")[1] for each in own if each.name.startswith(f"{_PROGRAM}-"))
    with tempfile.TemporaryDirectory(prefix="edgecore-bundle-") as scratch:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
        ]
        options = ["--only-binary", ":all:", "--dest", scratch, "--requirement", str(directory / "constraints.txt")]
        subprocess.run([*command, *options], check=True, timeout=_SECONDS)
        wheels = [*own, *sorted(Path(scratch).glob("*.whl"))]
        commit = version.partition("+g")[2].removesuffix(".dirty")
        key = _key_in(file)
        python = "{}{}".format(*sys.version_info[:2])
        target = directory / f"{_PROGRAM}-{version}-cp{python}-{platform.machine()}.bundle"
        write_bundle(target, manifest_of(wheels, version, commit), wheels, key)
    sys.stdout.write(f"{target}\nupgrade.trustedKeys: [{public_key(key)}]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
