"""Archives of containers, which may say anything."""

import io
import os
import random
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from modules.processes.common.pod_commands.cp import SourceIsLinkError, extract, pack
from modules.processes.common.pod_commands.errors import NodeError

SKIPPED: list[str] = []


def archive(*members: tuple[str, bytes | None], **fields: object) -> io.BytesIO:
    """Files, and directories (None)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            info.mode, info.mtime = 0o755 if content is None else 0o640, 1000
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content or b""))
    stream.seek(0)
    return stream


def files(directory: Path) -> dict[str, bytes]:
    """What is below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


TREE = (("d", None), ("d/a", b"1"), ("d/sub", None), ("d/sub/b", b"2"))


def test_a_directory_becomes_the_target(tmp_path: Path) -> None:
    extract(archive(*TREE), tmp_path / "copy", SKIPPED.append)
    assert files(tmp_path) == {"copy/a": b"1", "copy/sub/b": b"2"}
    extract(archive(("./d/", None), ("./d/c", b"3")), tmp_path / "copy", SKIPPED.append)
    assert files(tmp_path / "copy") == {"a": b"1", "sub/b": b"2", "c": b"3"}


@pytest.mark.parametrize("content", [None, b"1"])
def test_directories_may_lie_deeper_than_pythons_stack(memory_path: Path, content: bytes | None) -> None:
    """A container names as many levels as a path has room for."""
    name = f"d/{'a/' * 1500}f"
    extract(archive((name, content)), memory_path / "copy", SKIPPED.append)
    assert (memory_path / "copy" / name.removeprefix("d/")).exists()


def test_a_file_becomes_the_target_whatever_its_name(tmp_path: Path) -> None:
    extract(archive((".bashrc", b"1")), tmp_path / "copy", SKIPPED.append)
    assert files(tmp_path) == {"copy": b"1"}
    stat = (tmp_path / "copy").stat()
    assert (stat.st_mode & 0o777, stat.st_mtime) == (0o640, 1000)
    extract(archive(("f", b"3")), tmp_path / "new", SKIPPED.append, preserve=False)
    assert (tmp_path / "new").stat().st_mtime > 1000
    extract(archive(("f", b"4"), mtime=1 << 70), tmp_path / "new", SKIPPED.append)
    assert (tmp_path / "new").read_bytes() == b"4"


@pytest.mark.parametrize("name", ["d/../../out", "d/sub/../../../out", "d/a/../../../../../tmp/out"])
def test_nothing_leaves_the_target(tmp_path: Path, name: str) -> None:
    target = tmp_path / "one" / "copy"
    target.parent.mkdir()
    with pytest.raises(NodeError, match="leads elsewhere"):
        extract(archive(("d", None), (name, b"x")), target, SKIPPED.append)
    assert not files(tmp_path)


def test_a_link_of_this_machine_leads_nowhere_either(tmp_path: Path) -> None:
    """Not by the container's doing; but it chooses the names."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "sub").symlink_to(tmp_path / "outside")
    (tmp_path / "copy" / "file").symlink_to("sub")
    for name in ("d/sub/x", "d/file", "d/file/x"):
        with pytest.raises(NodeError, match="leads elsewhere"):
            extract(archive(("d", None), (name, b"x")), tmp_path / "copy", SKIPPED.append)
    assert not files(tmp_path / "outside")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_left_out(tmp_path: Path, kind: bytes) -> None:
    found: list[str] = []
    stream = archive(("d", None), ("d/x", b""), type=kind, linkname="/etc/passwd")
    if kind == tarfile.SYMTYPE:
        with pytest.raises(SourceIsLinkError):
            extract(stream, tmp_path / "copy", found.append)
        return
    extract(stream, tmp_path / "copy", found.append)
    assert found == ["d", "d/x"]
    assert not list(tmp_path.iterdir())


def test_modes_give_nobody_more_rights(tmp_path: Path) -> None:
    extract(archive(("f", b"x"), mode=0o6777), tmp_path / "copy", SKIPPED.append)
    assert (tmp_path / "copy").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("content", [b"this is no archive" * 100, b"", archive(("f", b"x" * 99)).read()[:560]])
def test_a_file_that_is_no_archive(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(NodeError, match="cannot be read"):
        extract(io.BytesIO(content), tmp_path / "copy", SKIPPED.append)


@pytest.mark.parametrize("seed", range(20))
def test_a_broken_archive_is_reported_and_stays_in_the_target(tmp_path: Path, seed: int) -> None:
    """Some bytes are others, with the checksums that belong to them."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret
    for _ in range(20):
        text = bytearray(archive(*TREE, ("d/" + "ä" * 60, b"3")).read())
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(text) // 2)
            text[place] = draw.choice((0, 255, draw.randrange(256), *b"9 =/."))
            head = place // 512 * 512
            text[head + 148 : head + 156] = b" " * 8
            text[head + 148 : head + 156] = b"%06o\0 " % sum(text[head : head + 512])
        with suppress(NodeError, SourceIsLinkError, OSError):
            extract(io.BytesIO(text), tmp_path / "copy", SKIPPED.append)
        assert {path.name for path in tmp_path.iterdir()} <= {"copy"}
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        (tmp_path / "copy").unlink(missing_ok=True)


def header(kind: bytes, size: int) -> bytes:
    """A header that announces a name, attributes or a map."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "content",
    [
        header(tarfile.GNUTYPE_LONGNAME, 4 << 30),
        header(tarfile.XHDTYPE, 4 << 30),
        header(tarfile.GNUTYPE_LONGNAME, 512).ljust(1024, b"a") * 400,
        header(tarfile.XHDTYPE, 1 << 20).ljust((1 << 20) + 512, b"1"),
        header(tarfile.XHDTYPE, 44) + b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n".ljust(512, b"\0")
        + header(tarfile.REGTYPE, 4 << 20) + b"1" * (4 << 20),
    ],
    ids=["long name", "long attributes", "names of names", "digits only", "map without end"],
)  # fmt: skip
def test_headers_are_bounded(tmp_path: Path, content: bytes) -> None:
    """They are held in memory, and searched: a megabyte of digits took tarfile hours."""
    with pytest.raises(NodeError, match="cannot be read"):
        extract(io.BytesIO(content), tmp_path / "copy", SKIPPED.append)


def test_a_file_without_room_is_refused_before_it_is_written(tmp_path: Path) -> None:
    info = tarfile.TarInfo("f")
    info.size = 1 << 60
    with pytest.raises(NodeError, match="no room"):
        extract(io.BytesIO(info.tobuf(tarfile.GNU_FORMAT)), tmp_path / "copy", SKIPPED.append)
    assert not list(tmp_path.iterdir())


def test_a_packed_entry_has_the_name_of_the_target(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "a").write_text("1")
    (source / "link").symlink_to("sub/a")
    os.mkfifo(source / "pipe")
    found: list[str] = []
    stream = io.BytesIO()
    pack(source, "there", stream, found.append)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        names = sorted(tar.getnames())
    assert (names, found) == (["there", "there/link", "there/sub", "there/sub/a"], ["there/pipe"])
