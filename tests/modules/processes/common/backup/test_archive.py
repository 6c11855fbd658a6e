"""The file of a backup: what is written is read again; what is damaged or hostile is refused, and writes nothing."""

import gzip
import io
import random
import sqlite3
import stat
import tarfile
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.processes.common.backup.archive import (
    FORMAT,
    LARGEST_FILE,
    BackupManifest,
    Part,
    PartEntry,
    check_database,
    copy_database,
    read_archive,
    write_archive,
)
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.version import VERSION
from tests.support.patience import PATIENCE

HEAD = BackupManifest(FORMAT, "edgecore", VERSION, "n1", "2026-11-20T00:00:00Z")
NAMES = ("a/one", "b/two")
TWO = b"2222" + random.Random(1).randbytes(300_000)  # noqa: S311 - content that does not shrink


def wanted(name: str) -> bool:
    """Return whether a backup of these tests has such a member."""
    return name in NAMES


def written(path: Path, head: BackupManifest = HEAD) -> Path:
    """Write a backup with two members."""
    two = path.with_name("two")
    two.write_bytes(TWO)
    write_archive(path, head, [Part("a/one", b"1"), Part("b/two", two)])
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """An empty directory."""
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


def test_there_and_back(tmp_path: Path, into: Path) -> None:
    """Readable by its owner alone, with the manifest first."""
    file = written(tmp_path / "b.tgz")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as tar:
        assert tar.getnames() == ["manifest.json", *NAMES]
    manifest = read_archive(file, into, "edgecore", wanted)
    assert (manifest.node, manifest.names) == ("n1", frozenset(NAMES))
    assert (into / "a/one").read_bytes() == b"1"
    assert (into / "b/two").read_bytes() == TWO


def test_a_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a half of one left where it cannot be written."""
    file = tmp_path / "b.tgz"
    file.write_text("mine")
    with pytest.raises(BackupError, match="it exists"):
        written(file)
    assert file.read_text() == "mine"
    with pytest.raises(BackupError, match="nowhere"):
        write_archive(tmp_path / "nowhere" / "b", HEAD, [])
    with pytest.raises(BackupError):
        write_archive(tmp_path / "c.tgz", HEAD, [Part("a/one", tmp_path / "missing")])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("modules.processes.common.backup.archive.put_in_place", full)
    with pytest.raises(BackupError, match="no space"):
        written(tmp_path / "d.tgz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tgz", "two"]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.99])
def test_a_truncated_file(share: float, tmp_path: Path, into: Path) -> None:
    """It is refused, wherever it ends."""
    file = written(tmp_path / "b.tgz")
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(BackupError, match="truncated or damaged"):
        read_archive(file, into, "edgecore", wanted)


def test_a_changed_byte(tmp_path: Path, into: Path) -> None:
    """Of a member: its checksum is not the manifest's."""
    file = written(tmp_path / "b.tgz")
    plain = bytearray(gzip.decompress(file.read_bytes()))
    plain[plain.index(b"2222")] = ord("3")
    file.write_bytes(gzip.compress(plain))
    with pytest.raises(BackupError, match="b/two differs from its SHA-256"):
        read_archive(file, into, "edgecore", wanted)


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", gzip.compress(b"", mtime=0), gzip.compress(b"x" * 100_000, mtime=0)],
    ids=["empty", "text", "of nothing", "of text"],
)
def test_no_backup_at_all(content: bytes, tmp_path: Path, into: Path) -> None:
    """Any other file."""
    file = tmp_path / "b.tgz"
    file.write_bytes(content)
    with pytest.raises(BackupError, match=r"truncated or damaged|it is no backup"):
        read_archive(file, into, "edgecore", wanted)


@pytest.mark.parametrize("build", [".dev1+g46384b1b", ".post3+g46384b1b.dirty", ""])
def test_of_another_build_of_the_release(build: str, tmp_path: Path, into: Path) -> None:
    """The number of the build says nothing about the form of a backup."""
    release = ".".join(VERSION.split(".")[:3])
    file = written(tmp_path / "b.tgz", msgspec.structs.replace(HEAD, program_version=release + build))
    assert read_archive(file, into, "edgecore", wanted).program_version == release + build


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": FORMAT + 1}, "newer than"),
        ({"program_version": "99.0"}, "newer than"),
        ({"program_version": "99.0.0.dev5210+g46384b1b"}, "newer than"),
        ({"program": "cloudcore"}, "it is of cloudcore, not of edgecore"),
    ],
)
def test_of_another_program_or_version(changes: dict[str, Any], words: str, tmp_path: Path, into: Path) -> None:
    """It says which."""
    file = written(tmp_path / "b.tgz", msgspec.structs.replace(HEAD, **changes))
    with pytest.raises(BackupError, match=words):
        read_archive(file, into, "edgecore", wanted)


def _tar(path: Path, manifest: bytes, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        first = tarfile.TarInfo("manifest.json")
        first.size = len(manifest)
        tar.addfile(first, io.BytesIO(manifest))
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def _member(name: str, **fields: Any) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(member, field, value)
    return member


def _manifest(*entries: PartEntry) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(HEAD, parts=entries))


ONE = PartEntry("a/one", 1, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda p: _tar(p, _manifest(PartEntry("../../etc/x", 1, "")), _member("../../etc/x", size=1)),
            "no backup has",
        ),
        (lambda p: _tar(p, _manifest(PartEntry("/etc/x", 1, "")), _member("/etc/x", size=1)), "no backup has"),
        (lambda p: _tar(p, _manifest(ONE, ONE)), "no backup has"),
        (lambda p: _tar(p, _manifest(PartEntry("a/one", -1, ""))), "no backup has"),
        (lambda p: _tar(p, _manifest(ONE), _member("b/two", size=1)), "unexpected member 'b/two'"),
        (lambda p: _tar(p, _manifest(ONE), _member("a/one", size=2)), "unexpected member"),
        (lambda p: _tar(p, _manifest(ONE), _member("a/one", type=tarfile.SYMTYPE, linkname="/etc/x")), "unexpected"),
        (lambda p: _tar(p, _manifest(ONE), _member("a/one", type=tarfile.LNKTYPE, linkname="/etc/x")), "unexpected"),
        (lambda p: _tar(p, _manifest(ONE), _member("a/one", type=tarfile.CHRTYPE)), "unexpected"),
        (lambda p: _tar(p, _manifest(ONE), _member("a/one", size=1), _member("a/one", size=1)), "unexpected"),
        (lambda p: _tar(p, _manifest(ONE)), "a/one is missing"),
        (lambda p: _tar(p, _manifest(PartEntry("a/one", LARGEST_FILE + 1, ""))), "larger than any backup's"),
        (lambda p: _tar(p, b"{"), "its manifest cannot be read"),
        (lambda p: _tar(p, b" " * 2_000_000), "it is no backup"),
    ],
)
def test_hostile_files(make: Callable[[Path], Path], words: str, tmp_path: Path, into: Path) -> None:
    """Members that nobody asked for, links, devices, other sizes: refused, and nothing is outside the directory."""
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(into)}
    file = make(tmp_path / "b.tgz")
    with pytest.raises(BackupError, match=words):
        read_archive(file, into, "edgecore", wanted)
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(into)} == before | {file}
    assert not any(path.is_symlink() for path in into.rglob("*"))


def _bomb(path: Path, *parts: tuple[bytes, int]) -> Path:
    """A file of pieces and how often each is repeated, which compresses to a thousandth."""
    with gzip.open(path, "wb", 1) as file:
        for piece, number in parts:
            for _ in range(number):
                file.write(piece)
    return path


def _header(kind: bytes, size: int) -> bytes:
    member = _member("x", type=kind, size=size)
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_bomb_takes_no_memory(kind: bytes, tmp_path: Path, into: Path) -> None:
    """A header of 64 MiB, and a thousand headers for one member."""
    once = _bomb(tmp_path / "once", (_header(kind, 64 << 20), 1), (bytes(1 << 20), 64))
    again = _bomb(tmp_path / "again", (_header(kind, 512) + b"a" * 512, 1000))
    for file in (once, again):
        tracemalloc.start()
        with pytest.raises(BackupError, match="truncated or damaged"):
            read_archive(file, into, "edgecore", wanted)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 16 << 20


def test_a_bomb_behind_the_last_part_is_not_read(tmp_path: Path, into: Path) -> None:
    plain = gzip.decompress(written(tmp_path / "b.tgz").read_bytes())
    file = _bomb(tmp_path / "bomb", (plain, 1), (bytes(1 << 20), 4))
    with pytest.raises(BackupError, match="it goes on after its end"):
        read_archive(file, into, "edgecore", wanted)


def test_a_database_that_is_being_written(tmp_path: Path) -> None:
    """Each copy is whole: a transaction is in it or not, and the writer does not wait."""
    path, stop = tmp_path / "live.db", threading.Event()
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE t (a)")

    def write() -> None:
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as writer:
            while not stop.is_set():
                with writer:
                    writer.executemany("INSERT INTO t VALUES (?)", [("x" * 100,)] * 10)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(5):
            copy = tmp_path / f"{number}.db"
            copy_database(path, copy)
            check_database(copy)
            with closing(sqlite3.connect(copy)) as found:
                assert found.execute("SELECT count(*) % 10 FROM t").fetchone() == (0,)
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            assert not list(tmp_path.glob(f"{number}.db-*"))
    finally:
        stop.set()
        thread.join()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """It can be neither copied nor restored."""
    path = tmp_path / "no.db"
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(BackupError, match="cannot copy the database"):
        copy_database(path, tmp_path / "copy")
    with pytest.raises(BackupError, match="cannot restore the database"):
        check_database(path)
