"""Options of `cloudcore run` that exclude or need each other."""

import argparse

import msgspec

from beehive.printable import printable
from modules.cloud.authentication.settings import OidcSettings
from modules.processes.cloudcore.config import AuditLogConfig, CloudCoreConfig
from modules.processes.cloudcore.flags import address_and_port, addresses_without_port, converted, settings_of
from modules.processes.common.loopback import is_loopback


def mistake(chosen: argparse.Namespace) -> str:
    """Return an error about the options, or ""."""
    checks = (_of_addresses, _exposure, _of_page, _of_api_server, _of_streams, _of_oidc, _of_audit_log)
    return next((found for check in checks if (found := check(chosen))), "")


def _of_addresses(chosen: argparse.Namespace) -> str:
    for name, value in addresses_without_port(chosen, CloudCoreConfig).items():
        return f"{name} {printable(value)}: an address and a port are wanted, as in localhost:10000"
    return ""


def _exposure(chosen: argparse.Namespace) -> str:
    """Return an error about nodes' connections without TLS; "" with TLS, or if only this machine reaches the port."""
    address, port = address_and_port(chosen.listen)
    if chosen.tls or chosen.allow_without_tls or _is_on_this_machine(chosen.listen) or port < 0:
        return ""
    return (
        f"other machines reach {address}, and without TLS each of them can be any node and gets its secrets: add "
        "--tls, listen on 127.0.0.1, or say --allow-without-tls"
    )


def _of_page(chosen: argparse.Namespace) -> str:
    if chosen.page_allow and not chosen.page:
        return "--page-allow is what --page may do: add it"
    if chosen.page_allow and (chosen.kubeconfig or chosen.in_cluster):
        return "--page-allow is for the embedded API server: at a cluster, `kubectl exec -it` opens shells"
    if not chosen.page or (chosen.secure_port is not None and chosen.tls):
        return ""
    return "--page is served on the secure port: add --tls and --secure-port 6443, or use `cloudcore page`"


def _of_api_server(chosen: argparse.Namespace) -> str:
    if not chosen.tls and (chosen.secure_port is not None or chosen.token_auth_file):
        return (
            "--secure-port and --token-auth-file need certificates: add --tls (kubectl on this machine does without: "
            "--insecure-port 8080)"
        )
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


def _of_streams(chosen: argparse.Namespace) -> str:
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
    return _exposure_of_tunnels(chosen)


def _exposure_of_tunnels(chosen: argparse.Namespace) -> str:
    address = address_and_port(chosen.tunnel_listen or "")[0]
    if not address or chosen.tls or chosen.allow_without_tls or is_loopback(address):
        return ""
    return (
        f"other machines reach {address}, and without TLS each of them can take the tunnel of any node: add --tls, or "
        "listen on 127.0.0.1"
    )


def _of_oidc(chosen: argparse.Namespace) -> str:
    if all(value in (None, []) for name, value in vars(chosen).items() if name.startswith("oidc_")):
        return ""
    if not chosen.oidc_issuer_url or not chosen.oidc_client_id:
        return "options --oidc-… need both --oidc-issuer-url and --oidc-client-id"
    if chosen.kubeconfig or chosen.in_cluster:
        return "--oidc-issuer-url is for the embedded API server: a cluster has its own users"
    if not chosen.tls or (chosen.secure_port is None and not chosen.router_listen):
        return "--oidc-issuer-url is for the secure port: add --tls and --secure-port 6443"
    if chosen.oidc_issuer_url == chosen.service_account_issuer:
        return "--oidc-issuer-url and --service-account-issuer are two issuers"
    if any("=" not in each.strip("=") for each in chosen.oidc_required_claim):
        return "--oidc-required-claim is CLAIM=VALUE"
    return converted(settings_of(chosen, CloudCoreConfig)["oidc"], OidcSettings).mistake


def _of_audit_log(chosen: argparse.Namespace) -> str:
    others = {"--audit-log-maxsize": chosen.audit_log_maxsize, "--audit-log-maxbackup": chosen.audit_log_maxbackup}
    given = [name for name, value in others.items() if value is not None]
    if given and chosen.audit_log_path is None:
        return f"{given[0]} is of the audit log: add --audit-log-path FILE"
    if chosen.audit_log_path is not None and str(chosen.audit_log_path) == "-":
        return "--audit-log-path is a file: the standard output has the log of cloudcore"
    try:
        if chosen.audit_log_path is not None:
            converted(settings_of(chosen, CloudCoreConfig)["audit_log"], AuditLogConfig)
    except msgspec.ValidationError as error:
        bounds = "1 to 10000 MB, and 1 to 1000 full files are kept"
        return f"--audit-log-maxsize or --audit-log-maxbackup is wrong ({bounds}): {error}"
    return ""


def _is_on_this_machine(listen: str) -> bool:
    return is_loopback(address_and_port(listen)[0])
