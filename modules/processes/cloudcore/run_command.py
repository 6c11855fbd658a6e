"""The command `cloudcore run`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from modules.apimachinery.printing.terminal import print_error
from modules.processes.cloudcore.config import HTTPS_PORT, TUNNEL_PORT, CloudCoreConfig
from modules.processes.cloudcore.flags import add_flags, address_and_port, converted, settings_of
from modules.processes.cloudcore.paths import add_socket_options, remark_on_former_files
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.loopback import is_loopback


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command: the options of the configuration, and those of the process."""
    parser = commands.add_parser("run", help="run the cloud until SIGTERM or SIGINT")
    parser.absent("--config", "each setting is an option, and KubeEdge's cloudcore.yaml is not read")
    parser.hint = "it starts the cloud, and `cloudcore create pod NAME --image=IMAGE` makes a pod"
    add_flags(parser, CloudCoreConfig)
    parser.add_argument(
        "--allow-without-tls",
        action="store_true",
        help="listen on an address that other machines reach, without --tls: everybody there can be any node",
    )
    parser.add_argument("--ready-file", type=Path, metavar="PATH", help="written with the address when ready")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: one object a line (default: text)"
    )
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def run(chosen: argparse.Namespace) -> int:
    """Run the cloud until SIGTERM; return the exit status."""
    import logging  # noqa: PLC0415 - the other commands do without the modules and their libraries

    from beehive import log_lines  # noqa: PLC0415
    from beehive.log_lines import quieten_libraries  # noqa: PLC0415
    from modules.cloud.apiserver.service_addresses import service_ranges  # noqa: PLC0415
    from modules.processes.cloudcore import process  # noqa: PLC0415
    from modules.processes.cloudcore.run_mistakes import mistake  # noqa: PLC0415
    from modules.processes.cloudcore.starting import CloudStartError, prepare  # noqa: PLC0415

    remark = remark_on_former_files(chosen, Path.cwd())
    if remark:
        print_error("cloudcore", remark)
    formatter = (
        log_lines.JsonFormatter()
        if chosen.log_format == log_lines.LogFormat.JSON
        else log_lines.TimedFormatter("%(levelname)-7s %(name)s: %(message)s")
    )
    log_lines.set_up(logging.StreamHandler(), chosen.log_level, formatter)
    quieten_libraries()
    if found := mistake(chosen):
        sys.stderr.write(f"cloudcore run: {found}\n")
        return ExitCode.USAGE
    address, _ = address_and_port(chosen.listen)
    chosen.https_listen = chosen.https_listen or f"{address}:{HTTPS_PORT}"
    if chosen.tunnel_listen is None:
        chosen.tunnel_listen = _tunnel_address(chosen)
    settings = {**settings_of(chosen, CloudCoreConfig), "control_socket": chosen.socket}
    try:
        config = converted(settings, CloudCoreConfig)
        service_ranges(config.service_cluster_ip_range, config.service_node_port_range)
    except (msgspec.ValidationError, ValueError) as error:
        sys.stderr.write(f"cloudcore run: an option is wrong (addresses as 127.0.0.1:10000): {error}\n")
        return ExitCode.USAGE
    try:
        prepare(chosen)
    except CloudStartError as error:
        print_error("cloudcore", str(error))
        return ExitCode.START_FAILED
    return process.run(process.RunOptions(config, chosen.ready_file))


def _tunnel_address(chosen: argparse.Namespace) -> str:
    """Return where tunnels are served without an option: where nodes of this machine dial them by default, if their
    connections are served there as well; "" elsewhere. No other machine reaches it, and the port has the link's TLS.
    """
    address, port = address_and_port(chosen.listen)
    is_default = is_loopback(address) and port == CloudCoreConfig().listen_port
    has_api_server = not (chosen.kubeconfig or chosen.in_cluster)
    return f"{address}:{TUNNEL_PORT}" if is_default and has_api_server else ""
