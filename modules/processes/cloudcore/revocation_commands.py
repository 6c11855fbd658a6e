"""The commands `cloudcore revoke`, `cloudcore allow` and `cloudcore revoked`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beehive.printable import printable
from modules.apimachinery.printing.ages import utc
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import Table, add_form, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from modules.cloud.identities.records import Record

_KINDS: Final = ("node", "certificate", "user")
_HEADINGS: Final = ("KIND", "NAME", "SINCE", "REASON")
_WHAT: Final = "a node by its name, a certificate by its serial number, a user of `cloudcore kubeconfig` by its name"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    parser = commands.add_parser("revoke", help="lock out a node, a certificate or an administrator, immediately")
    _add_subject(parser, "shown in the list, to the node and by `cloudcore changes`")
    parser.add_argument(
        "--tls-dir", type=Path, metavar="DIR", help="directory of the authority (default: tls below --root)"
    )
    parser.set_defaults(command=f"{__name__}:revoke")
    parser = commands.add_parser("allow", help="end a revocation")
    _add_subject(parser, "shown by `cloudcore changes`")
    parser.set_defaults(command=f"{__name__}:allow")
    parser = commands.add_parser("revoked", help="print which nodes, certificates and users are revoked")
    add_form(parser)
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:revoked")


def _add_subject(parser: argparse.ArgumentParser, reason: str) -> None:
    parser.add_argument("kind", choices=_KINDS, help=_WHAT)
    parser.add_argument("name", nargs="+", help="name or serial number")
    parser.add_argument("--reason", metavar="TEXT", default="", help=reason)
    add_socket_options(parser)


def revoke(chosen: argparse.Namespace) -> int:
    """Run `cloudcore revoke`; it returns once no port of this cloudcore takes the certificates."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415 - the command line is quick
    from modules.processes.cloudcore.issued_kubeconfigs import serials_of  # noqa: PLC0415

    client = ControlClient(chosen.socket)
    for name in chosen.name:
        serials = serials_of(chosen.tls_dir, name) if chosen.kind == "user" else ()
        client.revoke(chosen.kind, name, chosen.reason, serials)
        print_lines([f"{chosen.kind} {printable(name)} revoked"])
    return ExitCode.OK


def allow(chosen: argparse.Namespace) -> int:
    """Run `cloudcore allow`."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415

    client = ControlClient(chosen.socket)
    remarks = [client.allow(chosen.kind, name, chosen.reason) for name in chosen.name]
    for name, remark in zip(chosen.name, remarks, strict=True):
        if remark:
            print_error("cloudcore", remark)
        else:
            print_lines([f"{chosen.kind} {printable(name)} allowed"])
    return ExitCode.INTERNAL_ERROR if any(remarks) else ExitCode.OK


def revoked(chosen: argparse.Namespace) -> int:
    """Run `cloudcore revoked`."""
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415

    print_table(chosen.output, table(ControlClient(chosen.socket).identities()))
    return ExitCode.OK


def table(records: Sequence[Record]) -> Table:
    """Return the table of revocations."""
    rows = []
    for each in records:
        at, kind = getattr(each, "revoked_at", 0.0), str(each.__struct_config__.tag)
        if at:
            reason = getattr(each, "reason", "") or "<none>"
            rows.append((kind, each.name, utc(at), reason))
    return Table(_HEADINGS, rows, "Nothing is revoked.")
