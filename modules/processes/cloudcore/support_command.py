"""The command `cloudcore support-bundle`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.processes.cloudcore.paths import add_socket_options, paths_of
from modules.processes.common.support_bundle import add_support_arguments

if TYPE_CHECKING:
    import argparse

_UNIT: Final = "cloudcore.service"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("support-bundle", help="write what somebody who helps has to see, without secrets")
    add_support_arguments(parser)
    add_socket_options(parser)
    parser.add_argument("--database", default="", metavar="FILE|URL", help="the same as of `cloudcore run`")
    parser.add_argument("--tls-dir", type=Path, metavar="DIR", help="the same as of `cloudcore run`")
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Write the bundle; return the exit status."""
    from modules.processes.common.reporting import reporting  # noqa: PLC0415 - the command line is quick

    return reporting("cloudcore")(_write)(chosen)


def _write(chosen: argparse.Namespace) -> None:
    from beehive.clock import RealClock  # noqa: PLC0415 - likewise, as all below
    from beehive.trace.redact import Redactor  # noqa: PLC0415
    from modules.processes.common.support_bundle.bundle import (  # noqa: PLC0415
        SupportPart,
        common_parts,
        make_bundle,
    )

    paths, clock = paths_of(chosen), RealClock()
    parts = [
        SupportPart(
            "cloud/doctor.json",
            "what `cloudcore doctor` finds",
            partial(_doctor, paths.socket, paths.database, paths.tls),
        ),
        *common_parts("cloudcore", chosen, _UNIT, [paths.root, Path("/")]),
    ]
    try:
        make_bundle("cloudcore", "", chosen.output, parts, Redactor(hides_values=True), clock)
    finally:
        clock.close()


def _doctor(socket: Path, database: str, tls: Path) -> str:
    from modules.processes.cloudcore.doctor_checks import check_cloud  # noqa: PLC0415
    from modules.processes.cloudcore.doctor_command import gathered  # noqa: PLC0415
    from modules.processes.common.support_bundle.bundle import as_json  # noqa: PLC0415

    return as_json(check_cloud(gathered(socket, database, tls)))
