"""The attacks on updates that The Update Framework names (its specification, §1.5.2), against a node and its bundles.

Not withstood: a key that is stolen, until each node's owner takes it out of `upgrade.trustedKeys`; there is one
signature, and no threshold. A cloud that offers nothing (an indefinite freeze) is seen by people alone: nodes run on.
"""

from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from modules.processes.edgecore.upgrade.bundle import read_bundle, read_manifest
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.preconditions import UpgradeHost, refusal_of
from modules.processes.edgecore.upgrade.sources import PIECE, Download, NoPieceError, Piece
from tests.modules.processes.edgecore.upgrade.releases import KEY, make_wheel, manifest_for
from tests.packaging.bundle import public_key, write_bundle

KEYS = (public_key(KEY),)
NAME = "edgecore-1.2.3-cp311-x86_64.bundle"


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Where wheels go."""
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


def bundle(directory: Path, version: str = "1.2.3", key: Ed25519PrivateKey = KEY, **changes: object) -> Path:
    """A bundle whose manifest has these changes before it is signed."""
    wheel = make_wheel(directory, version)
    target = directory / f"{version}.bundle"
    write_bundle(target, msgspec.structs.replace(manifest_for(wheel, version), **changes), [wheel], key)
    return target


def test_arbitrary_software(tmp_path: Path, into: Path) -> None:
    """Of another signer, or changed after the signature."""
    with pytest.raises(UpgradeError, match="trustedKeys"):
        read_bundle(bundle(tmp_path, key=Ed25519PrivateKey.generate()), KEYS, into)
    genuine = bundle(tmp_path)
    genuine.write_bytes(genuine.read_bytes().replace(b"edgecore_payload:main", b"edgecore_payload:evil"))
    with pytest.raises(UpgradeError, match="damaged"):
        read_bundle(genuine, KEYS, into)


def test_mixed_and_matched_and_extraneous_parts(tmp_path: Path, into: Path) -> None:
    """Each wheel is of the release that was signed, none is missing, and none is added."""
    wheels = [make_wheel(tmp_path, version) for version in ("1.2.3", "1.2.4")]
    for number, found in enumerate(([wheels[1]], [], wheels)):
        target = tmp_path / f"{number}.bundle"
        write_bundle(target, manifest_for(wheels[0], "1.2.3"), found, KEY)
        directory = into / str(number)
        directory.mkdir()
        with pytest.raises(UpgradeError, match="damaged"):
            read_bundle(target, KEYS, directory)


@pytest.mark.parametrize(("current", "now"), [("1.2.4", 0.0), ("1.0.0", 2000.0)], ids=["rollback", "freeze"])
def test_an_old_release(tmp_path: Path, current: str, now: float) -> None:
    """Older than what runs; or newer, but with faults that are known since, and expired."""
    manifest = read_manifest(bundle(tmp_path, expires=1000), KEYS)
    host = UpgradeHost(manifest.machines[0], manifest.pythons[0], None, current, now)
    assert refusal_of(manifest, host, allow_downgrade=False)


def test_wrong_software(tmp_path: Path) -> None:
    """A genuine release under the name of another one."""
    content = bundle(tmp_path, "1.2.0").read_bytes()
    download = Download(lambda _name, first: Piece(content[first:], len(content), "1-1"), KEYS, tmp_path)
    with pytest.raises(UpgradeError, match=r"1\.2\.0 under this name"):
        download.fetch(NAME)


def test_endless_data(tmp_path: Path) -> None:
    content, asked = bundle(tmp_path).read_bytes(), list[int]()

    def ask(_name: str, first: int) -> Piece:
        asked.append(first)
        return Piece((content + bytes(2 * PIECE))[first : first + PIECE], 1 << 31, "1-1")

    with pytest.raises(UpgradeError, match="larger than what is signed"):
        Download(ask, KEYS, tmp_path).fetch(NAME)
    assert len(asked) == 2


def test_slow_retrieval_and_a_mirror_that_prevents_updates(tmp_path: Path) -> None:
    """A download that does not go on is given up; the node runs on, and its owner can bring the file."""
    now = [0.0]

    def ask(_name: str, _first: int) -> Piece:
        raise NoPieceError("not in time", 5.0)

    def wait(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(UpgradeError, match="not in time"):
        Download(ask, KEYS, tmp_path, wait, lambda: now[0]).fetch(NAME)
    assert now[0] < 3600.0
    assert read_manifest(bundle(tmp_path), KEYS).version == "1.2.3"


def test_a_key_that_is_trusted_no_more(tmp_path: Path) -> None:
    """Keys are in the configuration of the node alone; the cloud can add none."""
    other = Ed25519PrivateKey.generate()
    stolen, fresh = bundle(tmp_path, "1.2.3"), bundle(tmp_path, "1.2.4", other)
    with pytest.raises(UpgradeError, match="trustedKeys"):
        read_manifest(stolen, (public_key(other),))
    assert read_manifest(fresh, (public_key(other),)).version == "1.2.4"
