"""The command `cloudcore nodes`: the nodes, and the state of their connections to this cloudcore. For a node that is
connected to another cloudcore, it names that cloudcore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from beehive.printable import printable
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode
from modules.tools.printing.ages import human_duration
from modules.tools.printing.columns import node_ready
from modules.tools.printing.fields import text_at
from modules.tools.printing.tables import aligned
from modules.tools.printing.terminal import print_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from modules.apimachinery.kinds import JsonObject
    from modules.cloud.messages import NodeConnection
    from modules.processes.cloudcore.control_service import RefusedConnection

_HEADINGS: Final = (
    "NAME", "STATUS", "CONNECTED", "KEEPALIVE", "WAITING", "UNACKED", "OLDEST", "VERSION", "LAST-ERROR",
)  # fmt: skip
_VERSION: Final = "status.nodeInfo.kubeletVersion"
_NONE: Final = "<none>"
_LONGEST_ERROR: Final = 80


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("nodes", help="print the nodes and their connections: lag, what waits, last error")
    parser.add_argument("-o", "--output", choices=("json",), help="print everything that is known of the connections")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore nodes`."""
    import msgspec  # noqa: PLC0415 - the command line is quick

    from modules.processes.cloudcore.control_client import ControlClient, Get  # noqa: PLC0415

    client = ControlClient(chosen.socket)
    found = client.connections()
    connections = found.nodes
    if chosen.output == "json":
        print_lines(msgspec.json.format(msgspec.json.encode(connections), indent=2).decode().splitlines())
        return ExitCode.OK
    nodes = [item.object for item in client.run(Get("Node")) if item.object is not None]
    print_lines(table(nodes, connections, client.cloudcores().elsewhere(), found.refused))
    return ExitCode.OK


def table(
    nodes: Sequence[JsonObject],
    connections: Sequence[NodeConnection],
    elsewhere: Mapping[str, str],
    refused: Sequence[RefusedConnection] = (),
) -> list[str]:
    """Return the lines of the table: a line for each Node, and for each connected node without one.

    Args:
        nodes: the Nodes.
        connections: to this cloudcore.
        elsewhere: by node, another cloudcore to which it has connected since.
        refused: nodes whose connections were refused by this cloudcore.
    """
    found = {str(node["metadata"]["name"]): node for node in nodes}
    connected = {one.node: one for one in connections}
    turned_away = {one.node: _ago(one.seconds, one.why) for one in refused}
    names = sorted(found.keys() | connected.keys() | turned_away.keys())
    if not names:
        return ["No nodes: none has registered, and none is connected."]
    rows = [
        _row(name, found.get(name), connected.get(name), elsewhere.get(name, ""), turned_away.get(name, _NONE))
        for name in names
    ]
    return aligned([_HEADINGS, *([printable(cell) for cell in row] for row in rows)])


def _row(
    name: str, node: JsonObject | None, connection: NodeConnection | None, holder: str, refusal: str
) -> tuple[str, ...]:
    status = "Unregistered" if node is None else node_ready(node)
    version = (text_at(node, _VERSION) if node is not None else "") or _NONE
    if connection is None:
        return (name, status, f"at {holder}" if holder else "no", _NONE, _NONE, _NONE, _NONE, version, refusal)
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


def _error(connection: NodeConnection) -> str:
    return _ago(connection.last_error_seconds, connection.last_error) if connection.last_error else _NONE


def _ago(seconds: float, text: str) -> str:
    shown = text if len(text) <= _LONGEST_ERROR else f"{text[: _LONGEST_ERROR - 1]}…"
    return f"{human_duration(int(seconds))} ago: {shown}"
