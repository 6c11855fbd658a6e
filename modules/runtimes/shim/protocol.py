"""The messages between edgecore, the shim spawner and the shims.

They are JSON in packets of a sequenced-packet unix socket, so a message is never split. Long content (a process to be
started, with its environment) travels as an anonymous memory file whose descriptor is passed along; so no secret is in
a file or a process list.
"""

import json
import os
import socket
from typing import Any, Literal, NewType, TypedDict

PACKET_LIMIT = 64 * 1024
"""Bytes of the longest packet; messages that could be longer cut their texts."""

TEXT_LIMIT = 4096
"""Characters of an error text that are sent and stored."""

FORK_SHIM = "shim"
"""The spawner's operation that forks a shim; `ps` shows the shim as this word and its container's id."""

CONTROL_SOCKET = "control"
RUN_RECORD = "run.json"
EXIT_RECORD = "exit.json"

Namespacing = Literal["", "mount", "user"]
"""How a container gets mounts of its own: not at all, with a mount namespace, or with a user namespace around it."""

Step = list[str]
"""One step in building a private root; the first element is its kind (see `roots`)."""

Pid = NewType("Pid", int)

TERM = "xterm"
"""The kind of a process's terminal, unless the pod names one."""

START_ERROR_EXIT_CODE = 128
"""Exit code of a container whose command could not be started, as containerd reports it."""


class UserSpec(TypedDict):
    """The user and groups of a process."""

    uid: int
    gid: int
    groups: list[int]


class ProcessSpec(TypedDict):
    """One process to be started: a container's main process, or a command executed in a running container."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    user: UserSpec | None
    no_new_privileges: bool


class ContainerSpec(TypedDict):
    """The specification of a container for its shim."""

    directory: str
    log: str
    namespacing: Namespacing
    steps: list[Step]
    process: ProcessSpec
    terminal: bool
    """Whether the process has a terminal; it takes input then, whatever `stdin` says."""
    stdin: bool
    """Whether attached clients may give input."""
    stdin_once: bool
    """Whether the input ends with that of the first attached client."""
    oom_score_adj: int | None


class RunRecord(TypedDict):
    """Written when the command runs. `pid` is valid as long as the shim lives; `started_at`: nanoseconds since the
    epoch.
    """

    pid: int
    started_at: int


class ExitRecord(TypedDict):
    """Written when the container has ended with all its processes. `finished_at`: nanoseconds since the epoch."""

    exit_code: int
    finished_at: int
    reason: str
    message: str


def send(sock: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    """Send one packet. Raises OSError when the other side has closed or, on a non-blocking socket, does not read."""
    socket.send_fds(sock, [json.dumps(message).encode()], descriptors or [])


def receive(sock: socket.socket, descriptor_limit: int = 0) -> tuple[dict[str, Any], list[int]] | None:
    """Receive one packet with its descriptors; return None when the other side has closed."""
    packet, descriptors, _, _ = socket.recv_fds(sock, PACKET_LIMIT, descriptor_limit)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 (recv_fds of Python 3.11 hands no flags on)
    return (json.loads(packet), descriptors) if packet else None


def to_memory_file(name: str, content: Any) -> int:
    """Put `content` as JSON into an anonymous file; the caller closes the descriptor. Raises OSError."""
    text = json.dumps(content).encode()
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(text)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def from_memory_file(descriptor: int) -> Any:
    """Read the content that `to_memory_file` wrote, and close the descriptor."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return json.load(file)
