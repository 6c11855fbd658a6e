"""Unpacks layers beside files that no layer may touch: the process behind `tests.fuzz.unpacking`.

It is a process of its own, without threads, because `unpack` forks. Each job on its standard input is a length of four
bytes and a tar; each answer is a line: empty if all is as it must be, else what is wrong, as JSON.
"""

import json
import os
import stat
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from beehive.files.removal import remove_tree
from modules.runtimes.oci.images.worker.errors import INVALID, LIMIT, ImageWorkError
from modules.runtimes.oci.images.worker.limits import MIB, UnpackLimits
from modules.runtimes.oci.images.worker.publication import Publication
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource, Unpacked, unpack
from tests.support.directories import memory_parent, short_directory

LIMITS: Final = UnpackLimits(size=4 * MIB, entries=300, reserve=MIB)
_LONGEST_PATH: Final = 4096
_DIGEST: Final = f"sha256:{'0' * 64}"
_LOWER, _UPPER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
"""Chain ids of a layer below, and of the unpacked one."""
_REFUSED: Final = "refused"

Made = TypeVar("Made")


class File(NamedTuple):
    """What may not change of a file."""

    mode: int
    owner: tuple[int, int]
    links: int
    mtime: int
    content: bytes
    xattrs: dict[str, bytes]


class Bench:
    """A directory with a store, a layer in it, and a canary beside."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._layout = StoreLayout(top / "store")
        self._layout.make()
        self._canary = top / "canary"
        for path in (self._canary, self._layout.tree(_LOWER)):
            (path / "d").mkdir(parents=True)
            (path / "d" / "secret").write_bytes(b"secret")
            (path / "a").write_bytes(b"a" * 5000)
            (path / "l").symlink_to("d")
        self._before = self._seen()

    def check(self, data: bytes) -> str:
        """Unpack a layer, alone and as a part of an image; return what is wrong."""
        descriptor = os.memfd_create("layer")
        try:
            os.write(descriptor, data)
            return self._check(LayerSource(descriptor, 0, len(data)))
        finally:
            os.close(descriptor)

    def _check(self, source: LayerSource) -> str:
        directory = self._top / "layer"
        directory.mkdir()
        try:
            first = _outcome(lambda: unpack(source, directory, [self._layout.tree(_LOWER)], LIMITS))
            problem = self._problem(directory, first)
        finally:
            remove_tree(directory)
        return problem or self._published(source, first)

    def _problem(self, directory: Path, found: Unpacked | str) -> str:
        if self._seen() != self._before:
            return "a file beside the layer was changed"
        if {each.name for each in self._top.iterdir()} != {"store", "canary", "layer"}:
            return "there is a file outside of the layer"
        if {each.name for each in directory.iterdir()} != {"fs", "replaced"}:
            return "there is a file beside the layer's own"
        if isinstance(found, str):
            return ""
        others = {(each.st_dev, each.st_ino) for each in map(os.lstat, self._others())}
        size = inodes = 0
        for each in map(os.lstat, _below(directory / "fs")):
            if stat.S_ISREG(each.st_mode) and (each.st_dev, each.st_ino) in others:
                return "a file of the layer is one outside of it"
            size, inodes = size + each.st_blocks * 512 * stat.S_ISREG(each.st_mode), inodes + 1
        if size > LIMITS.size + inodes * 8192:
            return "the layer takes more of the disk than it may"
        return ""

    def _published(self, source: LayerSource, first: Unpacked | str) -> str:
        """Add the layer to the store: its refusal leaves nothing, and its tree is found under its name."""
        digest = first.diff_id if isinstance(first, Unpacked) else _DIGEST
        with Publication(self._layout, LIMITS) as publication:
            again = _outcome(lambda: publication.add_layer(source, digest, (_LOWER, _UPPER)))
            if again != _REFUSED:
                publication.publish(is_synced=True)
        names = {each.name for each in self._layout.layers.iterdir()}
        wanted = {_LOWER[7:]} | ({_UPPER[7:]} if isinstance(first, Unpacked) else set())
        remove_tree(self._layout.layer(_UPPER))
        if names != wanted:
            return f"the store has the layers {sorted(names)}"
        return "" if self._seen() == self._before else "a file beside the layer was changed by its publication"

    def _others(self) -> Iterator[Path]:
        yield from _below(self._canary)
        yield from _below(self._layout.tree(_LOWER))

    def _seen(self) -> dict[str, File]:
        return {str(path): _file(path) for path in self._others()}


def _outcome(work: Callable[[], Made]) -> Made | str:
    """What an unpacking returns; "refused" for an error that a layer may lead to."""
    try:
        return work()
    except ImageWorkError as error:
        if error.kind not in (INVALID, LIMIT) or not error.reason:
            raise
        return _REFUSED


def _below(top: Path) -> Iterator[Path]:
    """A directory and what is in it, without what is so deep that its path is too long."""
    yield top
    for directory, directories, files in os.walk(top):
        for name in (*directories, *files):
            if len(os.fsencode(path := Path(directory, name))) < _LONGEST_PATH:
                yield path


def _file(path: Path) -> File:
    status = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    names = os.listxattr(path, follow_symlinks=False)
    xattrs = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
    owner = (status.st_uid, status.st_gid)
    return File(status.st_mode, owner, status.st_nlink, status.st_mtime_ns, content, xattrs)


def _serve(top: Path) -> None:
    bench = Bench(top)
    while head := sys.stdin.buffer.read(4):
        data = sys.stdin.buffer.read(*struct.unpack("<I", head))
        try:
            answer = bench.check(data)
        except Exception:  # noqa: BLE001 - any exception is a finding
            answer = traceback.format_exc()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with short_directory("fuzz-layers-", memory_parent()) as path:
        _serve(path)
