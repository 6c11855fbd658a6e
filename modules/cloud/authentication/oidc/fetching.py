"""Fetches the public keys of an identity provider (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.call import CallFailedError, HttpCall, Secured, perform
from beehive.sockets.tls import default_client_context
from modules.cloud.authentication.oidc.key_sets import KeySetError, ProviderKey, read_key_set

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from beehive.clock import Clock

CALL_SECONDS: Final = 5.0
"""For each of the two whole responses."""
MOST_BYTES: Final = 256 * 1024
"""Of each response."""
_DISCOVERY: Final = "/.well-known/openid-configuration"
_ACCEPTED: Final = (("Accept", "application/json"),)


class FetchError(BeehiveError):
    """The keys of the provider could not be fetched."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__("cannot fetch the identity provider's keys from", where, why, retryable=True)


def trusted(authorities: Path | None) -> ssl.SSLContext:
    """Return the TLS to a provider.

    Args:
        authorities: file of the authorities of its certificate, PEM; None: the machine's.

    Raises:
        FetchError: the file cannot be used.
    """
    try:
        return default_client_context(cafile=str(authorities) if authorities else None)
    except OSError as error:  # ssl's errors are OSErrors
        raise FetchError(str(authorities), f"no certificates in --oidc-ca-file: {error.strerror}") from error


_Document = TypeVar("_Document")


class _Issuer(msgspec.Struct, frozen=True):
    issuer: str


class _Discovery(msgspec.Struct, frozen=True):
    jwks_uri: str


def fetch_keys(issuer: str, context: ssl.SSLContext, clock: Clock) -> tuple[ProviderKey, ...]:
    """Return the keys of a provider. Blocks, for ten seconds at most and the resolution of two names; redirects are not
    followed.

    Args:
        issuer: the provider's URL.
        context: trusts the authorities of its certificate.
        clock: for the deadline.

    Raises:
        FetchError: the provider has not answered as it should.
    """
    found = fetch_document(issuer, context, clock, _Discovery)
    try:
        return read_key_set(_get(found.jwks_uri, context, clock))
    except KeySetError as error:
        raise FetchError(ascii(found.jwks_uri[:200]), error.hint) from error


def fetch_document(issuer: str, context: ssl.SSLContext, clock: Clock, kind: type[_Document]) -> _Document:
    """Return the discovery document of a provider.

    Args:
        issuer: the provider's URL.
        context: trusts the authorities of its certificate.
        clock: for the deadline.
        kind: has the wanted fields.

    Raises:
        FetchError: the provider has not answered as it should.
    """
    where = issuer.rstrip("/") + _DISCOVERY
    body = _get(where, context, clock)
    try:
        found, document = decode_json(body, _Issuer).issuer, decode_json(body, kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise FetchError(where, "the answer is no discovery document") from error
    if found != issuer:
        raise FetchError(where, f"it is another issuer's, {found[:200]!a}: --oidc-issuer-url must equal it")
    return document


def _get(url: str, context: ssl.SSLContext, clock: Clock) -> bytes:
    """Return the body at a URL.

    Raises:
        FetchError: there is no document.
    """
    where = ascii(url[:200])[1:-1]
    try:
        split = urlsplit(url)
        port = split.port or 443
    except ValueError:
        raise FetchError(where, "it is no URL") from None
    if split.scheme != "https" or not split.hostname:
        raise FetchError(where, "it is no https URL")
    target = f"{split.path or '/'}{'?' if split.query else ''}{split.query}"
    call = HttpCall("GET", split.hostname, port, target, _ACCEPTED, scheme="https")
    secured = Secured(context, split.hostname)
    try:
        reply = perform(call, clock, seconds=CALL_SECONDS, most_bytes=MOST_BYTES, secured=secured)
    except CallFailedError as error:
        raise FetchError(where, error.why) from error
    if reply.status != 200:
        raise FetchError(where, f"the status of the answer is {reply.status}")
    return reply.body
