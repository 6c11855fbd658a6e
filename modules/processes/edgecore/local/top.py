"""The command `edgecore top`: the CPU and memory in use, in the columns of `kubectl top`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from edged.stats.model import Summary
from modules.apimachinery.printing.fields import text_at
from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_lines
from modules.apimachinery.types import decode, parse_time
from modules.apimachinery.types.quantity import parse_quantity
from modules.cli.errors import KubectlError
from modules.cli.rest import path_of
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.target import pod_target
from modules.processes.edgecore.local.node import node_of, report_errors, rest_client
from modules.processes.edgecore.reporting import print_remark

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from edged.stats.model import CpuStats, MemoryStats
    from modules.processes.common.pod_commands.client import NodeClient

SECONDS: Final = 2.1
"""Seconds between the two measurements that the use of CPU is computed from: the node measures every two seconds at
most (`edged.stats.provider.FRESH`).
"""

_MEBIBYTE: Final = 1 << 20
_UNKNOWN: Final = "<unknown>"
_PODS: Final = ("pods", "pod", "po")
_NODES: Final = ("nodes", "node", "no")


class Usage(NamedTuple):
    """The usage of a node, a pod or a container."""

    key: tuple[str, ...]
    """Node; or namespace and pod, of a container its name too."""
    cpu: int | None
    """Thousandths of a core; None if it is not known."""
    memory: int | None
    """Working set in bytes; None if it is not known."""


def top(chosen: argparse.Namespace) -> int:
    """Print the usage of pods or of the node; without a word, of all pods."""
    with report_errors():
        if not chosen.words:
            chosen.all_namespaces = True
        what, *names = chosen.words or ["pods"]
        if what in _NODES:
            return _top_node(chosen, names)
        if what in _PODS:
            return _top_pods(chosen, names)
        raise NodeError("pods or nodes is wanted", what, "edgecore top pods", usage=True)


def _top_pods(chosen: argparse.Namespace, names: Sequence[str]) -> int:
    targets = [pod_target(name, chosen.namespace) for name in names]
    node = node_of(chosen)
    namespace = "" if chosen.all_namespaces else chosen.namespace or "default"
    wanted = {(pod.metadata.namespace, pod.metadata.name) for pod in node.pods(namespace, chosen.selector)}
    first, second = _measured(node)
    found = usages(first, second, containers=chosen.containers)
    usage = [each for each in found if each.key[:2] in (targets or wanted)]
    missing = [target for target in targets if target not in {each.key[:2] for each in found}]
    if not usage and not missing:
        print_remark(f"no pods in namespace {namespace}" if namespace else "no pods on this node")
    if usage:
        print_lines(_pod_table(ordered(usage, chosen.sort_by), chosen))
    for target in missing:
        print_remark(f"error: nothing is known of pod {target}: it does not run here")
    return ExitCode.REFUSED if missing else ExitCode.OK


def _pod_table(usage: Sequence[Usage], chosen: argparse.Namespace) -> list[str]:
    head = ("NAMESPACE", *(("POD", "NAME") if chosen.containers else ("NAME",)), "CPU(cores)", "MEMORY(bytes)")
    rows = [(*each.key, _cores(each.cpu), _bytes(each.memory)) for each in usage]
    if chosen.sum:
        blank = ("",) * (len(head) - 3)
        sums = [sum(value or 0 for value in column) for column in ((u.cpu for u in usage), (u.memory for u in usage))]
        rows.append((*blank, "________", "________", "________"))
        rows.append((*blank, "", _cores(sums[0]), _bytes(sums[1])))
    lines = rows if chosen.no_headers else [head, *rows]
    return aligned(lines if chosen.all_namespaces else [cells[1:] for cells in lines])


def _top_node(chosen: argparse.Namespace, names: Sequence[str]) -> int:
    node = node_of(chosen)
    first, second = _measured(node)
    name = second.node.node_name
    for other in names:
        if other != name:
            raise NodeError("no such node here", other, f"this one is {name}; the cloud knows the others")
    allocatable = _allocatable(chosen, name)
    cpu, memory = cores(first.node.cpu, second.node.cpu), _working_set(second.node.memory)
    row = (name, _cores(cpu), _share(cpu, allocatable["cpu"]), _bytes(memory), _share(memory, allocatable["memory"]))
    head = ("NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)")
    print_lines(aligned([row] if chosen.no_headers else [head, row]))
    return ExitCode.OK


def _measured(node: NodeClient) -> tuple[Summary, Summary]:
    """Return two measurements with `SECONDS` between them."""
    first = decode(Summary, node.get("/stats/summary?only_cpu_and_memory=true"))
    threading.Event().wait(SECONDS)
    return first, decode(Summary, node.get("/stats/summary?only_cpu_and_memory=true"))


def usages(first: Summary, second: Summary, *, containers: bool = False) -> list[Usage]:
    """Return the usage of the pods, or of their containers, between two measurements, in the order of their keys."""
    before = dict(_counters(first, containers=containers))
    found = [
        Usage(key, cores(before.get(key, (None, None))[0], cpu), _working_set(memory))
        for key, (cpu, memory) in _counters(second, containers=containers)
    ]
    return sorted(found, key=lambda each: each.key)


Counters = tuple["CpuStats | None", "MemoryStats | None"]


def _counters(summary: Summary, *, containers: bool) -> Iterable[tuple[tuple[str, ...], Counters]]:
    for pod in summary.pods:
        key = (pod.pod_ref.namespace, pod.pod_ref.name)
        if containers:
            yield from ((((*key, each.name)), (each.cpu, each.memory)) for each in pod.containers)
        else:
            yield key, (pod.cpu, pod.memory)


def cores(before: CpuStats | None, after: CpuStats | None) -> int | None:
    """Return thousandths of a core used since the former measurement: the node's rate, else computed from times that
    are whole seconds.
    """
    if after is None:
        return None
    if after.usage_nano_cores is not None:
        return round(after.usage_nano_cores / 1_000_000)
    if before is None or before.usage_core_nano_seconds is None or after.usage_core_nano_seconds is None:
        return None
    used = after.usage_core_nano_seconds - before.usage_core_nano_seconds
    passed = parse_time(after.time) - parse_time(before.time)
    return round(used * 1000 / passed) if passed > 0 and used >= 0 else None


def ordered(usage: Iterable[Usage], by: str) -> list[Usage]:
    """Return the greatest first by `cpu` or `memory`, unknown ones last; as they are for any other word."""
    if by not in ("cpu", "memory"):
        return list(usage)
    return sorted(usage, key=lambda each: -(getattr(each, by) if getattr(each, by) is not None else -1))


def _allocatable(chosen: argparse.Namespace, name: str) -> Mapping[str, float]:
    """Return cores (in thousandths) and bytes that pods may use; 0 where the node does not say."""
    try:
        node = rest_client(chosen).get(path_of("api", "v1", "nodes", name))
    except KubectlError:
        return {"cpu": 0, "memory": 0}
    texts = {key: text_at(node, f"status.allocatable.{key}") or "0" for key in ("cpu", "memory")}
    return {"cpu": float(parse_quantity(texts["cpu"]) * 1000), "memory": float(parse_quantity(texts["memory"]))}


def _working_set(memory: MemoryStats | None) -> int | None:
    return memory.working_set_bytes if memory is not None else None


def _cores(milli: int | None) -> str:
    return _UNKNOWN if milli is None else f"{milli}m"


def _bytes(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number // _MEBIBYTE}Mi"


def _share(used: int | None, whole: float) -> str:
    return _UNKNOWN if used is None or whole <= 0 else f"{int(used * 100 / whole)}%"
