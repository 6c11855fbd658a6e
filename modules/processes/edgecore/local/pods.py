"""The command `edgecore pods`: prints the node's pods in the columns of `kubectl get pods`."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from beehive.printable import printable
from edged.api import ContainerStatus, Pod, parse_time
from edged.api.times import SECOND
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.local.node import node_of, report_errors
from modules.tools.printing.terminal import print_json, print_lines

if TYPE_CHECKING:
    import argparse

_HEAD = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP")


def pods(chosen: argparse.Namespace) -> int:
    """Print the pods."""
    with report_errors():
        node = node_of(chosen)
        if chosen.output == "json":
            print_json(node.get("/pods"))
        else:
            print_lines(table([_HEAD, *(row(pod, time()) for pod in _sorted(node.pods()))]))
    return ExitCode.OK


def row(pod: Pod, now: float) -> tuple[str, ...]:
    """Return the cells of one pod; `now` in seconds since the epoch."""
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
    """Return a pod's state in one word, as kubectl does: the reason that holds it up, else its phase."""
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
    """Return a length of time in its largest unit: `42s`, `7m`, `5h`, `3d`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length or (unit == "d" and seconds >= length):
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Pad cells to the widths of their columns."""
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
