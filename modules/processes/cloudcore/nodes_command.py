"""The command `cloudcore nodes`: the nodes, and the state of their connections to this cloudcore. For a node that is
connected to another cloudcore, it names that cloudcore; for a node that is away, since when. With `--history`, the link
journal: when nodes were connected, and why a connection ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from beehive.printable import printable
from modules.apimachinery.printing.ages import human_duration, utc
from modules.apimachinery.printing.columns import node_ready
from modules.apimachinery.printing.fields import text_at
from modules.apimachinery.printing.terminal import print_error
from modules.insight.fleet.facts import LinkKnowledge, linked_row
from modules.insight.fleet.rows import PodCount
from modules.insight.fleet.states import NEVER
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import Table, add_form, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from modules.apimachinery.kinds import JsonObject
    from modules.cloud.messages import LinkSession, NodeConnection
    from modules.processes.cloudcore.control_service import RefusedConnection

_HEADINGS: Final = (
    "NAME", "STATUS", "CONNECTED", "KEEPALIVE", "WAITING", "UNACKED", "OLDEST", "VERSION", "LAST-ERROR",
)  # fmt: skip
_VERSION: Final = "status.nodeInfo.kubeletVersion"
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_LONGEST_ERROR: Final = 80
_HISTORY: Final = ("NODE", "FROM", "UNTIL", "LASTED", "ADDRESS", "CLOUDCORE", "END")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("nodes", help="print the nodes and their connections: lag, what waits, last error")
    parser.add_argument("name", nargs="?", default="", metavar="NODE", help="only this node (with --history)")
    parser.add_argument(
        "--history", action="store_true", help="print the connections of the last seven days, and why each ended"
    )
    parser.add_argument(
        "-l", "--selector", default="", metavar="LABELS", help="only nodes with these labels: site=kiel,!spare"
    )
    add_form(parser, "json has everything that is known of the connections")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore nodes`."""
    from modules.apimachinery.selectors import parse_label_selector  # noqa: PLC0415
    from modules.cloud.messages import LinkQuery  # noqa: PLC0415 - the command line is quick
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415
    from modules.processes.cloudcore.errors import ApiRefusedError  # noqa: PLC0415

    try:
        selector = parse_label_selector(chosen.selector)
    except ValueError as error:
        print_error("cloudcore", f"--selector {printable(chosen.selector)}: {error}")
        return ExitCode.USAGE
    client = ControlClient(chosen.socket)
    if chosen.history:
        sessions = client.links(LinkQuery(chosen.name))
        print_table(chosen.output, history(sessions, time.time()), sessions)
        return ExitCode.OK
    found = client.connections()
    nodes: list[JsonObject] = []
    remarks: Sequence[str] = ()
    try:
        nodes = client.objects("Node")
    except ApiRefusedError as error:
        remarks = [f"The Nodes are not known: {printable(error.hint)}"]
    newest, elsewhere = client.links(LinkQuery(newest_only=True)), client.cloudcores().elsewhere()
    connections, refused = found.nodes, found.refused
    if not selector.selects_all:
        nodes = [node for node in nodes if selector.selects(node)]
        wanted = {str(node["metadata"]["name"]) for node in nodes}
        connections = [each for each in connections if each.node in wanted]
        refused = [each for each in refused if each.node in wanted]
    shown = table(nodes, connections, elsewhere, refused, newest, time.time(), are_read=not remarks)
    empty = shown.empty if selector.selects_all else "No node has these labels."
    print_table(chosen.output, shown._replace(empty=empty, remarks=remarks), connections)
    return ExitCode.NOT_DONE if remarks else ExitCode.OK


def history(sessions: Sequence[LinkSession], now: float) -> Table:
    """Return the table of connections."""
    rows = [
        (
            each.node, utc(each.began), utc(each.ended) if each.ended else _NONE,
            human_duration(int(max(0.0, (each.ended or now) - each.began))), each.address or _NONE,
            each.cloudcore, each.reason or _NONE,
        )
        for each in sessions
    ]  # fmt: skip
    return Table(_HISTORY, rows, "No connections: the link journal keeps those of the last seven days.")


def table(
    nodes: Sequence[JsonObject],
    connections: Sequence[NodeConnection],
    elsewhere: Mapping[str, str],
    refused: Sequence[RefusedConnection] = (),
    newest: Sequence[LinkSession] = (),
    now: float = 0.0,
    *,
    are_read: bool = True,
) -> Table:
    """Return the table: a line for each Node, and for each connected node without one.

    Args:
        nodes: the Nodes.
        connections: to this cloudcore.
        elsewhere: by node, another cloudcore with a newer connection.
        refused: nodes whose connections were refused by this cloudcore.
        newest: the newest connection of each node in the link journal.
        now: seconds since 1970.
        are_read: whether the API server has told the Nodes.
    """
    found = {str(node["metadata"]["name"]): node for node in nodes}
    connected = {one.node: one for one in connections}
    last = {each.node: each for each in newest}
    turned_away = {one.node: _ago(one.seconds, one.why) for one in refused}
    names = sorted(found.keys() | connected.keys() | turned_away.keys())
    rows = [
        _row(
            name, found.get(name), connected.get(name), turned_away.get(name, _NONE),
            _absence(name, found.get(name), elsewhere.get(name, ""), last.get(name), now), are_read=are_read,
        )
        for name in names
    ]  # fmt: skip
    return Table(_HEADINGS, rows, "No nodes: none has registered, and none is connected.")


def _row(
    name: str, node: JsonObject | None, connection: NodeConnection | None, refusal: str, absence: str, *, are_read: bool
) -> tuple[str, ...]:
    status = node_ready(node) if node is not None else "Unregistered" if are_read else _UNKNOWN
    version = (text_at(node, _VERSION) if node is not None else "") or _NONE
    if connection is None:
        return (name, status, absence, _NONE, _NONE, _NONE, _NONE, version, refusal)
    oldest = human_duration(int(connection.oldest_seconds)) if connection.unacknowledged else _NONE
    return (
        name,
        status,
        human_duration(int(connection.connected_seconds)),
        human_duration(int(connection.keepalive_seconds)),
        f"{connection.waiting}{' (slow)' if connection.is_behind else ''}",
        str(connection.unacknowledged),
        oldest,
        version,
        _error(connection),
    )


def _absence(name: str, node: JsonObject | None, holder: str, newest: LinkSession | None, now: float) -> str:
    """Return the text in the column CONNECTED for a node without a connection to this cloudcore."""
    if holder:
        return f"at {holder}"
    link = LinkKnowledge(sessions=[newest] if newest is not None else [])
    row = linked_row(name, node, link, PodCount(), now)
    if row.state == NEVER:
        return row.state
    return f"{row.state} {human_duration(int(now - row.since))}"


def _error(connection: NodeConnection) -> str:
    return _ago(connection.last_error_seconds, connection.last_error) if connection.last_error else _NONE


def _ago(seconds: float, text: str) -> str:
    shown = text if len(text) <= _LONGEST_ERROR else f"{text[: _LONGEST_ERROR - 1]}…"
    return f"{human_duration(int(seconds))} ago: {shown}"
