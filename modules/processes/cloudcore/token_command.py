"""The command `cloudcore token`: makes, lists and withdraws the tokens that let nodes join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.ages import utc
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.durations import seconds_option
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import Table, add_form, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from modules.cloud.identities.records import JoinToken, Record

_HEADINGS: Final = ("ID", "EXPIRES", "FOR", "USES", "USED-BY", "LABELS")
_NONE: Final = "<none>"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("token", help="print a token for nodes to join with; list and withdraw tokens")
    parser.add_argument(
        "action", nargs="?", choices=("create", "list", "delete"), default="create", help="default: %(default)s"
    )
    parser.add_argument("id", nargs="*", help="id of a token to delete, as `cloudcore token list` prints it")
    parser.add_argument(
        "--lifetime",
        type=seconds_option,
        metavar="DURATION",
        default=24 * 3600.0,
        help="how long the token is valid (default 24h)",
    )
    parser.add_argument("--node", metavar="NAME", default="", help="the only node that can join with it (default: any)")
    parser.add_argument("--once", action="store_true", help="one node can join with it, once")
    parser.add_argument(
        "--replace", action="store_true", help="the node's name may belong to another machine then; with --node, once"
    )
    parser.add_argument(
        "--labels", metavar="KEY=VALUE,…", default="", help="labels of the Nodes that join with it, when they register"
    )
    parser.add_argument(
        "--reason", metavar="TEXT", default="", help="shown by `cloudcore changes`, with create and delete"
    )
    add_form(parser, "of the list")
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore token`: print a new token, and nothing else, or a list."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415 - the command line is quick

    client = ControlClient(chosen.socket)
    if (chosen.action == "delete") != bool(chosen.id):
        print_error("cloudcore", "`cloudcore token delete ID` withdraws a token; `cloudcore token list` has the ids")
        return ExitCode.USAGE
    if chosen.action == "list":
        print_table(chosen.output, table(client.identities()))
    elif chosen.action == "delete":
        return _delete(client, chosen.id, chosen.reason)
    else:
        if chosen.replace and not chosen.node:
            print_error("cloudcore", "--replace is for one node: add --node NAME")
            return ExitCode.USAGE
        pairs = (each.partition("=") for each in chosen.labels.split(",") if each)
        labels = {key: value for key, _, value in pairs}
        token = client.token(
            chosen.lifetime, node=chosen.node, once=chosen.once, replace=chosen.replace, labels=labels,
            reason=chosen.reason,
        )  # fmt: skip
        print_lines([token])
    return ExitCode.OK


def _delete(client: Any, names: Sequence[str], reason: str) -> int:
    remarks = [client.withdraw_token(name, reason) for name in names]
    for name, remark in zip(names, remarks, strict=True):
        if remark:
            print_error("cloudcore", remark)
        else:
            print_lines([f"token {name} withdrawn"])
    return ExitCode.INTERNAL_ERROR if any(remarks) else ExitCode.OK


def table(records: Sequence[Record]) -> Table:
    """Return the table of tokens."""
    tokens = [each for each in records if each.__struct_config__.tag == "token"]
    return Table(_HEADINGS, [_row(each) for each in tokens], "No tokens: `cloudcore token` prints one.")  # type: ignore[arg-type]


def _row(token: JoinToken) -> tuple[str, ...]:
    whom = f"{token.node}{', another machine' if token.replace else ''}" if token.node else "any node"
    labels = ",".join(f"{key}={value}" for key, value in sorted(token.labels.items()))
    ends = utc(token.expires_at)
    return (token.name, ends, whom, "one" if token.once else "any", token.used_by or _NONE, labels or _NONE)
