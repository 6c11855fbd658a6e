"""The command `cloudcore devices history`: the values that a device has reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.ages import utc
from modules.apimachinery.printing.terminal import print_error
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import Table, add_form, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from modules.cloud.device_values import HistoryValue

_HEADINGS: Final = ("TIME", "PROPERTY", "VALUE")
_MOST: Final = 2000


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("devices", help="print the values that a device has reported")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    history = verbs.add_parser("history", help="print the last values that its node has reported, of seven days")
    history.add_argument("device", metavar="DEVICE", help="NAMESPACE/NAME: default/thermo")
    history.add_argument("property", nargs="?", default="", metavar="PROPERTY", help="only of this one (default: all)")
    history.add_argument("--limit", type=int, default=50, help=f"values at most, up to {_MOST} (default: %(default)s)")
    add_form(history)
    add_socket_options(history)
    history.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Run `cloudcore devices history`."""
    from modules.cloud.device_values import NO_VALUES, ValueQuery  # noqa: PLC0415 - the command line is quick
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415

    namespace, _, name = chosen.device.rpartition("/")
    query = ValueQuery(namespace or "default", name, chosen.property, max(1, min(chosen.limit, _MOST)))
    found = ControlClient(chosen.socket).device_values(query)
    if not found.most:
        print_error("cloudcore", NO_VALUES)
        return ExitCode.INTERNAL_ERROR
    print_table(chosen.output, table(found.values))
    return ExitCode.OK


def table(found: Sequence[HistoryValue]) -> Table:
    """Return the table of values, the newest last."""
    rows = [(utc(each.at), each.property, each.value) for each in found]
    return Table(_HEADINGS, rows, "No values: its node has reported none in seven days.")
