"""`edgecore pods`: what runs here, and how, in the columns that `kubectl get pods` has."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from beehive.text import printable
from edged.api import ContainerStatus, Pod, parse_time
from edged.api.times import SECOND
from modules.edgecore.exit_codes import ExitCode
from modules.edgecore.local.node import node_of, said
from modules.printing.terminal import say_json, say_lines

if TYPE_CHECKING:
    import argparse

_HEAD = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP")


def pods(chosen: argparse.Namespace) -> int:
    """Prints them."""
    with said():
        node = node_of(chosen)
        if chosen.output == "json":
            say_json(node.get("/pods"))
        else:
            say_lines(table([_HEAD, *(row(pod, time()) for pod in _sorted(node.pods()))]))
    return ExitCode.OK


def row(pod: Pod, now: float) -> tuple[str, ...]:
    """One pod; `now` in seconds since the epoch."""
    statuses = pod.status.container_statuses
    ready = sum(status.ready for status in statuses)
    begun = pod.metadata.creation_timestamp or pod.status.start_time
    return (
        pod.metadata.namespace,
        pod.metadata.name,
        f"{ready}/{len(pod.spec.containers)}",
        state(pod),
        str(sum(status.restart_count for status in statuses)),
        age(now - parse_time(begun) / SECOND) if begun else "?",
        pod.status.pod_ip or "-",
    )


def state(pod: Pod) -> str:
    """One word for how a pod is, as kubectl chooses it: what holds it up, else its phase."""
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    status = pod.status
    if status.reason:
        return status.reason
    for number, each in enumerate(status.init_container_statuses):
        if each.state.running and each.started:
            continue
        if each.state.terminated is None or each.state.terminated.exit_code:
            reason = _reason(each)
            done = "" if reason in ("", "PodInitializing") else reason
            return f"Init:{done or f'{number}/{len(status.init_container_statuses)}'}"
    reasons = [reason for each in status.container_statuses if (reason := _reason(each))]
    return reasons[0] if reasons else status.phase or "Pending"


def age(seconds: float) -> str:
    """A length of time in its largest unit: `42s`, `7m`, `5h`, `3d`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length or (unit == "d" and seconds >= length):
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as what is in them."""
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _reason(status: ContainerStatus) -> str:
    if status.state.waiting is not None:
        return status.state.waiting.reason
    ended = status.state.terminated
    return (ended.reason or f"ExitCode:{ended.exit_code}") if ended is not None else ""


def _sorted(pods: tuple[Pod, ...]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
