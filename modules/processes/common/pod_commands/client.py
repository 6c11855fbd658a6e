"""HTTP client of a server of containers behind a socket of this machine: edgecore, or cloudcore for all its nodes."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote, urlencode

import msgspec

from beehive.http.errors import HttpStatusError
from beehive.sockets.unix_sockets import connect_unix
from edged.server.pod_lookup import find_pod
from modules.apimachinery.printing.terminal import print_error, print_text
from modules.apimachinery.types import Pod, decode
from modules.apimachinery.types.pods import PodList
from modules.cli.errors import KubectlError
from modules.cli.rest import RestClient, path_of
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from modules.processes.common.pod_commands.target import PodTarget

SECONDS: Final = 30.0
"""Time limit for the beginning of an answer."""

NOT_RUNNING: Final = "is `edgecore run` running, with the same --root or --config?"

_READ_BYTES: Final = 64 * 1024
_NONE: Final[Mapping[str, str]] = {}


class NodeClient:
    """HTTP client of the edgecore behind a socket. All requests raise NodeError."""

    program: ClassVar[str] = "edgecore"
    """The program behind the socket, for errors."""
    not_running: ClassVar[str] = NOT_RUNNING
    """Advice where nobody answers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def dial(self) -> socket.socket:
        """Connect to the socket."""
        return dial(self.path, self.program, self.not_running)

    def print_remark(self, text: str) -> None:
        """Print an error or a remark about the result on standard error."""
        print_error(self.program, text)

    def stream_url(
        self, action: str, namespace: str, pod: str, container: str = "", query: Sequence[tuple[str, str]] = ()
    ) -> str:
        """Return path and query of a request for a stream.

        Args:
            action: `containerLogs`, `exec`, `attach` or `portForward`, as in a kubelet's paths.
            namespace: of the pod.
            pod: its name.
            container: its container; empty for `portForward`.
            query: with a kubelet's names.
        """
        return url(action, namespace, pod, *([container] if container else []), query=query)

    def refusal(self, status: int, body: bytes) -> NodeError:
        """Return the error for an unsuccessful response."""
        return NodeError(body.decode(errors="replace").strip() or f"refused with status {status}", status=status)

    def get(self, path: str) -> bytes:
        """Return the whole answer."""
        return b"".join(self.stream(path))

    def stream(
        self,
        path: str,
        *,
        patient: bool = False,
        method: str = "GET",
        headers: Mapping[str, str] = _NONE,
        body: bytes | None = None,
    ) -> Iterator[bytes]:
        """Yield the answer as it arrives; `patient` waits without a time limit."""
        connection = HTTPConnection("localhost")
        try:
            connection.sock = self.dial()
            if patient:
                connection.sock.settimeout(None)
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            if answer.status != 200:
                raise self.refusal(answer.status, answer.read(_READ_BYTES))
            while data := answer.read1(_READ_BYTES):
                yield data
        except (OSError, HTTPException) as error:
            raise NodeError(f"{self.program} broke off", str(self.path), str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def pods(self, namespace: str = "", selector: str = "") -> tuple[Pod, ...]:
        """Return the pods of the node, of one namespace or (empty) all, with these labels.

        Raises:
            KubectlError: the selector cannot be read.
        """
        if not namespace and not selector:
            return decode(PodList, self.get("/pods")).items
        inside = ("namespaces", namespace) if namespace else ()
        query = [("labelSelector", selector)] if selector else []
        client = RestClient(self.path, self.not_running)
        return decode(PodList, client.raw("GET", path_of("api", "v1", *inside, "pods"), query)).items

    def pod(self, target: PodTarget) -> Pod:
        """Return a pod."""
        try:
            return find_pod(self.pods(), *target)
        except HttpStatusError as error:
            raise NodeError(str(error)) from None


def dial(path: Path, program: str = NodeClient.program, not_running: str = NOT_RUNNING) -> socket.socket:
    """Connect to the socket of a program, by default edgecore. Raises NodeError."""
    try:
        return connect_unix(path, SECONDS)
    except OSError as error:
        hint = f"only who runs {program} may" if isinstance(error, PermissionError) else not_running
        raise NodeError(f"cannot reach {program}", str(path), hint) from error


def url(*parts: str, query: Sequence[tuple[str, str]] = ()) -> str:
    """Return the path of these parts, with a query."""
    return with_query("".join(f"/{quote(part, safe='')}" for part in parts), query)


def with_query(path: str, query: Sequence[tuple[str, str]]) -> str:
    """Return a path with a query."""
    return f"{path}?{urlencode(query)}" if query else path


@contextmanager
def report_errors(program: str) -> Iterator[None]:
    """Turn errors of a command into a line on standard error and an exit status."""
    say = partial(print_error, program)
    try:
        yield
    except NodeError as error:
        say(f"error: {error}")
        raise SystemExit(ExitCode.USAGE if error.usage else ExitCode.REFUSED) from None
    except (KubectlError, msgspec.DecodeError) as error:
        say(f"error: {error}")
        raise SystemExit(ExitCode.REFUSED) from None
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None


def remark(text: str) -> None:
    """Print a remark of kubectl's on standard error, in its words; nothing for an empty text."""
    if text:
        print_text(text, to=sys.stderr)
