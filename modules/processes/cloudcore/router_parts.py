"""The parts of cloudcore's router: its port, and the other cloudcores that it passes calls to."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from modules.cloud.router.callers import AuthenticatedCallers, Callers, LoopbackCallers
from modules.cloud.router.other_cloudcores import OtherCloudcores
from modules.cloud.router.rest_service import PassedStreams, RestListener
from modules.cloud.router.reviewed_callers import ReviewedCallers

if TYPE_CHECKING:
    from beehive.clock import Clock
    from modules.cloud.authentication.authenticator import Authenticator
    from modules.cloud.cloudhub.certificates.authority import Authority
    from modules.cloud.coordination.known_cloudcores import KnownCloudcores
    from modules.cloud.identities.known import KnownIdentities
    from modules.processes.cloudcore.config import CloudCoreConfig, RouterConfig


def rest_listener(
    config: CloudCoreConfig,
    authenticator: Authenticator,
    clock: Clock,
    identities: KnownIdentities,
    streams: PassedStreams,
) -> RestListener | None:
    """Return the port for callers of nodes: with TLS for users of the API, else for programs of this machine, which
    are users of a cluster nevertheless. With TLS, other cloudcores find streams of nodes there, too.
    """
    router = config.router
    if router is None:
        return None
    callers: Callers = AuthenticatedCallers(authenticator) if config.tls is not None else LoopbackCallers()
    if config.kubeconfig is not None or config.in_cluster:
        callers = ReviewedCallers(clock)
    if config.tls is None:
        return RestListener(router.address, router.port, callers)
    from modules.cloud.cloudhub.certificates import authority_files, contexts  # noqa: PLC0415 - cryptography is 17 MB

    context = contexts.https_context(authority_files.AuthorityFiles(config.tls.directory))
    most = config.max_streams * 4 // 3  # one cloudcore has three quarters of them
    return RestListener(router.address, router.port, callers, context, identities, streams, max_streams=most)


def other_cloudcores(
    config: CloudCoreConfig, authority: Authority | None, known: KnownCloudcores, clock: Clock
) -> OtherCloudcores | None:
    """Return the other cloudcores; None without TLS: cloudcores prove their identities by it."""
    if config.router is None or config.tls is None or authority is None:
        return None
    from modules.cloud.cloudhub.certificates import (  # noqa: PLC0415 - cryptography is 17 MB
        authority_files,
        cloudcore_credentials,
    )

    files = authority_files.AuthorityFiles(config.tls.directory)
    credentials = cloudcore_credentials.CloudcoreCredentials(files, authority, known.own, clock)
    name = config.tls.names[0].replace("*", "cloudcore")
    others = OtherCloudcores(known, credentials.context, name, advertised_address(config.router))
    if config.router.port:
        others.announce(config.router.port)
    return others


def advertised_address(router: RouterConfig) -> str:
    """Return the router's host for other cloudcores; "" if it is not known.

    In a pod, the host's name stands for the pod's address. Debian lets it stand for 127.0.1.1, which others cannot
    reach.
    """
    if router.advertise_address or not _is_unspecified(router.address):
        return router.advertise_address or router.address
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return ""
    addresses = [str(address[0]) for *_, address in found]
    return next((each for each in addresses if _is_of_network(each)), "")


def _is_unspecified(address: str) -> bool:
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return False


def _is_of_network(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)
