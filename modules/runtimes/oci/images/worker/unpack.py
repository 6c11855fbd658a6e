"""Unpacks one layer in a process of its own, which sees nothing but the layer's new directory.

The process is confined to the directory (chroot), and has no network, little memory, and no descriptors except those
that it works with. So a mistake here, or in a decompressor, does not reach the files of the machine.
"""

import errno
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from beehive.nesting import read_json
from modules.runtimes.oci.images.worker.attributes import owner_for_pods
from modules.runtimes.oci.images.worker.compression import PlainBytes, ReadBytes
from modules.runtimes.oci.images.worker.errors import LIMIT, MACHINE, ImageWorkError, beyond_limit, invalid
from modules.runtimes.oci.images.worker.layer_tree import LayerTree
from modules.runtimes.oci.images.worker.limits import LEAST_FREE_INODES, LOOK_AT_INODES_EVERY, MIB, UnpackLimits
from modules.runtimes.oci.images.worker.tar_entries import TarEntries
from modules.runtimes.oci.images.worker.tar_stream import TarStream
from modules.runtimes.shim import kernel

_PARTS = ("fs", "replaced")
_MEMORY = 256 * MIB
_DESCRIPTORS = 64
_LONGEST_ANSWER = 64 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class Unpacked(NamedTuple):
    """The digest and the size of an unpacked layer."""

    diff_id: str
    """Digest of the plain tar."""
    size: int
    """Bytes of its files on the disk."""
    inodes: int


class LayerSource(NamedTuple):
    """A layer's tar in a file, compressed or not."""

    descriptor: int
    offset: int
    size: int
    """Bytes in the file."""


def unpack(source: LayerSource, directory: Path, lower: Sequence[Path], limits: UnpackLimits) -> Unpacked:
    """Unpack a layer into a new `directory`/fs; move replaced files to `directory`/replaced.

    Args:
        source: the layer.
        directory: a new directory.
        lower: directories of the layers below, the uppermost first.
        limits: bounds.

    Raises:
        ImageWorkError: the layer breaks a rule or a limit, or the machine refuses.
    """
    for name in _PARTS:
        path = directory / name
        path.mkdir()
        os.chown(path, *owner_for_pods(0, 0))
        path.chmod(0o755)
    kept: list[int] = []
    try:
        for path in (*(directory / name for name in _PARTS), *lower):
            kept.append(os.open(path, _DIRECTORY))  # noqa: PERF401 - those that are open are closed
        root, replaced, *below = kept
        tree = LayerTree(root, replaced, below)
        return _in_child(root, [source.descriptor, *kept], lambda: _work(tree, source, root, limits))
    finally:
        for each in kept:
            os.close(each)


def reading(source: LayerSource) -> ReadBytes:
    """Return a `read` of the part of a file that is the layer, which moves no other reader's position."""
    at = source.offset

    def read(most: int, /) -> bytes:
        nonlocal at
        data = os.pread(source.descriptor, min(most, source.offset + source.size - at), at)
        at += len(data)
        return data

    return read


def begin_position(source: LayerSource) -> None:
    """Set the descriptor's position to the layer's first byte, so that `position_in` counts from there."""
    os.lseek(source.descriptor, source.offset, os.SEEK_SET)


def position_in(source: LayerSource) -> int:
    """Return how many bytes of a layer were read to unpack it, by another process too.

    Processes share the position of a descriptor. The unpacking moves it and reads without it (pread).
    """
    return os.lseek(source.descriptor, 0, os.SEEK_CUR) - source.offset


def _showing_position(source: LayerSource) -> ReadBytes:
    read = reading(source)

    def read_and_show(most: int, /) -> bytes:
        data = read(most)
        os.lseek(source.descriptor, len(data), os.SEEK_CUR)
        return data

    return read_and_show


def _work(tree: LayerTree, source: LayerSource, root: int, limits: UnpackLimits) -> Unpacked:
    plain = PlainBytes(_showing_position(source))
    os.chroot(".")
    _limit(resource.RLIMIT_AS, _MEMORY)
    stream = TarStream(plain, limits, lambda: _check_disk(root, limits.reserve))
    looked_at = 0
    for entry in TarEntries(stream, limits.entries):
        try:
            tree.apply(entry, stream)
        except OSError as error:
            raise _of_entry(error, entry.name) from None
        if tree.inodes - looked_at >= LOOK_AT_INODES_EVERY:
            looked_at = tree.inodes
            _check_disk(root, limits.reserve)
    diff_id = stream.digest()
    tree.finish()
    return Unpacked(diff_id, tree.size, tree.inodes)


def _of_entry(error: OSError, name: bytes) -> ImageWorkError:
    text = f"{name[:80]!r} cannot be unpacked: {error.strerror}"
    if error.errno in _OF_THE_MACHINE:
        hint = "free some space on the node" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return ImageWorkError(MACHINE, text, hint)
    return invalid(text)


def _check_disk(root: int, reserve: int) -> None:
    found = os.fstatvfs(root)
    if found.f_bavail * found.f_frsize < reserve:
        raise ImageWorkError(LIMIT, f"less than {reserve} bytes of the disk would stay free", "free some space")
    if found.f_files and found.f_favail < LEAST_FREE_INODES:
        raise ImageWorkError(LIMIT, "the disk has hardly any inode left", "remove some files")


# the process


def _in_child(root: int, kept: Sequence[int], work: Callable[[], Unpacked]) -> Unpacked:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    parent = os.getpid()
    try:
        child = os.fork()
    except BaseException:
        os.close(read_end)
        os.close(write_end)
        raise
    if child == 0:
        os.close(read_end)
        _run_child(parent, root, [*kept, write_end], work)
    os.close(write_end)
    try:
        answer = _read_answer(read_end)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(read_end)
        _, status = os.waitpid(child, 0)
    if not answer:
        raise invalid(f"the layer ended the process that unpacked it (status {status})")
    found = read_json(answer)
    if "error" in found:
        raise ImageWorkError(**found["error"])
    return Unpacked(**found)


def _read_answer(descriptor: int) -> bytes:
    answer = b""
    while (chunk := os.read(descriptor, _LONGEST_ANSWER)) and len(answer) < _LONGEST_ANSWER:
        answer += chunk
    return answer


def _run_child(parent: int, root: int, kept: Sequence[int], work: Callable[[], Unpacked]) -> NoReturn:
    """Work, write the result or the error as JSON to the last descriptor, and end without running more."""
    try:
        kernel.die_with_parent(signal.SIGKILL)
        if os.getppid() == parent:
            os.write(kept[-1], json.dumps(_confined(root, kept, work)).encode())
    finally:
        os._exit(0)


def _confined(root: int, kept: Sequence[int], work: Callable[[], Unpacked]) -> dict[str, object]:
    try:
        _close_others(kept)
        kernel.unshare(kernel.NEW_NETWORK_NAMESPACE | kernel.NEW_IPC_NAMESPACE)
        kernel.forbid_new_privileges()
        os.umask(0)
        _limit(resource.RLIMIT_NOFILE, _DESCRIPTORS + len(kept))
        _limit(resource.RLIMIT_CORE, 0)
        os.fchdir(root)
        return work()._asdict()
    except ImageWorkError as error:
        return _described(error)
    except MemoryError:
        return _described(beyond_limit("the layer takes too much memory to unpack"))
    except (OSError, ValueError, OverflowError, struct.error) as error:
        return _described(ImageWorkError(MACHINE, f"the layer cannot be unpacked: {error}"))


def _limit(kind: int, wanted: int) -> None:
    _, most = resource.getrlimit(kind)
    value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(kind, (value, value))


def _described(error: ImageWorkError) -> dict[str, object]:
    return {"error": {"kind": error.kind, "reason": error.reason, "hint": error.hint}}


def _close_others(kept: Sequence[int]) -> None:
    """Close every descriptor but these; the standard ones become /dev/null."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    low = 3
    for each in sorted(kept):
        os.closerange(low, each)
        low = each + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))
