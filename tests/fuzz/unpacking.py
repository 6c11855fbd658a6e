"""Target of what writes to the disk: layers are unpacked beside a canary and above another layer."""

import gzip
import json
import struct
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.mutate import LONGEST, mutate
from tests.fuzz.target import Target, must
from tests.modules.runtimes.oci.images.tars import Made, device, directory, fifo, file, hardlink, symlink, tar, xattrs
from tests.support.directories import AT_END

_REPOSITORY: Final = Path(__file__).parents[2]
_BLOCK: Final = 512
_MAGIC: Final = slice(257, 262)
_SUM: Final = slice(148, 156)
_UP: Final = "../../../.."
_NAMES: Final = (
    "a", "b", "d", "l", "d/secret", "d/e", "d/e/f", "l/secret", "a/x", "l/l", "./a", "/d/../a", "d//b", "", ".", "..",
    f"{_UP}/canary/a", "proc/self/fd/3", ".wh.a", ".wh.d", "d/.wh.secret", "d/.wh..wh..opq", ".wh..wh..opq",
    ".wh..wh.plnk", ".wh.", ".wh...", "l/.wh.secret", "x" * 256, "/".join("y" * 60), "d/é", "d\\b",
)  # fmt: skip
_TARGETS: Final = (
    "a", "d", "d/secret", "l", "l/secret", "/a", "/", ".", "..", f"{_UP}/canary", f"{_UP}/canary/a", "/canary/a",
    "/proc/self/root/canary/a", "/proc/1/root", "l/../..", "b", "x" * 4095, "",
)  # fmt: skip
_HEADERS: Final[tuple[dict[str, str], ...]] = (
    {"GNU.sparse.map": "5,1", "GNU.sparse.size": "20"},
    {"GNU.sparse.map": "0,0", "GNU.sparse.size": "9999999"},
    {"GNU.sparse.map": "0,0", "GNU.sparse.size": "99999999999"},
    xattrs(user__a=b"b", trusted__overlay__opaque=b"y", security__capability=b"\1\0\0\2" + bytes(16)),
    {"path": f"{_UP}/canary/new"}, {"linkpath": f"{_UP}/canary/a"}, {"mtime": "-1.5"}, {"uid": "99999"}, {},
)  # fmt: skip


class _Server:
    """The process that unpacks; it ends with this one."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.unpack_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_REPOSITORY,
        )

    def check(self, data: bytes) -> str:
        """Let a layer be unpacked; return what is wrong."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(struct.pack("<I", len(data)) + data)
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return str(json.loads(answer)) if answer else "the process has ended"

    def close(self) -> None:
        """End it, and wait until it has removed its files."""
        self._process.communicate()


@cache
def _server() -> _Server:
    server = _Server()
    AT_END.callback(server.close)
    return server


def _seeds() -> Sequence[bytes]:
    whole = tar(
        directory("d", mode=0o1777, mtime=1000),
        file("d/new", b"content", mode=0o4755, uid=3, pax_headers=_HEADERS[3]),
        hardlink("d/twin", "d/new"),
        hardlink("copy", "a"),
        symlink("way", f"{_UP}/canary"),
        file("way/new", b"content"),
        file("d/.wh.secret"),
        file("e/f/g", b"x"),
        fifo("pipe"),
        device("null", 1, 3),
    )
    opaque = tar(directory("d"), file("d/.wh..wh..opq"), file("d/b"), file(".wh.a"), form=tarfile.GNU_FORMAT)
    sparse = tar(file("s", b"x", pax_headers=_HEADERS[0]), symlink("d", "/"), file("d/a"))
    return [whole, opaque, sparse, gzip.compress(whole, mtime=0)]


def _make(random: Random, seeds: Sequence[bytes]) -> bytes:
    """A layer of random entries, or a good one; mostly with damaged bytes, whose headers have the right checksums."""
    made = tar(*(_entry(random) for _ in range(random.randint(1, 12)))) if random.random() < 0.7 else b""
    if not made or random.random() < 0.3:
        made = mutate(random, [made] if made else seeds)
    if random.random() < 0.9:
        made = _summed(made)
    return gzip.compress(made[:LONGEST], 1, mtime=0) if random.random() < 0.1 else made[:LONGEST]


def _entry(random: Random) -> Made:
    name, target = random.choice(_NAMES), random.choice(_TARGETS)
    attributes: dict[str, Any] = {"mode": random.choice((0, 0o644, 0o4755, 0o1777, 0o7777))}
    if random.random() < 0.3:
        attributes["pax_headers"] = random.choice(_HEADERS)
    if random.random() < 0.2:
        attributes |= {"uid": random.randrange(5), "mtime": random.choice((0, 1, 2**33))}
    kind = random.randrange(10)
    if kind < 3:
        return file(name, random.randbytes(random.choice((0, 1, 511, 700))), **attributes)
    if kind < 5:
        return directory(name, **attributes)
    if kind < 7:
        return symlink(name, target, **attributes)
    if kind < 9:
        return hardlink(name, target, **attributes)
    if random.random() < 0.5:
        return fifo(name, **attributes)
    return device(name, random.choice((0, 1, 8)), random.choice((0, 3)), block=random.random() < 0.5, **attributes)


def _summed(data: bytes) -> bytes:
    """The bytes with the right checksum in all that looks like a header."""
    whole = bytearray(data)
    for at in range(0, len(whole) - _BLOCK + 1, _BLOCK):
        block = whole[at : at + _BLOCK]
        if block[_MAGIC] == b"ustar":
            block[_SUM] = b" " * 8
            block[_SUM] = b"%06o\0 " % sum(block)
            whole[at : at + _BLOCK] = block
    return bytes(whole)


def _check(data: bytes, _: Random) -> None:
    problem = _server().check(data)
    must(not problem, problem)


TARGETS: Final = (Target("unpacked layers", _seeds, _check, share=0.03, make=_make),)
