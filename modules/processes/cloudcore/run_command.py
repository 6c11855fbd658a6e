"""The command `cloudcore run`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from beehive.decoding import convert
from modules.apimachinery.printing.terminal import print_error
from modules.processes.cloudcore import audit_options, oidc_options, stream_options
from modules.processes.cloudcore.config import CloudCoreConfig, TlsConfig
from modules.processes.cloudcore.paths import add_socket_options, remark_on_former_files
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.page_options import add_allow

_DEFAULTS = CloudCoreConfig()
_TLS = TlsConfig()
_LEASE = _DEFAULTS.lease


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="run the cloud until SIGTERM or SIGINT")
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
    oidc_options.add(parser)
    audit_options.add(parser)
    _add_cluster(parser)
    _add_lease(parser)
    stream_options.add(parser)
    parser.add_argument(
        "--allow-without-tls",
        action="store_true",
        help="listen on an address that other machines reach, without --tls: everybody there can be any node",
    )
    parser.add_argument("--node", metavar="NAME", help="node of pods that name none (default: the only node)")
    parser.add_argument(
        "--scheduler",
        choices=("embedded", "none"),
        default=_DEFAULTS.scheduler,
        help="who gives pods their nodes; none: a scheduler that you run (default: %(default)s)",
    )
    parser.add_argument(
        "--controllers",
        choices=("embedded", "none"),
        default=_DEFAULTS.controllers,
        help="who runs Deployments, Jobs and their likes, and collects garbage; none: a kube-controller-manager that "
        "you run (default: %(default)s)",
    )
    parser.add_argument(
        "--service-cluster-ip-range",
        metavar="CIDR[,CIDR]",
        default=_DEFAULTS.service_cluster_ip_range,
        help="network of the Services' addresses (default: %(default)s)",
    )
    parser.add_argument(
        "--service-node-port-range",
        metavar="FIRST-LAST",
        default=_DEFAULTS.service_node_port_range,
        help="ports of Services of the type NodePort (default: %(default)s)",
    )
    parser.add_argument(
        "--database",
        metavar="FILE|URL",
        help="keeps everything over a restart: an SQLite file, or SQLAlchemy's URL of a database, which several "
        "cloudcores may share (default: cloudcore.db below --root)",
    )
    parser.add_argument(
        "--device-history",
        type=int,
        metavar="N",
        default=_DEFAULTS.device_history,
        help="reported values of seven days that are kept of each property of a device (default %(default)s, the most)",
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
        help="of a node's certificate, which it renews in time (default 30 days)",
    )


def _add_secure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the Kubernetes API on a port, for kubectl")
    group.add_argument(
        "--secure-port", type=int, metavar="N", help="serve it on this port, with --tls; 0 takes a free one"
    )
    group.add_argument(
        "--bind-address", metavar="IP", default=_DEFAULTS.bind_address, help="of --secure-port (default %(default)s)"
    )
    group.add_argument(
        "--page",
        action="store_true",
        help="serve the page at /page/ of --secure-port, for its users and their rights; at a cluster nothing else",
    )
    add_allow(group, "--page-allow")
    group.add_argument(
        "--token-auth-file",
        type=Path,
        metavar="FILE",
        help='tokens of users, lines of token,user,uid,"group1,group2"; members of system:masters may do everything',
    )
    group.add_argument(
        "--service-account-issuer",
        metavar="URL",
        default=_DEFAULTS.tokens.issuer,
        help="issuer of the tokens of service accounts (default: %(default)s)",
    )
    group.add_argument(
        "--mount-service-account-tokens",
        action="store_true",
        help="give containers of new pods a token of their service account, with --secure-port, as Kubernetes does",
    )
    group.add_argument(
        "--store-unevaluated-validations",
        action="store_true",
        help="store CustomResourceDefinitions with rules in CEL (x-kubernetes-validations), which are not evaluated",
    )
    group.add_argument(
        "--api-audiences",
        metavar="NAME[,NAME]",
        default="",
        help="audiences of this API server; a token that asks for none is for these (default: the issuer)",
    )
    group.add_argument(
        "--router-listen",
        metavar="ADDRESS:PORT",
        help="calls of nodes by Rules, as /NODE/NAMESPACE/PATH: with --tls for users with tokens or certificates, "
        "else for programs of this machine (default: not served)",
    )
    group.add_argument(
        "--router-advertise-address",
        default="",
        metavar="HOST",
        help="where other cloudcores reach --router-listen, to pass on calls and streams of nodes that are connected "
        "to this one (default: its address or, for 0.0.0.0, what the host's name stands for)",
    )
    group.add_argument(
        "--insecure-port",
        type=int,
        metavar="N",
        help="serve it over plain HTTP on 127.0.0.1, where every program of this machine may do everything",
    )
    group.add_argument(
        "--max-streams",
        type=int,
        metavar="N",
        default=_DEFAULTS.max_streams,
        help="most watches, followed logs and commands on each of these ports and at --stream-listen "
        "(default %(default)s)",
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


def _add_lease(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several cloudcores, which know of each other by Leases")
    group.add_argument(
        "--lease-namespace", metavar="NAME", default=_LEASE.namespace, help="of the Leases (default: %(default)s)"
    )
    group.add_argument(
        "--lease-name", metavar="NAME", default=_LEASE.name, help="of this one's Lease (default: host name and an id)"
    )
    group.add_argument(
        "--lease-labels",
        metavar="KEY=VALUE,…",
        default=",".join(f"{key}={value}" for key, value in _LEASE.labels.items()),
        help="of the Leases of those that divide their duties (default: %(default)s)",
    )


def _lease_settings(chosen: argparse.Namespace) -> dict[str, object]:
    pairs = (each.partition("=") for each in chosen.lease_labels.split(",") if each)
    labels = {key: value for key, _, value in pairs}
    return {"namespace": chosen.lease_namespace, "name": chosen.lease_name, "labels": labels}


def _page_mistake(chosen: argparse.Namespace) -> str:
    """Return an error about --page, or ""."""
    if chosen.page_allow and not chosen.page:
        return "--page-allow is what --page may do: add it"
    if chosen.page_allow and (chosen.kubeconfig or chosen.in_cluster):
        return "--page-allow is for the embedded API server: at a cluster, `kubectl exec -it` opens shells"
    if not chosen.page or (chosen.secure_port is not None and chosen.tls):
        return ""
    return "--page is served on the secure port: add --tls and --secure-port 6443, or use `cloudcore page`"


def _mistake(chosen: argparse.Namespace) -> str:
    """Return an error about options that exclude each other, or ""."""
    if not chosen.tls and (chosen.secure_port is not None or chosen.token_auth_file):
        return "--secure-port and --token-auth-file need certificates: add --tls"
    if chosen.token_auth_file and chosen.secure_port is None and not chosen.router_listen:
        return "--token-auth-file is for the secure port: add --secure-port 6443"
    if chosen.mount_service_account_tokens and chosen.secure_port is None:
        return "--mount-service-account-tokens is for pods that use the secure port: add --secure-port 6443"
    if chosen.router_advertise_address and not (chosen.router_listen and chosen.tls):
        return "--router-advertise-address is for cloudcores that call each other: add --router-listen and --tls"
    if chosen.router_listen and not chosen.tls and not _is_on_this_machine(chosen.router_listen):
        return "without credentials callers of nodes must be on this machine: listen on 127.0.0.1, or add --tls"
    if chosen.kubeconfig and chosen.in_cluster:
        return "--kubeconfig and --in-cluster exclude each other"
    if chosen.context and not chosen.kubeconfig:
        return "--context names a context of a kubeconfig: add --kubeconfig FILE"
    if chosen.state == "cluster" and not (chosen.kubeconfig or chosen.in_cluster):
        return "--state cluster needs a cluster: add --kubeconfig FILE or --in-cluster"
    if chosen.state == "cluster" and chosen.database:
        return "--state cluster and --database exclude each other: the state is in one place"
    if chosen.node and chosen.scheduler == "none":
        return "--node is a setting of the embedded scheduler, which --scheduler none leaves out"
    of_embedded = {
        "--manifests": chosen.manifests,
        "--secure-port": None if chosen.page else chosen.secure_port,
        "--insecure-port": chosen.insecure_port,
        "--node": chosen.node,
        "--token-auth-file": chosen.token_auth_file,
    }
    given = [name for name, value in of_embedded.items() if value is not None]
    if given and (chosen.kubeconfig or chosen.in_cluster):
        return f"{given[0]} is for the embedded API server: a cluster has its own, use kubectl"
    return ""


def _is_on_this_machine(listen: str) -> bool:
    from modules.processes.common.loopback import is_loopback  # noqa: PLC0415 - only for `run`

    return is_loopback(stream_options.address_and_port(listen)[0])


def _exposure(chosen: argparse.Namespace) -> str:
    """Return an error about nodes' connections without TLS; "" with TLS, or if only this machine reaches the port."""
    address, port = stream_options.address_and_port(chosen.listen)
    if chosen.tls or chosen.allow_without_tls or _is_on_this_machine(chosen.listen) or port < 0:
        return ""
    return (
        f"other machines reach {address}, and without TLS each of them can be any node and gets its secrets: add "
        "--tls, listen on 127.0.0.1, or say --allow-without-tls"
    )


def run(chosen: argparse.Namespace) -> int:
    """Run the cloud until SIGTERM; return the exit status."""
    import logging  # noqa: PLC0415 - the other commands do without the modules and their libraries

    from beehive import log_lines  # noqa: PLC0415
    from beehive.log_lines import quieten_libraries  # noqa: PLC0415
    from modules.cloud.apiserver.service_addresses import service_ranges  # noqa: PLC0415
    from modules.processes.cloudcore import process  # noqa: PLC0415
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
    address, port = stream_options.address_and_port(chosen.listen)
    if (
        mistake := _exposure(chosen)
        or _page_mistake(chosen)
        or _mistake(chosen)
        or stream_options.mistake(chosen)
        or oidc_options.mistake(chosen)
        or audit_options.mistake(chosen)
    ):
        sys.stderr.write(f"cloudcore run: {mistake}\n")
        return ExitCode.USAGE
    settings = {
        "secure_port": chosen.secure_port,
        "insecure_port": chosen.insecure_port,
        "page": chosen.page,
        "page_allow": chosen.page_allow,
        "max_streams": chosen.max_streams,
        "bind_address": chosen.bind_address,
        "token_auth_file": chosen.token_auth_file and str(chosen.token_auth_file),
        "tokens": {
            "issuer": chosen.service_account_issuer,
            "mounted": chosen.mount_service_account_tokens,
            "audiences": tuple(each.strip() for each in chosen.api_audiences.split(",") if each.strip()),
        },
        "oidc": oidc_options.settings(chosen),
        "audit_log": audit_options.settings(chosen),
        "listen_address": address,
        "listen_port": port,
        "tls": _tls_settings(chosen, address) if chosen.tls else None,
        "manifests_dir": chosen.manifests and str(chosen.manifests),
        "kubeconfig": chosen.kubeconfig and str(chosen.kubeconfig),
        "context": chosen.context,
        "in_cluster": chosen.in_cluster,
        "state": chosen.state,
        "lease": _lease_settings(chosen),
        "cloud_stream": stream_options.settings(chosen),
        "control_socket": str(chosen.socket),
        "scheduler": chosen.scheduler,
        "controllers": chosen.controllers,
        "service_cluster_ip_range": chosen.service_cluster_ip_range,
        "service_node_port_range": chosen.service_node_port_range,
        "default_node": chosen.node,
        "store_unevaluated_validations": chosen.store_unevaluated_validations,
        "database": chosen.database or "",
        "node_limit": chosen.node_limit,
        "device_history": chosen.device_history,
        "router": _router_settings(chosen.router_listen, chosen.router_advertise_address),
        **_metrics_settings(chosen.metrics_bind_address),
    }
    try:
        config = convert(settings, CloudCoreConfig, dec_hook=lambda kind, value: kind(value))
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


def _tls_settings(chosen: argparse.Namespace, listen_address: str) -> dict[str, object]:
    https = chosen.https_listen or f"{listen_address}:{_TLS.https_port}"
    address, port = stream_options.address_and_port(https)
    return {
        "directory": str(chosen.tls_dir),
        "https_address": address,
        "https_port": port,
        "names": (*chosen.advertise_address, *chosen.dns_name) or _TLS.names,
        "certificate_seconds": chosen.certificate_lifetime,
    }


def _router_settings(text: str | None, advertise: str) -> dict[str, object] | None:
    if not text:
        return None
    address, port = stream_options.address_and_port(text)
    return {"address": address, "port": port, "advertise_address": advertise.strip("[]")}


def _metrics_settings(text: str | None) -> dict[str, object]:
    if not text:
        return {}
    address, port = stream_options.address_and_port(text)
    return {"metrics_address": address or "0.0.0.0", "metrics_port": port}  # noqa: S104 - `:8080` is every address
