"""The command `edgecore unit`: prints a systemd unit for the node that the options select."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.systemd_unit import Unit, account_of, add_user_option, program, text_of
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig
from modules.processes.edgecore.config.dangers import is_unisolated_root
from modules.processes.edgecore.location import add_location, node_location

if TYPE_CHECKING:
    import argparse

_SERVICE: Final = (
    "# containers and their shims stay when edgecore stops, and go on when it starts again",
    "KillMode=process",
    "# the pods' cgroups below this unit's are edgecore's own",
    "Delegate=yes",
)
_PROTECTED: Final = "OOMScoreAdjust=-999"
"""The kubelet's: the last process to be killed when memory is short. Containers of the process runtime would inherit
it.
"""


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("unit", help="print a systemd unit that runs this node")
    add_location(parser)
    add_user_option(parser)
    parser.add_argument(
        "--allow-unisolated-root", action="store_true", help="the unit runs edgecore with this option, see `run --help`"
    )
    parser.set_defaults(command=f"{__name__}:print_unit")


def print_unit(chosen: argparse.Namespace) -> int:
    """Print the unit; remarks go to standard error."""
    try:
        location = node_location(chosen)
        config = location.load().config
    except ConfigError as error:
        for problem in error.problems:
            _say(f"error: {problem.render(error.source)}")
        return ExitCode.CONFIGURATION
    more = ["--allow-unisolated-root"] if chosen.allow_unisolated_root else []
    if not more and is_unisolated_root(config, os.geteuid()):
        _say("warning: root is refused this node (process runtime, cloud without TLS): see `edgecore run --help`")
    account = account_of(user=chosen.user)
    unit = Unit(
        name="edgecore",
        description=f"edgecore, the edge node {config.node_name}",
        command=[*program("edgecore"), "run", *location.options, *more],
        after=_runtime_unit(config),
        user=chosen.user,
        account=account,
        service=_SERVICE if chosen.user or account or config.runs_container_runtime else (*_SERVICE, _PROTECTED),
    )
    sys.stdout.write(text_of(unit))
    return ExitCode.OK


def _runtime_unit(config: EdgeCoreConfig) -> str:
    if config.uses_docker_runtime:
        return "docker.service"
    return "" if config.runs_container_runtime else "containerd.service"


def _say(text: str) -> None:
    sys.stderr.write(f"edgecore: {text}\n")
