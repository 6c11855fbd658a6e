"""The command `cp`: copies files and directories from and to a container, by the container's `tar`.

Neither side may reach more than the copied files.
"""

import argparse
import os
import shutil
import tarfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final, NamedTuple, Self

from beehive.files.durable import make_directories
from beehive.files.opening import opener_with
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.channels import Channel, CommandExit
from modules.processes.common.pod_commands.client import NodeClient, remark, report_errors
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.remote import ContainerTarget, run_command
from modules.processes.common.pod_commands.target import container_of, pod_target
from modules.runtimes.oci.images.worker.compression import PlainBytes
from modules.runtimes.oci.images.worker.errors import ImageWorkError, invalid
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.tar_entries import DIRECTORY, FILE, SYMBOLIC_LINK, Entry, TarEntries
from modules.runtimes.oci.images.worker.tar_stream import TarStream

_MOST_OF_ERRORS: Final = 4096
_NOT_FOUND: Final = 127
_FORM: Final = "cp POD:/PATH LOCAL, or cp LOCAL POD:/PATH"
_ONE_FILE: Final = "`exec POD -- cat FILE > COPY` copies one file without it"

MOST_MEMBERS: Final = 1_000_000
"""Headers of one archive."""
_ANY_SIZE: Final = UnpackLimits(size=1 << 62)


class Place(NamedTuple):
    """A source or target: a path on this machine, or in a container."""

    pod: str
    """Word that names the pod; empty on this machine."""
    path: str


def copy(chosen: argparse.Namespace) -> int:
    """Copy."""
    with report_errors(chosen.program):
        if len(chosen.words) != 2:
            raise NodeError("a source and a target are wanted", hint=_FORM, usage=True)
        source, target = (place_of(word) for word in chosen.words)
        if bool(source.pod) == bool(target.pod):
            raise NodeError("one of source and target has to be in a pod, the other here", hint=_FORM, usage=True)
        node: NodeClient = chosen.connect(chosen)
        name = pod_target(source.pod or target.pod, chosen.namespace)
        found = container_of(node.pod(name), chosen.container)
        remark(found.remark)
        container = ContainerFiles(node, ContainerTarget(*name, found.name))
        try:
            if source.pod:
                container.download(source.path, Path(target.path), preserve=not chosen.no_preserve)
            else:
                container.upload(Path(source.path), target.path)
        except OSError as error:
            raise NodeError("cannot copy", str(error.filename or ""), error.strerror or str(error)) from error
    return ExitCode.OK


def place_of(word: str) -> Place:
    """Return the place that a word names: `POD:/path`, or a path of this machine.

    Raises:
        NodeError: the path is missing.
    """
    before, colon, path = word.partition(":")
    if not colon or before.startswith((".", "/")) or before.count("/") > 1:
        if not word:
            raise NodeError("a path is wanted", hint=_FORM, usage=True)
        return Place("", word)
    if not before or not path:
        raise NodeError("a pod and a path in it are wanted", word, _FORM, usage=True)
    return Place(before, path)


class _Output:
    """The output of a command: standard output is passed on, standard error is kept."""

    def __init__(self, output: Callable[[bytes], object] = lambda _: None) -> None:
        self._output = output
        self.errors = ""

    def __call__(self, channel: Channel, data: bytes) -> None:
        """Take a piece."""
        if channel is Channel.STDOUT:
            self._output(data)
        else:
            self.errors = (self.errors + data.decode(errors="replace"))[:_MOST_OF_ERRORS]


class SourceIsLinkError(Exception):
    """The archive's only member is a symbolic link."""


def extract(stream: IO[bytes], target: Path, skipped: Callable[[str], None], *, preserve: bool = True) -> None:
    """Extract an archive with one file or one directory tree.

    The file or directory becomes the target, whatever its name, and the members below it go below the target: no path
    may lead out of it, also not by links of this machine. No devices, owners and set-user-id bits are taken over, and
    links are not made, as by `kubectl cp`.

    Args:
        stream: the archive.
        target: path of the member's copy.
        skipped: called with the name of each member that is no file and no directory.
        preserve: whether times and modes of files are kept.

    Raises:
        NodeError: the archive is damaged, leads out of the target, or the disk has no room for it.
        SourceIsLinkError: the member is a symbolic link.
        OSError: a file cannot be written.
    """
    try:
        archive = TarStream(PlainBytes(stream.read), _ANY_SIZE, lambda: None)
        if archive.at_end():
            raise invalid("it is empty")
        for member in TarEntries(archive, MOST_MEMBERS):
            name = os.fsdecode(member.name)
            path = _path_of(name, target)
            if member.kind == DIRECTORY:
                make_directories(path)
            elif member.kind == FILE and member.layout is None:
                _extract_file(archive, member, path, preserve=preserve)
            elif member.kind == SYMBOLIC_LINK and path == target:
                raise SourceIsLinkError
            else:
                skipped(name)
                archive.skip(member.stored)
    except (ImageWorkError, ValueError) as error:
        raise NodeError("the container's archive cannot be read", "", str(error)) from error


def _path_of(name: str, target: Path) -> Path:
    """Return the path of a member's copy. Raises NodeError if it leads out of the target."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    path = target.joinpath(*parts[1:])
    base = os.path.realpath(target)
    if ".." in parts or os.path.commonpath([base, os.path.realpath(path)]) != base:
        raise NodeError("the container's archive leads elsewhere", name, "nothing more was copied")
    return path


def _extract_file(archive: TarStream, member: Entry, path: Path, *, preserve: bool) -> None:
    make_directories(path.parent)
    if member.stored > (free := shutil.disk_usage(path.parent).free):
        name = os.fsdecode(member.name)
        raise NodeError("no room for", name, f"it has {member.stored} bytes, and {free} are free")
    with open(path, "wb", opener=opener_with(0o666)) as file:
        for piece in archive.chunks(member.stored):
            file.write(piece)
        if preserve:
            os.fchmod(file.fileno(), member.mode & 0o755 | 0o600)
    if preserve:
        with suppress(OverflowError, ValueError):
            os.utime(path, ns=(member.mtime_ns, member.mtime_ns))


def pack(source: Path, name: str, stream: IO[bytes], skipped: Callable[[str], None]) -> None:
    """Write a file or a directory with all below it into an archive.

    Args:
        source: the file or directory.
        name: its name in the archive.
        stream: where the archive goes.
        skipped: called with the name of each member that is no file, directory or link.

    Raises:
        OSError: a file cannot be read, or the archive cannot be written.
    """

    def chosen(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.isreg() or member.isdir() or member.issym() or member.islnk():
            return member
        skipped(member.name)
        return None

    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        archive.add(source, name, filter=chosen)


class ContainerFiles:
    """The files of a container.

    Args:
        node: the node.
        target: the container.
    """

    def __init__(self, node: NodeClient, target: ContainerTarget) -> None:
        self._node = node
        self._target = target

    def download(self, path: str, target: Path, *, preserve: bool) -> None:
        """Copy from the container. Raises NodeError and OSError."""
        if not target.is_dir() and not target.parent.is_dir():
            raise NodeError("there is no directory", str(target.parent), usage=True)
        remote = PurePosixPath(path)
        if target.is_dir():  # under the name that was asked for: the container does not choose one beside other files
            target /= remote.name
        for options in ("cf", "chf"):
            command = ("tar", options, "-", "-C", str(remote.parent), remote.name or ".")
            try:
                self._extract(command, target, preserve=preserve)
            except SourceIsLinkError:
                continue
            return
        raise NodeError("this is a link that leads nowhere", path)

    def _extract(self, command: Sequence[str], target: Path, *, preserve: bool) -> None:
        problem: NodeError | None = None
        with _RemoteTar(self.run, command) as tar:
            try:
                extract(tar.stream, target, self._print_skipped, preserve=preserve)
            except NodeError as error:
                problem = error
        tar.check()
        if problem is not None:
            raise problem

    def upload(self, source: Path, path: str) -> None:
        """Copy to the container. Raises NodeError and OSError."""
        if not os.path.lexists(source):
            raise NodeError("there is no file", str(source), usage=True)
        remote = PurePosixPath(path)
        if self._is_directory(path):
            remote /= source.absolute().name
        reading, writing = os.pipe()
        failed: list[OSError] = []
        writer = threading.Thread(
            target=_pack, args=(source, remote.name, writing, failed, self._print_skipped), daemon=True
        )
        writer.start()
        output, command = _Output(), ("tar", "xmf", "-", "-C", str(remote.parent))
        try:
            result = run_command(self._node, self._target, command, output, reading)
        finally:
            os.close(reading)
            writer.join()
        for error in failed:
            raise error
        _check(result, output.errors)

    def _print_skipped(self, name: str) -> None:
        self._node.print_remark(f"left out, for it is no file and no directory: {name}")

    def _is_directory(self, path: str) -> bool:
        return run_command(self._node, self._target, ("test", "-d", path), _Output()).code == 0

    def run(self, command: Sequence[str], output: _Output) -> CommandExit:
        """Run a command. Raises NodeError if it cannot be run."""
        return run_command(self._node, self._target, command, output)


class _RemoteTar:
    """A `tar` in the container that runs on a thread, with its output in `stream`. A context manager."""

    def __init__(self, run: Callable[[Sequence[str], _Output], CommandExit], command: Sequence[str]) -> None:
        reading, self._writing = os.pipe()
        self.stream: IO[bytes] = os.fdopen(reading, "rb")
        self._output = _Output(self._write)
        self._result: CommandExit | None = None
        self._problem: NodeError | None = None
        self._thread = threading.Thread(target=self._run, args=(run, command), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self._thread.join()

    def check(self) -> None:
        """Raise NodeError if the command has failed; one whose output was not read to the end has not."""
        if self._problem is not None:
            raise self._problem
        if self._result is not None:
            _check(self._result, self._output.errors)

    def _run(self, run: Callable[[Sequence[str], _Output], CommandExit], command: Sequence[str]) -> None:
        try:
            self._result = run(command, self._output)
        except NodeError as error:
            self._problem = error
        except BrokenPipeError:
            return
        finally:
            os.close(self._writing)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._writing, view) :]


def _pack(source: Path, name: str, writing: int, failed: list[OSError], say_skipped: Callable[[str], None]) -> None:
    """Write the archive into a pipe. A reader that closes the pipe reports the reason itself."""
    try:
        with os.fdopen(writing, "wb") as stream:
            pack(source, name, stream, say_skipped)
    except BrokenPipeError:
        return
    except OSError as error:
        failed.append(error)


def _check(result: CommandExit, errors: str) -> None:
    """Raise NodeError if `tar` has failed, or is missing."""
    if not result.code and not result.problem:
        return
    said = (result.problem or errors).strip()
    if result.code == _NOT_FOUND or "executable file not found" in said or "No such file or directory: 'tar'" in said:
        raise NodeError("there is no tar in the container, which cp needs", "", _ONE_FILE)
    raise NodeError("tar in the container has failed", "", said.replace("\n", "; ") or f"with status {result.code}")
