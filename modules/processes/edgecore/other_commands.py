"""The command line of edgecore beside `run`: the arguments of all other commands."""

from __future__ import annotations

import os
import sys
from argparse import BooleanOptionalAction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.kubectl.cli import add_help
from modules.processes.common import completion, version_command
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.page_options import add_page, serve_page
from modules.processes.common.systemd_unit import Unit, account_of, add_user_option, program, text_of
from modules.processes.edgecore import (
    backup,
    device_commands,
    doctor,
    local,
    mesh_commands,
    runtime_commands,
    store_commands,
    support_bundle,
    trace_commands,
    uninstall,
    upgrade,
)
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig
from modules.processes.edgecore.config.dangers import is_unisolated_root
from modules.processes.edgecore.location import add_location, node_location
from modules.processes.edgecore.trace_commands import replaying

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from modules.cli.parser import VerbParser
    from modules.page.own_devices import OwnDevice

CONFIG_COMMANDS: Final = "modules.processes.edgecore.config_commands"
"""Module of the commands of `edgecore config`."""

FAULT_PROFILES: Final = ("none", "link", "process", "disk", "runtime", "cloud", "api", "state", "pair", "all")
"""Values of `modules.lab.simulate.draw.FaultProfile`, repeated here to save its import."""

SERVICE: Final = (
    "# containers and their shims stay when edgecore stops, and go on when it starts again",
    "KillMode=process",
    "# the pods' cgroups below this unit's are edgecore's own",
    "Delegate=yes",
)
_OF_KEADM: Final = {
    "--cloudcore-ipport": "it is --cloud HOST:PORT",
    "--edgenode-name": "it is --name NODE",
    "--certport": "it is --http-server https://HOST:PORT",
    "--labels": "`cloudcore label node` sets them, or `cloudcore token --labels` for all that join with the token",
    "--kubeedge-version": "the version is the one of this program",
    "--with-mqtt": "`modules.eventBus` in the configuration has a broker of its own",
    "--remote-runtime-endpoint": "`containerRuntimeEndpoint` in the configuration names the runtime",
    "--runtimetype": "`containerRuntimeEndpoint` in the configuration names the runtime",
    "--cgroupdriver": "`cgroupDriver` in the configuration names it",
}
"""Options of `keadm join` (https://kubeedge.io/docs/setup/install-with-keadm), and what there is in their place."""
PROTECTED: Final = "OOMScoreAdjust=-999"
"""The kubelet's: the last process to be killed when memory is short. Containers of the process runtime would inherit
it.
"""


def _add_unit(commands: argparse._SubParsersAction[Any]) -> None:
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
        loaded = location.load()
    except ConfigError as error:
        for problem in error.problems:
            _print_remark(f"error: {problem.render(error.source)}")
        return ExitCode.CONFIGURATION
    config = loaded.config
    more = ["--allow-unisolated-root"] if chosen.allow_unisolated_root else []
    if not more and is_unisolated_root(config, os.geteuid(), has_file=loaded.has_file):
        _print_remark("warning: root is refused this node (cloud without TLS): see `edgecore run --help`")
    account = account_of(user=chosen.user)
    unit = Unit(
        name="edgecore",
        description=f"edgecore, the edge node {config.node_name}",
        command=[*(upgrade.launcher() or program("edgecore")), "run", *location.options, *more],
        after=_runtime_unit(config),
        user=chosen.user,
        account=account,
        service=SERVICE if chosen.user or account or config.runs_container_runtime else (*SERVICE, PROTECTED),
    )
    sys.stdout.write(text_of(unit))
    return ExitCode.OK


def _add_restart(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("restart", help="start this node again as it runs now; its containers go on")
    parser.hint = "it restarts the node; for a pod, `cloudcore delete pod POD` and apply it again"
    add_location(parser)
    parser.set_defaults(command="modules.processes.edgecore.restart:restart")


def _runtime_unit(config: EdgeCoreConfig) -> str:
    if config.uses_docker_runtime:
        return "docker.service"
    return "" if config.runs_container_runtime else "containerd.service"


def _print_remark(text: str) -> None:
    sys.stderr.write(f"edgecore: {text}\n")


def _add_page(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    text = "serve a page that shows this node and why pods do not run, for a browser on this machine"
    parser = add_page(commands, text, f"{__name__}:run")
    add_location(parser)
    parser.set_defaults(database=None)


def run(chosen: argparse.Namespace) -> int:
    """Run `edgecore page` until Ctrl-C or SIGTERM."""
    from beehive.clock import RealClock  # noqa: PLC0415 - the command line is quick
    from modules.apimachinery.printing.fields import text_at  # noqa: PLC0415
    from modules.page.api import About  # noqa: PLC0415
    from modules.page.node_api import STATE_PATH, NodeApi  # noqa: PLC0415
    from modules.page.own_devices import OwnDevices  # noqa: PLC0415
    from modules.page.server import PageServer  # noqa: PLC0415
    from modules.processes.common.page_shell import SocketDoor  # noqa: PLC0415
    from modules.processes.common.version import VERSION  # noqa: PLC0415
    from modules.processes.edgecore.local.node import node_of, report_errors, rest_client  # noqa: PLC0415

    with report_errors():
        client = rest_client(chosen)
        node = text_at(client.get(STATE_PATH), "node")  # without an edgecore there is an error now, and no page
        clock = RealClock()
        about = About(str(client.address), VERSION, "edgecore", node, allowed=chosen.allow)
        devices = OwnDevices(lambda: _devices(chosen, node, clock.now_ms()))
        door = SocketDoor(node_of(chosen)) if chosen.allow else None
        api = NodeApi(client, devices, about, clock, door)
        status = serve_page(PageServer(api, clock, about.program, chosen.port))
        clock.close()
    return status


def _devices(chosen: argparse.Namespace, node: str, now: int) -> list[OwnDevice]:
    from modules.processes.edgecore.device_commands.page_devices import own_devices  # noqa: PLC0415 - as in `run`
    from modules.processes.edgecore.store_commands.database import opened  # noqa: PLC0415

    with opened(chosen) as database:
        return own_devices(database, node, now)


def add(parser: VerbParser, commands: argparse._SubParsersAction[Any], words: Sequence[str] | None) -> None:
    """Add the commands.

    Args:
        parser: edgecore's.
        commands: its commands.
        words: the command line; only kubectl's verbs in it have options, or all of them for None.
    """
    _add_join(commands.add_parser("join", help="make this machine a node of a cloud: certificate and configuration"))
    _add_config(commands.add_parser("config", help="print, check or change a configuration file"))
    trace_commands.add(commands.add_parser("trace", help="look into recorded messages"))
    store_commands.add(commands.add_parser("store", help="look into the node's store: list, get, history, diff"))
    device_commands.add(
        commands.add_parser("devices", help="look at the node's devices: list, get, history, set, watch")
    )
    mesh_commands.add(commands)
    replaying.add_replay(commands.add_parser("replay", help="run today's code on a recorded trace, and compare"))
    _add_simulate(commands.add_parser("simulate", help="run whole nodes and their cloud in virtual time, with faults"))
    _add_page(commands)
    doctor.add(commands.add_parser("doctor", help="find what is wrong with this node, and name the remedy"))
    support_bundle.add(commands)
    backup.add(commands)
    runtime_commands.add(commands)
    uninstall.add(commands)
    upgrade.add(commands)
    _add_restart(commands)
    _add_unit(commands)
    completion.add(parser, commands)
    version_command.add(parser, commands)
    add_help(parser, commands)
    local.add(commands, words)


def _add_join(parser: VerbParser) -> None:
    parser.add_argument("--cloud", required=True, metavar="HOST[:PORT]", help="cloudcore's websocket (port 10000)")
    parser.add_argument(
        "--token", required=True, metavar="T|-", help="token of the cloud; - reads it from standard input"
    )
    parser.add_argument(
        "--http-server", metavar="URL", help="URL where the cloud gives certificates (default: https://HOST:10002)"
    )
    parser.add_argument("--name", metavar="NODE", help="name of the node (default: the configured one, or the host's)")
    parser.add_argument(
        "--replace",
        action="store_true",
        help="this machine takes the place of another with the name, with a token of `cloudcore token --replace`",
    )
    parser.add_argument(
        "--edge-stream",
        action=BooleanOptionalAction,
        default=None,
        help="whether the cloud reads logs of this node's containers and runs commands in them (modules.edgeStream; "
        "default: yes, but a file that exists keeps what it says)",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="written; one that exists is changed, and kept beside it (default: the file that `edgecore run` reads "
        "with the same --root or without one; for root a new one is /etc/kubeedge/config/edgecore.yaml)",
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="a new file has everything below DIR")
    for name, why in _OF_KEADM.items():
        parser.absent(name, why)
    parser.set_defaults(command="modules.processes.edgecore.join:join")


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default 0)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many, from the first on (default 1)")
    parser.add_argument("--nodes", type=int, default=1, metavar="M", help="nodes of one cloud (default 1)")
    parser.add_argument(
        "--hours", type=float, default=240 / 3600, metavar="H", help="hours of faults (default 4 minutes)"
    )
    parser.add_argument(
        "--days",
        type=float,
        default=0.0,
        metavar="D",
        help="without power, in the middle, for all machines",
    )
    parser.add_argument("--pods", type=int, default=5, metavar="N", help="pods of each node (default 5)")
    parser.add_argument("--devices", type=int, default=2, metavar="N", help="devices of each node (default 2)")
    parser.add_argument(
        "--hostile-node", dest="hostile", action="store_true", help="a node beside them that means harm"
    )
    parser.add_argument(
        "--workloads", action="store_true", help="Deployments and their likes as well, while nodes are away"
    )
    parser.add_argument("--services", action="store_true", help="Services whose endpoints nodes follow as well")
    parser.add_argument("--lockouts", action="store_true", help="an administrator who locks nodes out as well")
    parser.add_argument("--streams", action="store_true", help="users who follow logs over stream tunnels as well")
    parser.add_argument("--faults", choices=FAULT_PROFILES, default="all", help="which faults are drawn (default all)")
    parser.add_argument(
        "--cloud",
        choices=("embedded", "cluster"),
        default="embedded",
        help="the API server in cloudcore (default), or that of a cluster beside it, as always with --faults api",
    )
    parser.add_argument(
        "--state",
        choices=("database", "cluster"),
        default="database",
        help="where cloudcore keeps its state of nodes (default database)",
    )
    parser.add_argument("--cores", type=int, default=0, metavar="N", help="processes (default: one for each core)")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="run a plan that a failure left, and nothing else")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("simulate"),
        metavar="DIR",
        help="directory for plans, logs and traces of failures",
    )
    parser.set_defaults(command="modules.lab.simulate.commands:simulate")


def _add_config(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    default = commands.add_parser("default", help="print every key with its default, commented")
    default.add_argument("--profile", choices=("saver",), help="add the settings of a purpose: saver for metered links")
    default.set_defaults(command=f"{CONFIG_COMMANDS}:default")
    minimal = commands.add_parser("minimal", help="print the few keys that one sets, commented")
    minimal.set_defaults(command=f"{CONFIG_COMMANDS}:minimal")
    check = commands.add_parser("check", help="check a file, and list its keys that have no effect")
    check.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: the file that `run` reads")
    add_location(check)
    check.set_defaults(command=f"{CONFIG_COMMANDS}:check")
    upgrade.add_config_set(commands.add_parser("set", help="change settings, and go back unless the node is well"))
