"""`edgecore cp`, with commands that run on this machine instead of in a container."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.processes.common.pod_commands import cp
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.cp import ContainerFiles, Place, place_of
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.remote import ContainerTarget
from tests.modules.processes.common.pod_commands.spdy_server import CommandServer, SpdySocket, run_commands
from tests.support.failing import Failing

TARGET = ContainerTarget("ns", "p", "app")


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("p:/tmp/a", Place("p", "/tmp/a")),
        ("ns/p:/tmp/a:b", Place("ns/p", "/tmp/a:b")),
        ("p:a", Place("p", "a")),
        ("/tmp/a", Place("", "/tmp/a")),
        ("a", Place("", "a")),
        ("./a:b", Place("", "./a:b")),
        ("/a:b", Place("", "/a:b")),
        ("a/b/c:d", Place("", "a/b/c:d")),
    ],
)
def test_places(word: str, place: Place) -> None:
    assert place_of(word) == place


@pytest.mark.parametrize("word", ["", ":a", "p:"])
def test_other_texts_than_places_are_reported(word: str) -> None:
    with pytest.raises(NodeError):
        place_of(word)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[ContainerFiles]:
    """Its files are this machine's."""
    with SpdySocket(tmp_path / "s", run_commands):
        yield ContainerFiles(NodeClient(tmp_path / "s"), TARGET)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A directory of the container."""
    made = tmp_path / "there"
    (made / "d" / "sub").mkdir(parents=True)
    (made / "d" / "sub" / "b").write_text("2")
    (made / "f").write_bytes(os.urandom(300_000))
    (made / "link").symlink_to("f")
    (made / "gone").symlink_to("nothing")
    return made


def test_from_a_container(container: ContainerFiles, there: Path, tmp_path: Path) -> None:
    """A link is followed, which volumes of configmaps are full of."""
    container.download(f"{there}/f", tmp_path / "copy", preserve=True)
    container.download(f"{there}/link", tmp_path / "linked", preserve=True)
    container.download(f"{there}/d", tmp_path / "tree", preserve=True)
    (tmp_path / "into").mkdir()
    container.download(f"{there}/d", tmp_path / "into", preserve=True)
    container.download(f"{there}/f", tmp_path / "into", preserve=True)
    assert (tmp_path / "into" / "d" / "sub" / "b").read_text() == "2"
    assert (tmp_path / "into" / "f").exists()
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "linked").read_bytes() == (there / "f").read_bytes()
    assert (tmp_path / "tree" / "sub" / "b").read_text() == "2"


def test_to_a_container(container: ContainerFiles, there: Path, tmp_path: Path) -> None:
    """Below a directory that exists, otherwise under the new name."""
    source = tmp_path / "source"
    (source / "x").mkdir(parents=True)
    (source / "x" / "y").write_bytes(os.urandom(300_000))
    container.upload(source, f"{there}/d")
    container.upload(source, f"{there}/new")
    container.upload(source / "x" / "y", f"{there}/file")
    copies = [there / "d" / "source" / "x" / "y", there / "new" / "x" / "y", there / "file"]
    assert all(copy.read_bytes() == (source / "x" / "y").read_bytes() for copy in copies)


@pytest.mark.parametrize(
    ("path", "target", "says"),
    [
        ("nope", "copy", "No such file"),
        ("gone", "copy", "leads nowhere|No such file"),
        ("f", "no/such/directory/copy", "there is no directory"),
    ],
)
def test_what_cannot_be_copied_from_it(
    container: ContainerFiles, there: Path, tmp_path: Path, path: str, target: str, says: str
) -> None:
    with pytest.raises(NodeError, match=says):
        container.download(f"{there}/{path}", tmp_path / target, preserve=True)


def test_what_cannot_be_copied_to_it(container: ContainerFiles, there: Path, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="there is no file"):
        container.upload(tmp_path / "nope", "/tmp/x")
    with pytest.raises(NodeError, match="tar in the container has failed"):
        container.upload(there / "f", f"{there}/no/such/directory/f")


def test_a_source_that_cannot_be_read_is_the_error(
    container: ContainerFiles, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tar` in the container has had an archive that ends early, or none."""
    monkeypatch.setattr(cp, "pack", Failing(0, OSError(errno.EIO, "broken")).call(print))
    with pytest.raises(OSError, match="broken"):
        container.upload(there / "f", f"{there}/copy")


def _without_tar(connection: socket.socket, target: str) -> None:
    CommandServer(connection, target.replace("command=tar", "command=no-such-tar")).serve()


def test_a_container_without_tar_is_reported(there: Path, tmp_path: Path) -> None:
    with SpdySocket(tmp_path / "s", _without_tar):
        container = ContainerFiles(NodeClient(tmp_path / "s"), TARGET)
        with pytest.raises(NodeError, match="there is no tar in the container"):
            container.download(f"{there}/f", tmp_path / "copy", preserve=True)
        with pytest.raises(NodeError, match="there is no tar in the container"):
            container.upload(there / "f", f"{there}/d")
