"""The options of `cloudcore run` for the tokens of an identity provider, with kube-apiserver's names."""

import argparse
from typing import Final

from beehive.decoding import convert
from modules.cloud.authentication.settings import OidcSettings

_OPTIONS: Final = (
    ("issuer-url", "URL", "of the provider, https: users with its tokens (OpenID Connect)"),
    ("client-id", "ID", "audience that a token must name"),
    ("username-claim", "CLAIM", "has the user's name (default: sub)"),
    ("username-prefix", "TEXT", "before the user's name, - for none (default: URL#; for the claim email none)"),
    ("groups-claim", "CLAIM", "has the user's groups (default: none)"),
    ("groups-prefix", "TEXT", "before the name of each group (default: none)"),
    ("signing-algs", "ALG[,ALG]", "algorithms of signatures (default: RS256)"),
    ("ca-file", "FILE", "authorities of the provider's certificate (default: those that this machine trusts)"),
)
_NAMES: Final = tuple(f"oidc_{name.replace('-', '_')}" for name, _, _ in _OPTIONS)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("users of an identity provider at the secure port, by OpenID Connect")
    for name, metavar, text in _OPTIONS:
        group.add_argument(f"--oidc-{name}", metavar=metavar, help=text)
    group.add_argument(
        "--oidc-required-claim",
        action="append",
        default=[],
        metavar="CLAIM=VALUE",
        help="claim that a token must have, with this value; repeatable",
    )


def mistake(chosen: argparse.Namespace) -> str:
    """Return an error about the options, or ""."""
    if not _given(chosen) and not chosen.oidc_required_claim:
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
    return convert(settings(chosen), OidcSettings, dec_hook=lambda kind, value: kind(value)).mistake


def settings(chosen: argparse.Namespace) -> dict[str, object] | None:
    """Return the settings, None without a provider."""
    given: dict[str, object] = {**_given(chosen)}
    if not given:
        return None
    if "signing_algs" in given:
        given["signing_algs"] = tuple(each.strip() for each in chosen.oidc_signing_algs.split(","))
    pairs = (each.partition("=") for each in chosen.oidc_required_claim)
    return {**given, "required_claims": {name: value for name, _, value in pairs}}


def _given(chosen: argparse.Namespace) -> dict[str, str]:
    """Return the options with a value that are given, by their names."""
    found = {name.removeprefix("oidc_"): getattr(chosen, name) for name in _NAMES}
    return {name: value for name, value in found.items() if value is not None}
