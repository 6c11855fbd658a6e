"""Reads the node for the screen, over the owner's socket and the trace socket. Everything here may block."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

import msgspec

from beehive.decoding import decode_json
from beehive.errors import TraceError
from edged.stats.model import Summary
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.apimachinery.types import decode
from modules.apimachinery.types.codec import DecodeError
from modules.processes.common.pod_commands.client import NodeClient, dial, url
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.top.look import NodeSnapshot, RootDisk, Unreachable, pods_in
from modules.processes.edgecore.top.state import PATH, AgentState
from modules.processes.edgecore.trace_socket import SOCKET as TRACE_SOCKET
from modules.processes.edgecore.trace_socket import ask

TAIL_LINES: Final = 500
"""Lines of a log that are shown at first."""

_READ_BYTES: Final = 64 * 1024
_EXPLAIN_SECONDS: Final = 120.0
_SHORTEST_PAUSE: Final = 1.9
_LONGEST_PAUSE: Final = 15.0
_PAUSE_FACTOR: Final = 100.0
"""Seconds between two measurements of the use, and their proportion to the time that one takes."""
_NO_STATISTICS: Final = (503, 501)


class LogLines(Protocol):
    """A log that is followed."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the log as it grows, until the container ends or `close` is called. Raises NodeError."""

    def close(self) -> None:
        """End `pieces`, from any thread."""


class NodeView(Protocol):
    """The node as the screen sees it. All methods may block."""

    def snapshot(self) -> NodeSnapshot | Unreachable:
        """Return the answers of this moment."""

    def log(self, namespace: str, pod: str, container: str) -> LogLines:
        """Begin to follow the log of a container. Raises NodeError."""

    def explain(self, namespace: str, pod: str) -> str:
        """Return the story of a pod, out of the flight recorder. Raises NodeError."""

    def events(self, namespace: str, pod: str) -> list[JsonObject]:
        """Return the events of a pod, or of everything without one. Raises NodeError."""


class SocketLog:
    """A log that is followed over the owner's socket (`LogLines`)."""

    def __init__(self, path: Path, request: str) -> None:
        self._request = request
        self._path = path
        self._socket = dial(path)
        self._closed = False

    def pieces(self) -> Iterator[bytes]:
        """Yield the log as it grows, until the container ends or `close` is called. Raises NodeError."""
        connection = HTTPConnection("localhost")
        self._socket.settimeout(None)
        connection.sock = self._socket
        try:
            connection.request("GET", self._request)
            answer = connection.getresponse()
            if answer.status != 200:
                raise NodeError(answer.read(_READ_BYTES).decode(errors="replace").strip(), status=answer.status)
            while data := answer.read1(_READ_BYTES):
                yield data
        except (OSError, HTTPException) as error:
            if not self._closed:
                raise NodeError("edgecore broke off", str(self._path), str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def close(self) -> None:
        """End `pieces`, from any thread."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class SocketView:
    """The node behind the owner's socket (`NodeView`).

    Use is measured less often than the rest is read when that takes the node long: it reads the figures of each
    container for it (110 pods: 0.1 s of a processor).

    Args:
        node: the client.
        clock: monotonic seconds.
    """

    def __init__(self, node: NodeClient, clock: Callable[[], float] = monotonic) -> None:
        self._node = node
        self._clock = clock
        self._usage: Summary | None = None
        self._measure_at = 0.0

    def snapshot(self) -> NodeSnapshot | Unreachable:
        """Return the answers of this moment."""
        try:
            state = decode_json(self._node.get(PATH), AgentState)
            return NodeSnapshot(state, pods_in(self._node.get("/pods")), self._newest_usage(), self._disk())
        except NodeError as error:
            return Unreachable(_why(error))
        except (msgspec.DecodeError, DecodeError, UnicodeError) as error:
            return Unreachable(f"edgecore's answer cannot be read: {error}")

    def log(self, namespace: str, pod: str, container: str) -> SocketLog:
        """Begin to follow the log of a container. Raises NodeError."""
        query = [("follow", "true"), ("tailLines", str(TAIL_LINES))]
        return SocketLog(self._node.path, url("containerLogs", namespace, pod, container, query=query))

    def explain(self, namespace: str, pod: str) -> str:
        """Return the story of a pod, out of the flight recorder.

        `edgecore trace explain` is run as a process of its own: it takes a second of processor time and 50 MB. The file
        of the flight recorder is removed afterwards, or the files that a crash has left would have to go.

        Raises:
            NodeError: the flight recorder could not be written or read.
        """
        file = self._flight_recorder()
        try:
            command = [sys.executable, "-m", "modules.processes.edgecore", "trace", "explain", str(file), "pod"]
            done = subprocess.run(
                [*command, f"{namespace}/{pod}"], stdin=subprocess.DEVNULL, capture_output=True,
                timeout=_EXPLAIN_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NodeError("edgecore trace explain did not end", str(file), str(error)) from error
        finally:
            file.unlink(missing_ok=True)
        return (done.stdout + done.stderr).decode(errors="replace")

    def events(self, namespace: str, pod: str) -> list[JsonObject]:
        """Return the events of a pod, or of everything without one. Raises NodeError."""
        query = [("fieldSelector", f"involvedObject.name={pod}")] if pod else []
        parts = ("namespaces", namespace, "events") if pod else ("events",)
        try:
            answer = decode_json(self._node.get(url("api", "v1", *parts, query=query)), dict[str, Any])
        except (msgspec.DecodeError, UnicodeError) as error:
            raise NodeError("edgecore's answer cannot be read", "", str(error)) from error
        except NodeError as error:
            if error.status == 404:
                hint = "`cloudcore get events` shows those that were reported"
                raise NodeError("this node serves no events", "", hint, status=404) from error
            raise
        return [event for event in objects_at(answer, "items") if not pod or _about(event) == (namespace, pod)]

    def _newest_usage(self) -> Summary | None:
        """Return the use of node and pods, measured now or a little while ago."""
        began = self._clock()
        if began >= self._measure_at:
            self._usage = self._measure()
            took = self._clock() - began
            self._measure_at = began + min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, took * _PAUSE_FACTOR))
        return self._usage

    def _measure(self) -> Summary | None:
        try:
            return decode(Summary, self._node.get("/stats/summary?only_cpu_and_memory=true"))
        except NodeError as error:
            if error.status in _NO_STATISTICS:
                return None
            raise

    def _disk(self) -> RootDisk | None:
        """Return the use of the file system of the root directory, which is on this machine as its socket is."""
        try:
            usage = shutil.disk_usage(self._node.path.parent)
        except OSError:
            return None
        return RootDisk(usage.used, usage.used + usage.free)

    def _flight_recorder(self) -> Path:
        try:
            answer = ask(self._node.path.with_name(TRACE_SOCKET))
        except TraceError as error:
            raise NodeError(str(error)) from error
        if "path" not in answer:
            raise NodeError("edgecore could not write its flight recorder", str(answer.get("error", "")))
        return Path(str(answer["path"]))


def _why(error: NodeError) -> str:
    match error.__cause__:
        case FileNotFoundError() | ConnectionRefusedError():
            return "edgecore is not running"
        case TimeoutError():
            return "edgecore does not answer"
        case PermissionError():
            return "this user may not ask edgecore: its owner or root may"
    if error.status == 404:
        return "the edgecore that runs is older than this command"
    return str(error)


def _about(event: JsonObject) -> tuple[str, str]:
    return text_at(event, "involvedObject.namespace"), text_at(event, "involvedObject.name")
