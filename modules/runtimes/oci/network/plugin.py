"""Runs a CNI plug-in: a program that gets its task in the environment and on its input, and answers in JSON.

Its output and its time are bounded: beyond them it is killed with its children. The output is read until the plug-in
ends, and not until its pipes close, because a child that it leaves behind may hold them.

The plug-ins of a network run one after the other for a sandbox: ADD in their order, DEL in the reverse order
(CNI §§2-3).
"""

import logging
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from beehive import Clock
from beehive.decoding import decode_json
from beehive.files.descriptors import OwnedFd
from beehive.printable import printable
from modules.runtimes.oci.network.attachment import Attachment
from modules.runtimes.oci.network.capabilities import has_nothing_to_do, runtime_config
from modules.runtimes.oci.network.configuration import Plugin, find_plugin
from modules.runtimes.oci.network.errors import PodNetworkError, TryAgainLaterError
from modules.runtimes.oci.network.sysctls import INTERFACE

PLUGIN_SECONDS: Final = 60.0
"""After which a plug-in is killed."""
MOST_OUTPUT: Final = 1 << 20
"""Bytes of a plug-in's result."""

_MOST_COMPLAINT: Final = 16 * 1024
"""Bytes of a plug-in's standard error that are kept."""
_LONGEST_MESSAGE: Final = 1024
_PIPE_BYTES: Final = 64 * 1024
"""The capacity of a pipe."""
_PIECE: Final = 8 * 1024
"""Bytes per read: a result has a few kilobytes, and a larger buffer would be mapped and unmapped for each read."""
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

UNKNOWN_CONTAINER: Final = 3
"""CNI error code: the plug-in knows nothing of the container."""
_TRY_AGAIN_LATER: Final = 11

_log = logging.getLogger(__name__)

_RESULT_IN_ADD: Final = "0.3.0"
_RESULT_IN_DEL: Final = "0.4.0"
"""First versions of CNI whose plug-ins get the result of earlier plug-ins, at ADD and at DEL."""


class PluginFailedError(PodNetworkError):
    """A plug-in has ended with an error; `code` is CNI's, or 0."""

    def __init__(self, attempt: str, reason: str, hint: str = "", code: int = 0) -> None:
        super().__init__(attempt, reason, hint)
        self.code = code


class _ClosedError(Exception):
    """The runner was closed."""


class _PluginError(msgspec.Struct):
    """The error object of CNI."""

    code: int = 0
    msg: str = ""
    details: str = ""


class _Outcome(msgspec.Struct, frozen=True):
    exit_code: int
    output: bytes
    complaint: bytes


class PluginRunner:
    """The runner of plug-ins.

    Args:
        clock: for the deadline.
        seconds: that a plug-in may take.
    """

    def __init__(self, clock: Clock, seconds: float = PLUGIN_SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def close(self) -> None:
        """Kill the running plug-ins, and refuse others, as edgecore stops. The next start detaches sandboxes half
        attached.
        """
        with self._lock:
            self._closed = True
            for process in self._running:
                _kill_group(process)

    def run(self, program: Path, task: Mapping[str, str], configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Run a plug-in and return its result, which is empty without output.

        Args:
            program: absolute path.
            task: the environment, `CNI_COMMAND` and others.
            configuration: written to its input.

        Raises:
            PluginFailedError: it could not be run, took too long, failed, or its result cannot be read.
            TryAgainLaterError: it asks for another attempt.
        """
        attempt = f"{task.get('CNI_COMMAND', '')} with the CNI plug-in {program.name}"
        try:
            outcome = self._outcome(program, task, msgspec.json.encode(configuration))
        except _ClosedError:
            raise PluginFailedError(attempt, "edgecore is stopping", "the next start undoes what was begun") from None
        except TimeoutError:
            raise PluginFailedError(attempt, f"it did not end within {self._seconds:g} s and was killed") from None
        except OverflowError:
            raise PluginFailedError(attempt, f"its result has more than {MOST_OUTPUT} bytes; it was killed") from None
        except OSError as error:
            raise PluginFailedError(attempt, str(error), "see where the CNI plug-ins are installed") from error
        if outcome.exit_code:
            raise _failure(attempt, outcome)
        try:
            return decode_json(outcome.output, dict[str, Any]) if outcome.output.strip() else {}
        except (msgspec.DecodeError, UnicodeError) as error:
            raise PluginFailedError(attempt, f"its result is no JSON object: {error}") from None

    def _outcome(self, program: Path, task: Mapping[str, str], text: bytes) -> _Outcome:
        with ExitStack() as stack:
            task_file = stack.enter_context(OwnedFd(os.memfd_create("cni", os.MFD_CLOEXEC)))
            os.pwrite(task_file, text, 0)
            process = subprocess.Popen(
                [program], stdin=task_file, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={"PATH": os.environ.get("PATH", _PATH), **task}, cwd="/", start_new_session=True,
            )  # fmt: skip
            stack.enter_context(process)
            stack.callback(_kill_group, process)
            assert process.stdout is not None and process.stderr is not None  # noqa: S101 - pipes were asked for
            ended = os.pidfd_open(process.pid)
            stack.callback(os.close, ended)
            with self._known(process):
                output, complaint = self._read(ended, process.stdout, process.stderr)
            return _Outcome(process.wait(), output, complaint)

    @contextmanager
    def _known(self, process: "subprocess.Popen[bytes]") -> Iterator[None]:
        """Let `close` kill a process, which nobody waits for meanwhile. Raises _ClosedError."""
        with self._lock:
            if self._closed:
                raise _ClosedError
            self._running.add(process)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(process)
                closed = self._closed
        if closed:
            raise _ClosedError

    def _read(self, ended: int, output: IO[bytes], complaint: IO[bytes]) -> tuple[bytes, bytes]:
        """Return the output of the process until its end. Raises TimeoutError, OverflowError."""
        texts = {output.fileno(): bytearray(), complaint.fileno(): bytearray()}
        deadline = self._clock.monotonic() + self._seconds
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        for descriptor in texts:
            os.set_blocking(descriptor, False)
            poll.register(descriptor, select.POLLIN)
        while True:
            left = max(0.0, deadline - self._clock.monotonic())
            ready = {descriptor for descriptor, _ in poll.poll(left * 1000)}
            if not left and ended not in ready:
                raise TimeoutError
            for descriptor in ready & texts.keys():
                if not _read_pipe(descriptor, texts[descriptor]):
                    poll.unregister(descriptor)
            if len(texts[output.fileno()]) > MOST_OUTPUT:
                raise OverflowError
            del texts[complaint.fileno()][_MOST_COMPLAINT:]
            if ended in ready:  # that was all that a pipe holds
                return bytes(texts[output.fileno()]), bytes(texts[complaint.fileno()])


def _read_pipe(descriptor: int, text: bytearray) -> bool:
    """Append the bytes that a pipe holds; return False at the end."""
    for _ in range(_PIPE_BYTES // _PIECE):
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return True
        if not data:
            return False
        text += data
    return True


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill the plug-in and its children, if it still runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _failure(attempt: str, outcome: _Outcome) -> PodNetworkError:
    try:
        error = decode_json(outcome.output, _PluginError)
    except (msgspec.DecodeError, UnicodeError):
        error = _PluginError()
    said = ": ".join(part for part in (error.msg, error.details) if part)
    said = said or outcome.complaint.decode(errors="replace") or f"it ended with {outcome.exit_code} and said nothing"
    reason = printable(said[:_LONGEST_MESSAGE].strip())
    if error.code == _TRY_AGAIN_LATER:
        return TryAgainLaterError(attempt, reason)
    return PluginFailedError(attempt, f"code {error.code}: {reason}" if error.code else reason, code=error.code)


class PluginChain:
    """The plug-ins of one network after another.

    Args:
        directories: of the plug-ins' programs.
        runner: runs one plug-in.
    """

    def __init__(self, directories: Sequence[Path], runner: PluginRunner) -> None:
        self._directories = directories
        self._runner = runner

    def add(self, attachment: Attachment, netns: str) -> dict[str, Any]:
        """Attach a sandbox; return the result of the last plug-in. Raises PodNetworkError."""
        network = attachment.network
        result: dict[str, Any] = {}
        for plugin in _needed(attachment):
            before = result if result and network.at_least(_RESULT_IN_ADD) else None
            said = self._run("ADD", attachment, netns, plugin, before)
            result = {"cniVersion": network.cni_version, **said} if said else result
        return result

    def repeat(self, attachment: Attachment, netns: str, kind: str) -> None:
        """Run ADD of one plug-in again, with the result of them all, to restore its rules; it must allow that.

        Raises PodNetworkError.
        """
        for plugin in _needed(attachment):
            if plugin["type"] == kind:
                self._run("ADD", attachment, netns, plugin, attachment.result)

    def delete(self, attachment: Attachment, netns: str) -> None:
        """Detach a sandbox. All plug-ins run, also after one has failed, so that an address is freed in any case.

        Where the requests of the pod are not known, or it was attached in part, nothing says which plug-ins have
        something to undo, and each one is run.

        Raises:
            PodNetworkError: one has failed, the first one to do so.
        """
        before = attachment.result if attachment.network.at_least(_RESULT_IN_DEL) else None
        failures: list[PodNetworkError] = []
        plugins = attachment.network.plugins if attachment.result is None else _needed(attachment)
        for plugin in reversed(plugins):
            try:
                self._run("DEL", attachment, netns, plugin, before)
            except PodNetworkError as error:
                if not (isinstance(error, PluginFailedError) and error.code == UNKNOWN_CONTAINER):
                    failures.append(error)
        for further in failures[1:]:
            _log.warning("%s", further)
        if failures:
            raise failures[0]

    def _run(
        self, command: str, attachment: Attachment, netns: str, plugin: Plugin, before: dict[str, Any] | None
    ) -> dict[str, Any]:
        program = find_plugin(plugin["type"], self._directories)
        if program is None:
            raise _missing(command, plugin["type"], self._directories)
        task = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": attachment.container_id,
            "CNI_NETNS": netns,
            "CNI_IFNAME": INTERFACE,
            "CNI_PATH": ":".join(map(str, self._directories)),
            "CNI_ARGS": attachment.arguments,
        }
        return self._runner.run(program, task, _input(attachment, plugin, before))


def _needed(attachment: Attachment) -> list[Plugin]:
    """Return the plug-ins that have something to do for the sandbox; the first one makes its interface."""
    first, *others = attachment.network.plugins
    return [first, *(each for each in others if not has_nothing_to_do(each, attachment.capabilities))]


def _input(attachment: Attachment, plugin: Plugin, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return a plug-in's input: its configuration, the network's name, and the pod's requests that it can fulfil."""
    network = attachment.network
    found = {name: value for name, value in plugin.items() if name != "capabilities"}
    found |= {"name": network.name, "cniVersion": network.cni_version}
    if values := runtime_config(plugin, attachment.capabilities):
        found["runtimeConfig"] = values
    if before is not None:
        found["prevResult"] = before
    return found


def _missing(command: str, kind: str, directories: Sequence[Path]) -> PodNetworkError:
    where = ", ".join(map(str, directories))
    hint = "apt-get install containernetworking-plugins"
    return PodNetworkError(f"{command} with the CNI plug-in {kind}", f"it is not in {where}", hint)
