"""What a node answers, and what its `doctor` finds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from .journal import NodeObservation, read_json
from .processes import LOOK_AGAIN_SECONDS, number_in

_DOCTOR_SECONDS: Final = 60.0
_SETTLED_SECONDS: Final = 30.0
_SETTLED_LOOKS: Final = 2
"""Looks in a row at which no pod waits: the statuses follow in the same turn of edged."""
_ANSWER_SECONDS: Final = 10.0
_LARGEST_ANSWER: Final = 64 * 1024 * 1024


def observe_node(path: str) -> NodeObservation | None:
    """Return the node that answers on a socket; None if none does."""
    import http.client  # noqa: PLC0415 - 1 MiB that a node which imports this module for its start does without

    try:
        (state, process), (pods, _) = _get(path, "/edgecore/state"), _get(path, "/pods")
        return NodeObservation(
            version=str(state["version"]),
            connected=state["link"].get("connected_at") is not None,
            unready=sorted(name for name, module in state["modules"].items() if module["state"] != "ready"),
            containers=_running_containers(pods),
            memory=_memory_of(process),
        )
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, AttributeError):
        return None


def observe_settled_node(path: str) -> NodeObservation | None:
    """Return the node that answers on a socket, once no pod waits for its worker; after `_SETTLED_SECONDS` as it is
    then. A node that was started just now shows containers of its last run, which a restart of the machine has ended.
    """
    deadline, looks = time.monotonic() + _SETTLED_SECONDS, 0
    while looks < _SETTLED_LOOKS and time.monotonic() < deadline:
        looks = 0 if _is_busy(path) else looks + 1
        time.sleep(LOOK_AGAIN_SECONDS)
    return observe_node(path)


def _is_busy(path: str) -> bool:
    """Return whether a pod of the node waits for a worker, or is with one."""
    import http.client  # noqa: PLC0415 - as in `observe_node`

    try:
        state, _ = _get(path, "/edgecore/state")
        return bool(state["work"]["waiting"] or state["work"]["working"])
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return False


def _get(path: str, target: str) -> tuple[Any, int]:
    """Return an answer, and the process that listens."""
    import http.client  # noqa: PLC0415 - the same

    with (
        closing(http.client.HTTPConnection("localhost")) as connection,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected,
    ):
        connected.settimeout(_ANSWER_SECONDS)
        connected.connect(path)
        connection.sock = connected
        connection.request("GET", target)
        process = int.from_bytes(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4), sys.byteorder)
        answer = connection.getresponse()
        text = answer.read(_LARGEST_ANSWER)
        if answer.status != http.client.OK:
            raise ValueError(f"{target}: {answer.status}")
        return read_json(text), process


def _memory_of(process: int) -> int:
    """Return the bytes that a process has resident; 0 if they are not known."""
    with suppress(OSError, IndexError):
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
        return number_in(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _running_containers(pods: Any) -> dict[str, str]:
    found = {}
    for pod in pods.get("items") or ():
        metadata, status = pod["metadata"], pod.get("status", {})
        for container in status.get("containerStatuses") or ():
            if "running" in (container.get("state") or {}):
                name = f"{metadata['namespace']}/{metadata['name']} {metadata['uid']} {container['name']}"
                found[name] = str(container["containerID"])
    return found


def failed_checks(program: Path, options: Sequence[str]) -> list[str] | None:
    """Return the checks of `doctor` that fail; None if it does not work."""
    command = [str(program), "doctor", "--json", *options]
    try:
        said = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DOCTOR_SECONDS, check=False
        )
        return [str(each["check"]) for each in read_json(said.stdout) if each["level"] == "FAIL"]
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, KeyError):
        return None
