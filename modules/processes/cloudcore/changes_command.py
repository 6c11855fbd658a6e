"""The command `cloudcore changes`: who changed which fields of which object, and how far each change got; and who let
whom in or locked whom out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from beehive.printable import printable
from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.terminal import print_error
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import Table, add_form, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from modules.cloud.object_writes import WriteList
    from modules.insight.fleet.changes import ChangeRow
    from modules.insight.fleet.rows import FleetPodRow
    from modules.processes.cloudcore.control_client import ControlClient

_HEADINGS: Final = ("AGE", "USER", "VIA", "CHANGE", "OBJECT", "FIELDS", "REACHED")
_NONE: Final = "<none>"
_MOST: Final = 500
_SHOWN_FIELDS: Final = 2
_LONGEST: Final = 80
_PODS: Final = ("Pod", "Deployment", "ReplicaSet", "ReplicationController", "DaemonSet", "StatefulSet", "Job")
"""Kinds whose changes are seen at pods."""


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "changes", help="print who changed which object, and how far it got; and who locked out whom"
    )
    parser.add_argument(
        "object", nargs="?", default="", metavar="KIND[/NAME]", help="only changes of these objects, or this one"
    )
    parser.add_argument("--namespace", "-n", default="", metavar="NS", help="only changes in this namespace")
    parser.add_argument(
        "--node", default="", metavar="NODE", help="only changes by this node, and of objects that it has"
    )
    parser.add_argument("--since", default="", metavar="DURATION", help="only changes since so long: 90m, 24h")
    parser.add_argument("--limit", type=int, default=50, help=f"changes at most, up to {_MOST} (default: %(default)s)")
    parser.add_argument(
        "--all", "-a", action="store_true",
        help="also what cloudcore and nodes did by themselves, as with an object or --node",
    )  # fmt: skip
    add_form(parser, "json has everything that is known of the changes")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore changes`."""
    from modules.cloud.object_writes import NO_JOURNAL, WriteQuery, kind_asked  # noqa: PLC0415 - the command line is quick
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415
    from modules.processes.common.durations import parse_duration  # noqa: PLC0415

    now = time.time()
    try:
        since = now - parse_duration(chosen.since) if chosen.since else 0.0
    except ValueError:
        print_error("cloudcore", f"--since {printable(chosen.since)}: a duration is wanted, as in 90m or 24h")
        return ExitCode.USAGE
    kind, _, name = chosen.object.partition("/")
    people_only = not (chosen.all or chosen.object or chosen.node)
    query = WriteQuery(
        kind=kind_asked(kind), namespace=chosen.namespace, name=name, node=chosen.node, since=since,
        limit=max(1, min(chosen.limit, _MOST)), people_only=people_only,
    )  # fmt: skip
    client = ControlClient(chosen.socket)
    found = client.changes(query)
    if not found.is_kept:
        print_error("cloudcore", NO_JOURNAL)
        if not found.writes:
            return ExitCode.INTERNAL_ERROR
    rows = reached(client, found, now)
    print_table(chosen.output, table(rows, found.more, now, people_only=people_only), rows)
    return ExitCode.OK


def reached(client: ControlClient, found: WriteList, now: float) -> list[ChangeRow]:
    """Return the rows of changes, with what nodes and pods say now. Raises ControlError."""
    from modules.insight.fleet.changes import ChangeReach, Holders  # noqa: PLC0415 - the command line is quick

    namespaces = {each.write.namespace for each in found.writes if each.write.kind in _PODS}
    reach = ChangeReach(_pods(client, namespaces), *_nodes(client, now))
    return reach.rows([(each.write, Holders(each.holders, each.acknowledged, each.behind)) for each in found.writes])


def _pods(client: ControlClient, namespaces: set[str]) -> list[FleetPodRow]:
    from modules.insight.fleet.rows import pod_row  # noqa: PLC0415 - the command line is quick

    return [pod_row(pod) for namespace in sorted(namespaces) for pod in client.objects("Pod", namespace)]


def _nodes(client: ControlClient, now: float) -> tuple[set[str], set[str]]:
    """Return the nodes that are away, or were never connected, and all that are known."""
    from modules.cloud.messages import LinkQuery  # noqa: PLC0415 - the command line is quick
    from modules.insight.fleet.facts import LinkKnowledge, linked_row  # noqa: PLC0415
    from modules.insight.fleet.rows import PodCount  # noqa: PLC0415
    from modules.insight.fleet.states import AWAY, NEVER  # noqa: PLC0415

    connected = {each.node for each in client.nodes()} | client.cloudcores().elsewhere().keys()
    newest = {each.node: [each] for each in client.links(LinkQuery(newest_only=True))}
    nodes = {str(node["metadata"]["name"]): node for node in client.objects("Node")}
    rows = [
        linked_row(name, node, LinkKnowledge(sessions=newest.get(name, [])), PodCount(), now)
        for name, node in nodes.items()
        if name not in connected
    ]
    return {row.name for row in rows if row.state in (AWAY, NEVER)}, nodes.keys() | connected


def table(rows: Sequence[ChangeRow], more: int, now: float, *, people_only: bool = False) -> Table:
    """Return the table of changes, the newest first."""
    left_out = ["What cloudcore and nodes did by themselves is left out: --all shows it."] if people_only else []
    cells = [
        (
            human_duration(int(max(0.0, now - each.at))), each.user, each.manager or _NONE, each.verb, each.key,
            _fields(each), each.reached or _NONE,
        )
        for each in rows
    ]  # fmt: skip
    further = [f"{more} more: --limit, --since or a KIND/NAME selects others."] if more else []
    return Table(_HEADINGS, cells, "No changes: the journal keeps seven days.", [*further, *left_out])


def _fields(row: ChangeRow) -> str:
    """Return a few of the changed fields, cut to a column."""
    if not row.fields:
        return _NONE
    named = [each if len(each) <= _LONGEST else f"…{each[1 - _LONGEST :]}" for each in row.fields[:_SHOWN_FIELDS]]
    rest = len(row.fields) - len(named)
    beyond = f" and {rest}{' or more' if row.more else ''} more" if rest else ""
    return f"{', '.join(named)}{beyond}"
