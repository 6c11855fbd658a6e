"""Bundles: good ones, and those of an attacker."""

import base64
import io
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beehive.decoding import decode_json
from beehive.files import durable
from modules.processes.common.backup.archive import PartEntry
from modules.processes.common.backup.errors import BackupError
from modules.processes.edgecore.upgrade import staging
from modules.processes.edgecore.upgrade.bundle import (
    CONTEXT,
    MANIFEST,
    SBOM,
    SIGNATURE,
    BundleManifest,
    read_bundle,
    read_manifest,
)
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.staging import stage
from modules.processes.edgecore.upgrade.updater.installation import Installation
from tests.modules.processes.edgecore.upgrade.releases import KEY, make_bundle, make_wheel, manifest_for
from tests.packaging.bundle import manifest_of, public_key, released, write_bundle

KEYS = [public_key(KEY)]


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Return an empty directory."""
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


def test_a_bundle_is_read(tmp_path: Path, into: Path) -> None:
    other = public_key(Ed25519PrivateKey.generate())
    manifest, text = read_bundle(make_bundle(tmp_path, "1.2.3"), ["no key", "bm8=", other, *KEYS], into)
    assert (manifest.version, [path.name for path in into.iterdir()]) == ("1.2.3", ["edgecore-1.2.3-py3-none-any.whl"])
    assert decode_json(text, BundleManifest) == manifest


@pytest.mark.parametrize(
    "keys", [[], [public_key(Ed25519PrivateKey.generate())], [base64.b64encode(bytes(32)).decode()]]
)
def test_a_bundle_of_another_signer(keys: list[str], tmp_path: Path, into: Path) -> None:
    with pytest.raises(UpgradeError, match=r"trustedKeys|trusted here"):
        read_bundle(make_bundle(tmp_path, "1.2.3"), keys, into)
    assert not list(into.iterdir())


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8])
def test_a_truncated_bundle(share: float, tmp_path: Path, into: Path) -> None:
    bundle = make_bundle(tmp_path, "1.2.3")
    with tarfile.open(bundle) as tar:
        last = tar.getmembers()[-1]
    os.truncate(bundle, int((last.offset_data + last.size) * share))
    with pytest.raises(UpgradeError, match="truncated or damaged"):
        read_bundle(bundle, KEYS, into)


def test_a_bundle_with_any_byte_changed(tmp_path: Path, into: Path) -> None:
    """Of the manifest, the signature and the wheel; the padding between them says nothing."""
    bundle = make_bundle(tmp_path, "1.2.3")
    with tarfile.open(bundle) as tar:
        places = [member.offset_data + at for member in tar for at in (0, member.size // 2, member.size - 1)]
    content = bundle.read_bytes()
    for place in places:
        bundle.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(UpgradeError):
            read_bundle(bundle, KEYS, into)
        for path in into.iterdir():
            path.unlink()


def write_tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """Write a tar with these members."""
    with tarfile.open(path, "w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def signed(manifest: dict[str, Any]) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return the first two members."""
    text = msgspec.json.encode(manifest)
    return [(tarfile.TarInfo(MANIFEST), text), (tarfile.TarInfo(SIGNATURE), KEY.sign(CONTEXT + text))]


def fields(**changes: object) -> dict[str, Any]:
    """Return the fields of a manifest with one part."""
    part = {"name": "a.whl", "size": 1, "sha256": "0" * 64}
    found: dict[str, Any] = {
        "format": 1, "version": "1.0.0", "commit": "", "machines": [], "pythons": [], "schema": 3, "unpacked": 1,
        "parts": [part],
    }  # fmt: skip
    return {**found, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"version": "../../etc"},
        {"version": "1.0.0\n"},
        {"version": "1.0.0/.."},
        {"unpacked": 1 << 40},
        {"unpacked": 0},
        {"parts": [{"name": "../a.whl", "size": 1, "sha256": ""}]},
        {"parts": [{"name": "/etc/a.whl", "size": 1, "sha256": ""}]},
        {"parts": [{"name": ".a.whl", "size": 1, "sha256": ""}]},
        {"parts": [{"name": "sbom.json", "size": 1, "sha256": ""}]},
        {"parts": [{"name": "a.whl", "size": -1, "sha256": ""}]},
        {"parts": [{"name": "a.whl", "size": 1 << 40, "sha256": ""}]},
        {"parts": [{"name": f"a{n}.whl", "size": 1 << 30, "sha256": ""} for n in range(3)]},
        {"parts": [{"name": "a.whl", "size": 1, "sha256": ""}] * 2},
        {"parts": [{"name": f"a{n}.whl", "size": 1, "sha256": ""} for n in range(600)]},
        {"schema": "3"},
    ],
)
def test_a_signed_manifest_that_no_release_has(changes: dict[str, Any], tmp_path: Path, into: Path) -> None:
    bundle = write_tar(tmp_path / "b", *signed(fields(**changes)), (tarfile.TarInfo("a.whl"), b"x"))
    with pytest.raises(UpgradeError):
        read_bundle(bundle, KEYS, into)
    assert not list(into.iterdir())
    with pytest.raises(UpgradeError):
        read_manifest(bundle, KEYS)


def link_named(name: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member that is no file."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member, b""


@pytest.mark.parametrize(
    "member",
    [
        link_named("a.whl", tarfile.SYMTYPE),
        link_named("a.whl", tarfile.LNKTYPE),
        link_named("a.whl", tarfile.FIFOTYPE),
        link_named("a.whl", tarfile.DIRTYPE),
        (tarfile.TarInfo("../a.whl"), b"x"),
        (tarfile.TarInfo("b.whl"), b"x"),
        (tarfile.TarInfo("a.whl"), b"xx"),
        (tarfile.TarInfo("a.whl"), b"y"),
    ],
)
def test_a_member_that_the_manifest_does_not_name(
    member: tuple[tarfile.TarInfo, bytes], tmp_path: Path, into: Path
) -> None:
    with pytest.raises(UpgradeError, match="truncated or damaged"):
        read_bundle(write_tar(tmp_path / "b", *signed(fields()), member), KEYS, into)
    assert not [path for path in into.iterdir() if path.is_symlink()]


def test_nothing_is_parsed_before_the_signature(tmp_path: Path, into: Path) -> None:
    text = b'{"format": 1'
    members = [(tarfile.TarInfo(MANIFEST), text), (tarfile.TarInfo(SIGNATURE), bytes(64))]
    with pytest.raises(UpgradeError, match="signed by none"):
        read_bundle(write_tar(tmp_path / "b", *members), KEYS, into)


def test_a_signature_is_good_for_a_bundle_only(tmp_path: Path, into: Path) -> None:
    """Not one that the key has made of the same bytes for another purpose."""
    text = msgspec.json.encode(fields())
    members = [(tarfile.TarInfo(MANIFEST), text), (tarfile.TarInfo(SIGNATURE), KEY.sign(text))]
    with pytest.raises(UpgradeError, match="signed by none"):
        read_bundle(write_tar(tmp_path / "b", *members), KEYS, into)


def test_a_bundle_larger_than_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, into: Path) -> None:
    bundle = make_bundle(tmp_path, "1.2.3")
    found = read_manifest(bundle, KEYS)
    wanted = (16 << 20) + found.unpacked + sum(part.size for part in found.parts)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=wanted - 1))
    with pytest.raises(BackupError, match="no room for the files"):
        read_bundle(bundle, KEYS, into)
    assert not list(into.iterdir())
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=wanted))
    assert read_bundle(bundle, KEYS, into)[0] == found


def staged(tmp_path: Path, *wheels: Path, unpacked: int = 1 << 20) -> Path:
    """Make the directory of version 1.0.0 of wheels."""
    installation = Installation(tmp_path / "i")
    installation.versions.mkdir(parents=True, exist_ok=True)
    return stage(wheels, b"{}", "1.0.0", installation, unpacked)


def test_a_version_is_an_environment_with_its_programs(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path, "1.0.0", **{"edgecore-1.0.0.data/scripts/x": "no", "edgecore-1.0.0.data/purelib/y.py": ""}
    )
    place = staged(tmp_path, wheel)
    library = next(place.glob("lib/*/site-packages"))
    assert (library / "edgecore_payload.py").exists()
    assert (library / "y.py").exists()
    assert not list(place.rglob("x"))
    assert (place / "bin" / "edgecore").read_text().startswith(f"#!{place}/bin/python\n")
    assert sorted(path.name for path in place.parent.iterdir()) == ["1.0.0"]


def test_the_list_of_what_it_consists_of_is_kept(tmp_path: Path) -> None:
    """Signed as the wheels are, it stays with the version."""
    wheel, listed = make_wheel(tmp_path, "1.0.0"), tmp_path / SBOM
    listed.write_bytes(b"{}")
    bundle, into = tmp_path / "b", tmp_path / "x"
    into.mkdir()
    write_bundle(bundle, manifest_of([wheel, listed], "1.0.0", "c"), [wheel, listed], KEY)
    manifest, _ = read_bundle(bundle, KEYS, into)
    assert {part.name for part in manifest.parts} == {wheel.name, SBOM}
    installation = Installation(tmp_path / "i")
    installation.versions.mkdir(parents=True)
    place = stage(into.iterdir(), b"{}", "1.0.0", installation, 1 << 20)
    assert (place / SBOM).read_bytes() == b"{}"


def member(name: str, mode: int = 0) -> Callable[[zipfile.ZipFile], None]:
    """Return a function that adds a member to a wheel."""

    def add(packed: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        packed.writestr(info, "x")

    return add


@pytest.mark.parametrize(
    "add",
    [
        member("../climbs.py"),
        member("a/../../climbs.py"),
        member("/absolute.py"),
        member("a//b.py"),
        member("./a.py"),
        member("a\\b.py"),
        member("link.py", 0o120777),
        member("device", 0o020666),
        member("edgecore_payload.py"),
        member("a/" * 300 + "b.py"),
        member("edgecore-1.0.0.data/purelib/../../../climbs.py"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_of_a_wheel_that_belongs_elsewhere(add: Callable[[zipfile.ZipFile], None], tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "1.0.0")
    with zipfile.ZipFile(wheel, "a") as packed:
        add(packed)
    with pytest.raises(UpgradeError, match="cannot unpack the bundle"):
        staged(tmp_path, wheel)
    assert not list((tmp_path / "i" / "versions").iterdir())
    assert not list(tmp_path.rglob("climbs.py"))


def test_a_wheel_larger_than_the_bundle_says(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "1.0.0", **{"zeros.py": "#" * 2_000_000})
    with pytest.raises(UpgradeError, match="larger than the bundle says"):
        staged(tmp_path, wheel)


def test_wheels_are_together_no_larger_than_the_bundle_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = [make_wheel(tmp_path, "1.0.0")]
    for name in ("a", "b"):
        wheels.append(tmp_path / f"{name}-1-py3-none-any.whl")
        with zipfile.ZipFile(wheels[-1], "w") as packed:
            packed.writestr(f"{name}.py", "#" * 600_000)
    assert staged(tmp_path, *wheels[:2], unpacked=1_000_000)
    with pytest.raises(UpgradeError, match="larger than the bundle says"):
        staged(tmp_path, *wheels, unpacked=1_000_000)
    with zipfile.ZipFile(wheels[0]) as packed:
        files = len(packed.infolist())
    for number in (1, 2):  # another wheel has one file
        monkeypatch.setattr(staging, "MOST_FILES", files + number - 1)
        assert staged(tmp_path, *wheels[:number])
    with pytest.raises(UpgradeError, match="more than"):
        staged(tmp_path, *wheels, unpacked=2_000_000)


def test_a_version_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut its name would lead to files without content."""
    flushed, before = set[Path](), list[set[Path]]()
    for name in ("sync_file", "sync_directory"):
        monkeypatch.setattr(staging, name, flushed.add)

    def put_in_place(making: Path, place: Path) -> None:
        before.append({making, *(path for path in making.rglob("*") if not path.is_symlink())} - flushed)
        durable.put_in_place(making, place)

    monkeypatch.setattr(staging, "put_in_place", put_in_place)
    assert staged(tmp_path, make_wheel(tmp_path, "1.0.0"))
    assert (before, len(flushed) > 5) == ([set()], True)


@pytest.mark.parametrize("text", [b"", b"PK", b"no zip"])
def test_a_wheel_that_is_none(text: bytes, tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(text)
    with pytest.raises(UpgradeError, match="cannot unpack the bundle"):
        staged(tmp_path, wheel)


@pytest.mark.parametrize(
    "text",
    ["", "[console_scripts]\n", "[console_scripts]\nedgecore = x\n", "[console_scripts]\nedgecore = a:b\n../x = a:b\n"],
)
def test_a_release_without_a_proper_program(text: str, tmp_path: Path) -> None:
    wheel = tmp_path / "edgecore-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("edgecore-1.0.0.dist-info/entry_points.txt", text)
    with pytest.raises(UpgradeError, match="program"):
        staged(tmp_path, wheel)


def test_a_release_takes_the_place_of_what_an_earlier_attempt_left(tmp_path: Path) -> None:
    (tmp_path / "i/versions/1.0.0/old").mkdir(parents=True)
    (tmp_path / "i/versions/.1.0.0.new").mkdir()
    place = staged(tmp_path, make_wheel(tmp_path, "1.0.0"))
    assert not (place / "old").exists()


def test_the_writer_names_what_it_wrote(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "1.0.0")
    manifest = manifest_for(wheel)
    write_bundle(tmp_path / "b", manifest, [wheel], KEY)
    assert isinstance(manifest.parts[0], PartEntry)
    assert manifest.parts[0].name == wheel.name


def test_wheels_that_edgecore_contains_are_in_no_bundle(tmp_path: Path) -> None:
    """The bus and the library of mappers have files of edgecore's: a second one would be refused."""
    for name in ("edgecore", "edgecore_lab", "edgecore_beehive", "edgecore_mapper", "msgspec"):
        (tmp_path / f"{name}-1.2.3-py3-none-any.whl").touch()
    own, version = released(tmp_path)
    assert ([wheel.name.split("-")[0] for wheel in own], version) == (["edgecore", "edgecore_lab"], "1.2.3")
