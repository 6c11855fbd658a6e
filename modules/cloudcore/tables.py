"""Tables of objects as kubectl prints them."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from modules.cloudcore.pod_summary import pod_ready, pod_restarts, pod_status
from modules.edgecontroller.kinds import JsonObject, Kind
from modules.edgecontroller.times import seconds_of

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_NONE = "<none>"
_LEASE_SECONDS = 40
"""A kubelet's lease duration."""


class Column(NamedTuple):
    """One column of a table."""

    title: str
    cell: Callable[[JsonObject], str]
    wide: bool = False
    """Only with `-o wide`."""


_NAME = Column("NAME", lambda obj: str(obj["metadata"]["name"]))
_NAMESPACE = Column("NAMESPACE", lambda obj: str(obj["metadata"].get("namespace", "")))


def _columns(kind: Kind, now: float, silent: Collection[str]) -> list[Column]:
    age = Column("AGE", lambda obj: age_of(obj, now))
    match kind.name:
        case "Pod":
            return [_NAME, Column("READY", pod_ready), Column("STATUS", pod_status),
                    Column("RESTARTS", lambda pod: str(pod_restarts(pod))), age,
                    Column("IP", lambda pod: str((pod.get("status") or {}).get("podIP") or _NONE), wide=True),
                    Column("NODE", lambda pod: str(pod["spec"].get("nodeName") or _NONE), wide=True)]  # fmt: skip
        case "Node":
            return [_NAME, Column("STATUS", lambda node: _node_status(node, silent)), Column("ROLES", _node_roles), age,
                    Column("VERSION", lambda node: _node_info(node, "kubeletVersion")),
                    Column("INTERNAL-IP", _node_address, wide=True),
                    Column("CONTAINER-RUNTIME", lambda node: _node_info(node, "containerRuntimeVersion"), wide=True),
                    ]  # fmt: skip
        case "ConfigMap":
            return [_NAME, Column("DATA", _data_count), age]
        case "Secret":
            return [_NAME, Column("TYPE", lambda secret: str(secret.get("type", ""))), Column("DATA", _data_count), age]
        case "Lease":
            return [_NAME, Column("HOLDER", lambda lease: str((lease.get("spec") or {}).get("holderIdentity"))), age]
        case "Event":
            return [Column("TYPE", lambda event: str(event.get("type", ""))),
                    Column("REASON", lambda event: str(event.get("reason", ""))),
                    Column("OBJECT", _event_object),
                    Column("MESSAGE", lambda event: str(event.get("message", "")).strip())]  # fmt: skip
        case _:
            return [_NAME, age]


def table(
    kind: Kind,
    objects: Sequence[JsonObject],
    now: float,
    *,
    wide: bool = False,
    namespaces: bool = False,
    silent: Collection[str] = (),
) -> list[list[str]]:
    """Head and rows.

    Args:
        kind: of all the objects.
        objects: the rows.
        now: seconds since the epoch, for ages.
        wide: with all columns.
        namespaces: with the namespace in front.
        silent: names of nodes that have not renewed their lease in time.
    """
    columns = [column for column in _columns(kind, now, silent) if wide or not column.wide]
    if namespaces and kind.namespaced:
        columns.insert(0, _NAMESPACE)
    return [[column.title for column in columns], *([column.cell(obj) for column in columns] for obj in objects)]


def aligned(rows: Sequence[Sequence[str]], widths: list[int] | None = None) -> list[str]:
    """The rows as lines with aligned columns, three spaces between them.

    `widths` are kept and widened from call to call, for tables whose rows come one by one.
    """
    widths = widths if widths is not None else []
    for row in rows:
        widths.extend([0] * (len(row) - len(widths)))
        widths[:] = [max(width, len(cell)) for width, cell in zip(widths, row, strict=False)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]


def age_of(obj: JsonObject, now: float) -> str:
    """How old an object is, in kubectl's words (HumanDuration)."""
    created = seconds_of(str(obj["metadata"].get("creationTimestamp") or ""))
    return "<unknown>" if created is None else human_duration(max(0, int(now - created)))


def human_duration(seconds: int) -> str:
    """A duration in at most two units, the finer one left out as it grows (HumanDuration)."""
    minutes, hours, days = seconds // _MINUTE, seconds // _HOUR, seconds // _DAY
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % _MINUTE, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    return f"{days}d"


def _two(big: int, unit: str, small: int, small_unit: str) -> str:
    return f"{big}{unit}{small}{small_unit}" if small else f"{big}{unit}"


def _data_count(obj: JsonObject) -> str:
    return str(len(obj.get("data") or {}) + len(obj.get("binaryData") or {}))


def silent_nodes(leases: Sequence[JsonObject], now: float) -> set[str]:
    """Nodes whose lease has run out: what they last said of themselves is not true any more.

    A cluster's node controller writes this into the node's conditions; nobody does so here.
    """
    specs = {lease["metadata"]["name"]: lease.get("spec") or {} for lease in leases}
    renewed = {name: seconds_of(str(spec.get("renewTime") or "")) for name, spec in specs.items()}
    return {
        name
        for name, at in renewed.items()
        if at is not None and now - at > int(specs[name].get("leaseDurationSeconds") or _LEASE_SECONDS)
    }


def _node_status(node: JsonObject, silent: Collection[str]) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), None)
    if ready is None:
        return "Unknown"
    return "Ready" if ready.get("status") == "True" and node["metadata"]["name"] not in silent else "NotReady"


def _node_roles(node: JsonObject) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or _NONE


def _node_info(node: JsonObject, name: str) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get(name) or "")


def _node_address(node: JsonObject) -> str:
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((str(a.get("address")) for a in addresses if a.get("type") == "InternalIP"), _NONE)


def _event_object(event: JsonObject) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"
