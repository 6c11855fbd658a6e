"""Streaming requests between CRI's answer, an address, and the connection to it (containerd's and kubelet's rules)."""

import threading
from collections.abc import Mapping
from typing import Final

import msgspec

from beehive import Clock
from modules.runtimes.engine.errors import BadRequestError, TooManyError
from protos.cri.v1 import api_pb2 as cri

VALID_SECONDS: Final = 60.0
"""Seconds that the client has to connect."""
MOST_WAITING: Final = 1000
_MOST_PORTS: Final = 32
_TOKEN_BITS: Final = 256


class StreamRequest(msgspec.Struct, frozen=True):
    """The request that an address stands for: exec, attach, or ports of a sandbox."""

    kind: str
    """First part of the address's path: `exec`, `attach` or `portforward`."""
    target: str
    """Id of the container, or of the sandbox."""
    command: tuple[str, ...] = ()
    tty: bool = False
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    ports: tuple[int, ...] = ()


def exec_request(request: cri.ExecRequest) -> StreamRequest:
    """Return the checked request. Raises BadRequestError."""
    attempt = f"run a command in container {request.container_id}"
    if not request.cmd:
        raise BadRequestError(attempt, "no command is given")
    _check(attempt, request)
    streams = (request.tty, request.stdin, request.stdout, request.stderr)
    return StreamRequest("exec", request.container_id, tuple(request.cmd), *streams)


def attach_request(request: cri.AttachRequest) -> StreamRequest:
    """Return the checked request. Raises BadRequestError."""
    _check(f"attach to container {request.container_id}", request)
    return StreamRequest("attach", request.container_id, (), request.tty, request.stdin, request.stdout, request.stderr)


def port_forward_request(request: cri.PortForwardRequest) -> StreamRequest:
    """Return the checked request. Raises BadRequestError."""
    attempt = f"forward ports of sandbox {request.pod_sandbox_id}"
    if not request.pod_sandbox_id:
        raise BadRequestError(attempt, "the id of the sandbox is missing")
    if len(request.port) > _MOST_PORTS or not all(0 < port < 65_536 for port in request.port):
        raise BadRequestError(attempt, f"at most {_MOST_PORTS} ports are possible, of 1 to 65535")
    return StreamRequest("portforward", request.pod_sandbox_id, ports=tuple(request.port))


def _check(attempt: str, request: cri.ExecRequest | cri.AttachRequest) -> None:
    if not request.container_id:
        raise BadRequestError(attempt, "the id of the container is missing")
    if request.tty and request.stderr:
        raise BadRequestError(attempt, "a terminal has no stream of errors", "ask for tty or stderr")
    if not (request.stdin or request.stdout or request.stderr):
        raise BadRequestError(attempt, "no stream is asked for", "one of stdin, stdout, stderr")


class WaitingRequests:
    """Requests whose client has not come yet, by the random last part of their address. Safe in threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, StreamRequest]] = {}
        """By expiry, the earliest first."""

    def add(self, request: StreamRequest) -> str:
        """Keep a request for a minute; return its token.

        Raises:
            TooManyError: `MOST_WAITING` wait already.
        """
        token = f"{self._clock.random.getrandbits(_TOKEN_BITS):064x}"
        with self._lock:
            self._expire(self._waiting)
            if len(self._waiting) >= MOST_WAITING:
                reason = f"{MOST_WAITING} requests wait for their client"
                raise TooManyError("prepare a stream", reason, f"try again after {VALID_SECONDS:g} s")
            self._waiting[token] = (self._clock.monotonic() + VALID_SECONDS, request)
        return token

    def pop(self, kind: str, token: str) -> StreamRequest | None:
        """Return the request with this token, once; None if it is unknown or has expired."""
        with self._lock:
            self._expire(self._waiting)
            found = self._waiting.get(token)
            if found is None or found[1].kind != kind:
                return None
            del self._waiting[token]
            return found[1]

    def _expire(self, waiting: Mapping[str, tuple[float, StreamRequest]]) -> None:
        now = self._clock.monotonic()
        for token in [token for token, (until, _) in waiting.items() if until <= now]:
            del self._waiting[token]
