"""The shim spawner: forks a shim for each request of edgecore, and ends with edgecore; its shims go on."""

import contextlib
import gc
import os
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from modules.runtimes.shim import kernel, roots
from modules.runtimes.shim.connections import close_all
from modules.runtimes.shim.protocol import (
    EXIT_RECORD,
    FORK_SHIM,
    START_ERROR_EXIT_CODE,
    TEXT_LIMIT,
    ContainerSpec,
    ExitRecord,
    Namespacing,
    from_memory_file,
    receive,
    send,
)
from modules.runtimes.shim.shim import Shim, write_json

_DESCRIPTOR_LIMIT = 3
_SHIM_FAILED_EXIT_CODE = 255
_BUILT = "built"


def serve(descriptor: int) -> None:
    """Fork a process for each request until the other side of the socket closes.

    FORK_SHIM comes with a memory file (ContainerSpec), a control socket and a listening socket; `probe` with a socket
    for its answer.
    """
    os.umask(0o077)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as requests:
        while (received := receive(requests, _DESCRIPTOR_LIMIT)) is not None:
            message, descriptors = received
            try:
                child = os.fork()
            except OSError as error:
                _refuse(message["op"], descriptors, f"cannot start another process: {error.strerror}")
            else:
                if child == 0:
                    requests.close()
                    _serve_one(message["op"], message.get("scratch", ""), descriptors)
            close_all(descriptors)


def _refuse(operation: str, descriptors: list[int], reason: str) -> None:
    """Answer a request for which the machine has no process. Without descriptors for it, or when nobody waits any more,
    the end of its socket is the answer.
    """
    with contextlib.suppress(IndexError, OSError):
        if operation == FORK_SHIM:
            ended = ExitRecord(
                exit_code=START_ERROR_EXIT_CODE, finished_at=time.time_ns(), reason="StartError", message=reason
            )
            _answer(descriptors[1], {"event": "exited", **ended})
        else:
            _answer(descriptors[0], {"namespacing": "", "reason": reason})


def _answer(descriptor: int, message: dict[str, Any]) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as answers:
        send(answers, message)


def _serve_one(operation: str, scratch: str, descriptors: list[int]) -> NoReturn:
    try:
        os.setsid()
        if operation == FORK_SHIM:
            _run_shim(*descriptors)
        else:
            _probe(scratch, *descriptors)
    finally:
        os._exit(0)


def _run_shim(spec_file: int, control: int, listener: int) -> None:
    spec: ContainerSpec = from_memory_file(spec_file)
    directory = Path(spec["directory"])
    kernel.name_process(f"{FORK_SHIM}-{directory.name[:6]}")
    try:
        Shim(spec, socket.socket(fileno=control), socket.socket(fileno=listener)).run()
    except Exception:  # noqa: BLE001 (the reason goes into the exit record)
        record = ExitRecord(
            exit_code=_SHIM_FAILED_EXIT_CODE,
            finished_at=time.time_ns(),
            reason="ShimFailed",
            message=traceback.format_exc()[-TEXT_LIMIT:],
        )
        write_json(directory / EXIT_RECORD, record)


def _probe(scratch: str, answer: int) -> None:
    """Try out how containers can have mounts of their own on this machine, as this user."""
    reasons = []
    with socket.socket(fileno=answer) as answers:
        for namespacing in _candidates():
            reason = _try_out(namespacing, scratch)
            if not reason:
                send(answers, {"namespacing": namespacing, "reason": ""})
                return
            reasons.append(reason)
        send(answers, {"namespacing": "", "reason": "; ".join(reasons)})


def _candidates() -> tuple[Namespacing, ...]:
    return ("mount", "user") if os.geteuid() == 0 else ("user",)


def _try_out(namespacing: Namespacing, scratch: str) -> str:
    """Build a root as for a container, in a process of its own; return why that failed, or an empty text. A process
    that says nothing, as it was killed, has not succeeded.
    """
    unknown = f"a {namespacing} namespace: the attempt has ended early"
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        reason = unknown
        try:
            roots.leave_host_mounts(namespacing)
            roots.build([["scaffold", "/", scratch], ["readonly", scratch], ["enter", scratch]])
            reason = _BUILT
        except OSError as error:
            reason = f"a {namespacing} namespace: {error.strerror} ({error.filename})"
        finally:
            os.write(write_end, reason.encode())
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        reason = answer.read() or unknown
    return "" if reason == _BUILT else reason
