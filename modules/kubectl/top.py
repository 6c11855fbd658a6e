"""`top`: shows the processor and memory usage of nodes and pods, from `metrics.k8s.io`."""

from __future__ import annotations

import time
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from beehive.printable import printable
from modules.apimachinery.printing.ages import age_of
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at
from modules.apimachinery.printing.tables import TableWriter
from modules.apimachinery.types.quantity import parse_quantity
from modules.cli.errors import KubectlError, UsageError
from modules.kubectl import arguments
from modules.kubectl.discovery import ApiResource
from modules.kubectl.resources import Listing, objects_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from modules.cli.parser import VerbParser
    from modules.kubectl.session import Session

_GROUP: Final = ("metrics.k8s.io", "v1beta1")
_NODE_METRICS: Final = ApiResource("nodes", "nodemetrics", "NodeMetrics", *_GROUP, namespaced=False)
_POD_METRICS: Final = ApiResource("pods", "podmetrics", "PodMetrics", *_GROUP)
_NODES: Final = ("nodes", "node", "no")
_PODS: Final = ("pods", "pod", "po")
_OF_PODS: Final = ("all_namespaces", "containers", "sum", "field_selector")
"""Options that nodes do not have."""
_USED: Final = ("CPU(cores)", "MEMORY(bytes)")
_OF_A_NODE: Final = ("NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)")
_UNKNOWN: Final = "<unknown>"
_RULE: Final = "________"
_MEBIBYTE: Final = 1 << 20
_NO_ANSWER: Final = "does not answer by a stream tunnel (modules.edgeStream; on the node `edgecore doctor` says why)"


class ResourceMetricsInfo(NamedTuple):
    """The usage of a node, a pod or a container."""

    key: tuple[str, ...]
    """Name of the node; or namespace and pod, of a container its name too."""
    cpu: Fraction
    """Cores."""
    memory: Fraction
    """Bytes."""

    @property
    def cells(self) -> tuple[str, str]:
        """Thousandths of a core, rounded up, and whole MiB, as kubectl prints them."""
        return f"{_milli(self.cpu)}m", f"{ceil(self.memory) // _MEBIBYTE}Mi"


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument("words", nargs="*", metavar="nodes|pods [NAME]", help="all of them, or one")
    arguments.add_namespace(parser)
    arguments.add_selectors(parser)
    parser.flag("--containers", text="pods: a row for each container")
    parser.flag("--sum", text="pods: with a last row for all together")
    parser.flag("--show-capacity", text="nodes: shares of all that they have, not of what pods may use")
    parser.add_argument("--sort-by", default="", metavar="cpu|memory", help="the greatest first (default: by name)")
    parser.flag("--no-headers", text="no titles")
    parser.flag("--use-protocol-buffers")


def run(session: Session, chosen: Any) -> int:
    """Print the table."""
    what, *names = chosen.words or [""]
    if what not in (*_NODES, *_PODS):
        raise UsageError(f"`{session.program} top nodes` or `{session.program} top pods` is wanted")
    if len(names) > 1:
        raise UsageError("one name at most; -l selects several by labels")
    if names and (chosen.selector or chosen.field_selector):
        raise UsageError("only one of NAME or selector can be provided")
    if chosen.sort_by not in ("", "cpu", "memory"):
        raise UsageError("--sort-by accepts only cpu or memory")
    if what in _PODS:
        _check(chosen, ("show_capacity",), "nodes")
        return _top_pods(session, chosen, *names)
    _check(chosen, _OF_PODS, "pods")
    return _top_nodes(session, chosen, *names)


def _check(chosen: Any, options: Iterable[str], only: str) -> None:
    for option in options:
        if getattr(chosen, option):
            raise UsageError(f"--{option.replace('_', '-')} is of `top {only}` only")


def _top_nodes(session: Session, chosen: Any, name: str = "") -> int:
    found = _asked(session, chosen, _NODE_METRICS, name)
    if not found:
        raise KubectlError(f"metrics not available yet: a node is left out that {_NO_ANSWER}")
    nodes = _asked(session, chosen, session.discovery.one("nodes"), name)
    field = "status.capacity" if chosen.show_capacity else "status.allocatable"
    available = {text_at(node, "metadata.name"): map_at(node, field) for node in nodes}
    usage = ordered((_usage((text_at(each, "metadata.name"),), [each]) for each in found), chosen.sort_by)
    rows = [_node_row(each, available.pop(each.key[0], {})) for each in usage]
    rows += [[printable(name), *[_UNKNOWN] * (len(_OF_A_NODE) - 1)] for name in sorted(available)]
    _print(chosen, _OF_A_NODE, rows)
    return 0


def _node_row(usage: ResourceMetricsInfo, available: JsonObject) -> list[str]:
    cpu, memory = usage.cells
    shares = [_share(used, available.get(name)) for name, used in (("cpu", usage.cpu), ("memory", usage.memory))]
    return [printable(usage.key[0]), cpu, shares[0], memory, shares[1]]


def _share(used: Fraction, whole: Any) -> str:
    """Return a percentage without its fraction, computed from thousandths as kubectl does."""
    available = 0 if whole is None else _milli(parse_quantity(whole))
    return f"{int(_milli(used) / available * 100)}%" if available > 0 else _UNKNOWN


def _milli(amount: Fraction) -> int:
    """Return thousandths, rounded up (Quantity.MilliValue)."""
    return ceil(amount * 1000)


def _top_pods(session: Session, chosen: Any, name: str = "") -> int:
    if name and session.all_namespaces:
        raise UsageError("a resource cannot be retrieved by name across all namespaces")
    found = _asked(session, chosen, _POD_METRICS, name)
    if not found:
        _check_why_none(session, chosen)
        where = "" if session.all_namespaces else f" in {session.namespace} namespace."
        session.print_remark(f"No resources found{where}")
        return 0
    pods = ordered((_usage(_key(pod), objects_at(pod, "containers")) for pod in found), chosen.sort_by)
    rows = [[*each.key, *each.cells] for each in (_containers(found, pods, chosen) if chosen.containers else pods)]
    head = ["NAMESPACE", *(["POD"] if chosen.containers else []), "NAME", *_USED]
    if chosen.sum:
        total = _usage((), (one for pod in found for one in objects_at(pod, "containers")))
        blank = [""] * (len(head) - len(_USED))
        rows += [[*blank, _RULE, _RULE], [*blank, *total.cells]]
    first = 0 if session.all_namespaces else 1
    _print(chosen, head[first:], [[printable(cell) for cell in row[first:]] for row in rows])
    return 0


def _containers(
    found: Sequence[JsonObject], pods: Iterable[ResourceMetricsInfo], chosen: Any
) -> Iterable[ResourceMetricsInfo]:
    """Yield the containers of pods, pod by pod."""
    by_key: dict[tuple[str, ...], list[JsonObject]] = {_key(pod): objects_at(pod, "containers") for pod in found}
    for pod in pods:
        each_usage = [_usage((*pod.key, text_at(one, "name")), [one]) for one in by_key[pod.key]]
        yield from ordered(each_usage, chosen.sort_by)


def ordered(usage: Iterable[ResourceMetricsInfo], by: str) -> list[ResourceMetricsInfo]:
    """Return the greatest first by `cpu` or `memory`, those alike and by any other word in the order of their names."""
    return sorted(usage, key=lambda each: (-getattr(each, by) if by else 0, each.key))


def _usage(key: tuple[str, ...], measured: Iterable[JsonObject]) -> ResourceMetricsInfo:
    """Return the sum of the measured usage.

    Raises:
        QuantityError: the server's figures are no quantities.
    """
    cpu, memory = Fraction(), Fraction()
    for amounts in (map_at(each, "usage") for each in measured):
        cpu += parse_quantity(amounts.get("cpu", 0))
        memory += parse_quantity(amounts.get("memory", 0))
    return ResourceMetricsInfo(key, cpu, memory)


def _key(pod: JsonObject) -> tuple[str, str]:
    return text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name")


def _asked(session: Session, chosen: Any, resource: ApiResource, name: str) -> list[JsonObject]:
    """Return the object of this name, or the objects that the options select."""
    if name:
        return [session.client.get(resource.path(session.namespace, name))]
    selectors = (("labelSelector", chosen.selector), ("fieldSelector", chosen.field_selector))
    query = tuple((key, text) for key, text in selectors if text)
    return objects_of(session, Listing(resource, session.list_namespace if resource.namespaced else "", query))[0]


def _check_why_none(session: Session, chosen: Any) -> None:
    """Raise KubectlError if there are pods without any measured usage."""
    pods = _asked(session, chosen, session.discovery.one("pods"), "")
    if not pods:
        return
    for pod in pods:
        if text_at(pod, "status.phase") == "Running":
            who = f"pod {'/'.join(_key(pod))}, age: {age_of(pod, time.time())}"
            raise KubectlError(f"Metrics not available for {who}: its node {_NO_ANSWER}, or has not measured it yet")
    raise KubectlError("metrics not available yet: none of the pods runs")


def _print(chosen: Any, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    TableWriter(chosen.color, cut=False).write(head, rows, with_head=not chosen.no_headers)
