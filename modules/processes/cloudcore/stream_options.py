"""The options of `cloudcore run` for stream tunnels."""

import argparse
from pathlib import Path
from typing import Final

from beehive.whole_numbers import whole_number
from modules.processes.cloudcore.config import CLIENT_NAMES

TUNNEL_PORT: Final = 10004
STREAM_PORT: Final = 10003


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("logs of and commands in containers of nodes (`kubectl logs`, `exec`, `attach`)")
    group.add_argument(
        "--tunnel-listen",
        metavar="ADDRESS:PORT",
        help=f"of the nodes' stream tunnels, KubeEdge's port is {TUNNEL_PORT} (default: not served)",
    )
    group.add_argument(
        "--stream-listen",
        metavar="ADDRESS:PORT",
        help=f"where a cluster's API server finds what kubelets serve, KubeEdge's port is {STREAM_PORT}: with "
        "--stream-client-ca (default: not served)",
    )
    group.add_argument(
        "--stream-client-ca",
        type=Path,
        metavar="FILE",
        help="authority of the API server's kubelet client certificate, PEM; who has none of it is refused",
    )
    group.add_argument(
        "--stream-client-name",
        action="append",
        default=[],
        metavar="NAME",
        help=f"common name in that certificate; repeatable (default: {', '.join(CLIENT_NAMES)})",
    )
    group.add_argument(
        "--stream-cert", type=Path, metavar="FILE", help="certificate of --stream-listen (default: that of --tls)"
    )
    group.add_argument("--stream-key", type=Path, metavar="FILE", help="its key")
    group.add_argument(
        "--stream-advertise-port",
        type=int,
        default=0,
        metavar="N",
        help="port in the status of nodes, which leads the API server to --stream-listen (default: the same)",
    )


def mistake(chosen: argparse.Namespace) -> str:
    """Return an error about the options, or ""."""
    if chosen.stream_listen and not chosen.tunnel_listen:
        return "--stream-listen needs the nodes' tunnels: add --tunnel-listen 0.0.0.0:10004"
    if chosen.stream_listen and not chosen.stream_client_ca:
        return (
            "whoever reaches --stream-listen runs commands in all containers: add --stream-client-ca FILE, the "
            "authority of the API server's kubelet client certificate (kubeadm: /etc/kubernetes/pki/ca.crt)"
        )
    if chosen.stream_listen and not (chosen.kubeconfig or chosen.in_cluster):
        return "--stream-listen is for a cluster's API server: the embedded one needs no such port"
    if bool(chosen.stream_cert) != bool(chosen.stream_key):
        return "--stream-cert and --stream-key belong together"
    if chosen.stream_listen and not (chosen.stream_cert or chosen.tls):
        return "--stream-listen needs a certificate: add --tls, or --stream-cert and --stream-key"
    return _exposure(chosen)


def _exposure(chosen: argparse.Namespace) -> str:
    from modules.processes.common.loopback import is_loopback  # noqa: PLC0415 - only for `run`

    address = address_and_port(chosen.tunnel_listen or "")[0]
    if not address or chosen.tls or chosen.allow_without_tls or is_loopback(address):
        return ""
    return (
        f"other machines reach {address}, and without TLS each of them can take the tunnel of any node: add --tls, or "
        "listen on 127.0.0.1"
    )


def settings(chosen: argparse.Namespace) -> dict[str, object] | None:
    """Return the settings of cloudStream, None without tunnels."""
    if not chosen.tunnel_listen:
        return None
    address, port = address_and_port(chosen.tunnel_listen)
    found: dict[str, object] = {"tunnel_address": address, "tunnel_port": port}
    if chosen.stream_listen:
        address, port = address_and_port(chosen.stream_listen)
        found |= {"stream_address": address, "stream_port": port, "advertised_port": chosen.stream_advertise_port}
        files = {
            "tls_stream_ca_file": chosen.stream_client_ca,
            "tls_stream_cert_file": chosen.stream_cert,
            "tls_stream_private_key_file": chosen.stream_key,
        }
        found |= {key: str(path) for key, path in files.items() if path}
        found["client_names"] = tuple(chosen.stream_client_name) or CLIENT_NAMES
    return found


def address_and_port(text: str) -> tuple[str, int]:
    """Return address and port; -1 for an invalid port, which the configuration refuses."""
    address, colon, port = text.rpartition(":")
    number = whole_number(port, 5) if colon else None
    return address.strip("[]"), -1 if number is None else number
