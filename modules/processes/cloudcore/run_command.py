"""The command `cloudcore run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from beehive.decoding import convert
from modules.processes.cloudcore.config import CloudCoreConfig, TlsConfig
from modules.processes.cloudcore.paths import add_socket_options, remark_on_former_files
from modules.processes.edgecore.exit_codes import ExitCode
from modules.tools.printing.terminal import print_error

if TYPE_CHECKING:
    import argparse

_DEFAULTS = CloudCoreConfig()
_TLS = TlsConfig()


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="run the stub until SIGTERM")
    parser.hint = "it starts the cloud, and `cloudcore create pod NAME --image=IMAGE` makes a pod"
    parser.add_argument("--manifests", type=Path, metavar="DIR", help="directory of manifests, applied and watched")
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        default=f"{_DEFAULTS.listen_address}:{_DEFAULTS.listen_port}",
        help="of the websocket; port 0 takes a free one (default %(default)s)",
    )
    _add_tls(parser)
    _add_secure(parser)
    _add_cluster(parser)
    parser.add_argument(
        "--allow-without-tls",
        action="store_true",
        help="listen on an address that other machines reach, without --tls: everybody there can be any node",
    )
    parser.add_argument("--node", metavar="NAME", help="node of pods that name none (default: the only node)")
    parser.add_argument(
        "--database",
        metavar="FILE|URL",
        help="keeps everything over a restart: an SQLite file, or SQLAlchemy's URL of a database, which several "
        "cloudcores may share (default: cloudcore.db below --root)",
    )
    parser.add_argument(
        "--node-limit", type=int, metavar="N", default=_DEFAULTS.node_limit, help="most nodes connected at a time"
    )
    parser.add_argument(
        "--metrics-bind-address",
        metavar="ADDRESS:PORT",
        help="serves /metrics, /livez and /readyz without credentials (default: not served)",
    )
    parser.add_argument("--ready-file", type=Path, metavar="PATH", help="written with the address when ready")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: one object a line (default: text)"
    )
    add_socket_options(parser)
    parser.set_defaults(command=f"{__name__}:run")


def _add_tls(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("certificates")
    group.add_argument("--tls", action="store_true", help="demand certificates of nodes, and hand them out over HTTPS")
    group.add_argument(
        "--tls-dir",
        type=Path,
        metavar="DIR",
        help="keeps the certificate authority (default: tls below --root)",
    )
    group.add_argument(
        "--https-listen",
        metavar="ADDRESS:PORT",
        help=f"of the certificates (default: the address of --listen, port {_TLS.https_port})",
    )
    group.add_argument(
        "--advertise-address", action="append", default=[], metavar="IP", help="nodes call the cloud by it; repeatable"
    )
    group.add_argument(
        "--dns-name", action="append", default=[], metavar="NAME", help="nodes call the cloud by it; repeatable"
    )
    group.add_argument(
        "--certificate-lifetime",
        type=float,
        metavar="SECONDS",
        default=_TLS.certificate_seconds,
        help="of a node's certificate (default 365 days)",
    )


def _add_secure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the Kubernetes API over HTTPS, for kubectl")
    group.add_argument(
        "--secure-port", type=int, metavar="N", help="serve it on this port, with --tls; 0 takes a free one"
    )
    group.add_argument(
        "--bind-address", metavar="IP", default=_DEFAULTS.bind_address, help="of --secure-port (default %(default)s)"
    )
    group.add_argument(
        "--token-auth-file",
        type=Path,
        metavar="FILE",
        help='tokens of users, lines of token,user,uid,"group1,group2"; members of system:masters may do everything',
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a cluster in place of the embedded API server")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="its pods run on the nodes")
    group.add_argument("--context", default="", metavar="NAME", help="of the kubeconfig (default: the current one)")
    group.add_argument(
        "--in-cluster", action="store_true", help="cloudcore runs in a pod of the cluster, as its service account"
    )
    group.add_argument(
        "--state",
        choices=("database", "cluster"),
        default=_DEFAULTS.state,
        help="where it is kept what nodes have acknowledged; in the cluster: a NodeState a node (default: %(default)s)",
    )


def _mistake(chosen: argparse.Namespace) -> str:
    """Return what is wrong with options that exclude each other, or ""."""
    if not chosen.tls and (chosen.secure_port is not None or chosen.token_auth_file):
        return "--secure-port and --token-auth-file need certificates: add --tls"
    if chosen.token_auth_file and chosen.secure_port is None:
        return "--token-auth-file is for the secure port: add --secure-port 6443"
    if chosen.kubeconfig and chosen.in_cluster:
        return "--kubeconfig and --in-cluster exclude each other"
    if chosen.context and not chosen.kubeconfig:
        return "--context names a context of a kubeconfig: add --kubeconfig FILE"
    if chosen.state == "cluster" and not (chosen.kubeconfig or chosen.in_cluster):
        return "--state cluster needs a cluster: add --kubeconfig FILE or --in-cluster"
    if chosen.state == "cluster" and chosen.database:
        return "--state cluster and --database exclude each other: the state is in one place"
    of_embedded = {"--manifests": chosen.manifests, "--secure-port": chosen.secure_port, "--node": chosen.node}
    given = [name for name, value in of_embedded.items() if value is not None]
    if given and (chosen.kubeconfig or chosen.in_cluster):
        return f"{given[0]} is for the embedded API server: a cluster has its own, use kubectl"
    return ""


def run(chosen: argparse.Namespace) -> int:
    """Run the cloud until SIGTERM; return the exit status."""
    import logging  # noqa: PLC0415 - the other commands do without the modules and their libraries

    from beehive import log_lines  # noqa: PLC0415
    from beehive.library_logging import quieten_libraries  # noqa: PLC0415
    from modules.processes.cloudcore import process  # noqa: PLC0415
    from modules.processes.cloudcore.starting import CloudStartError, prepare  # noqa: PLC0415
    from modules.processes.edgecore.config.dangers import is_loopback  # noqa: PLC0415

    remark = remark_on_former_files(chosen, Path.cwd())
    if remark:
        print_error("cloudcore", remark)
    formatter = (
        log_lines.JsonFormatter()
        if chosen.log_format == log_lines.LogFormat.JSON
        else log_lines.LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    log_lines.set_up(logging.StreamHandler(), chosen.log_level, formatter)
    quieten_libraries()
    address, port = _address_and_port(chosen.listen)
    if not (chosen.tls or chosen.allow_without_tls or is_loopback(address) or port < 0):
        sys.stderr.write(
            f"cloudcore run: other machines reach {address}, and without TLS each of them can be any node and gets its "
            "secrets: add --tls, listen on 127.0.0.1, or say --allow-without-tls\n"
        )
        return ExitCode.USAGE
    if mistake := _mistake(chosen):
        sys.stderr.write(f"cloudcore run: {mistake}\n")
        return ExitCode.USAGE
    settings = {
        "secure_port": chosen.secure_port,
        "bind_address": chosen.bind_address,
        "token_auth_file": chosen.token_auth_file and str(chosen.token_auth_file),
        "listen_address": address,
        "listen_port": port,
        "tls": _tls_settings(chosen, address) if chosen.tls else None,
        "manifests_dir": chosen.manifests and str(chosen.manifests),
        "kubeconfig": chosen.kubeconfig and str(chosen.kubeconfig),
        "context": chosen.context,
        "in_cluster": chosen.in_cluster,
        "state": chosen.state,
        "control_socket": str(chosen.socket),
        "default_node": chosen.node,
        "database": chosen.database,
        "node_limit": chosen.node_limit,
        **_metrics_settings(chosen.metrics_bind_address),
    }
    try:
        config = convert(settings, CloudCoreConfig, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        sys.stderr.write(f"cloudcore run: an option is wrong (addresses as 127.0.0.1:10000): {error}\n")
        return ExitCode.USAGE
    try:
        prepare(chosen)
    except CloudStartError as error:
        print_error("cloudcore", str(error))
        return ExitCode.START_FAILED
    return process.run(process.RunOptions(config, chosen.ready_file))


def _tls_settings(chosen: argparse.Namespace, listen_address: str) -> dict[str, object]:
    https = chosen.https_listen or f"{listen_address}:{_TLS.https_port}"
    address, port = _address_and_port(https)
    return {
        "directory": str(chosen.tls_dir),
        "https_address": address,
        "https_port": port,
        "names": (*chosen.advertise_address, *chosen.dns_name) or _TLS.names,
        "certificate_seconds": chosen.certificate_lifetime,
    }


def _metrics_settings(text: str | None) -> dict[str, object]:
    if not text:
        return {}
    address, port = _address_and_port(text)
    return {"metrics_address": address or "0.0.0.0", "metrics_port": port}  # noqa: S104 - `:8080` is every address


def _address_and_port(text: str) -> tuple[str, int]:
    """Return address and port; -1 for an invalid port, which the configuration refuses."""
    address, colon, port = text.rpartition(":")
    return address.strip("[]"), int(port) if colon and port.isascii() and port.isdigit() else -1
