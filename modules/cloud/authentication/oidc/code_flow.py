"""Signs browsers in at an identity provider: the authorization code flow with PKCE (OpenID Connect, RFC 7636).

The browser makes `state`, `nonce` and the code verifier, and keeps them in its tab; cloudcore exchanges the code, keeps
nothing of it, and takes an ID token only with the nonce. The client is public: it has no secret.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.call import CallFailedError, HttpCall, Secured, perform
from beehive.http.connections import network_of
from modules.cloud.authentication.jws import JwsError, read_jws
from modules.cloud.authentication.oidc.fetching import CALL_SECONDS, MOST_BYTES, FetchError, fetch_document
from modules.cloud.authentication.oidc.tokens import read_claims

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from beehive.clock import Clock
    from modules.cloud.authentication.settings import OidcSettings

SCOPE: Final = "openid profile email"
_KEPT_SECONDS: Final = 600.0
"""Seconds that the provider's addresses count."""
_PAUSE: Final = 10.0
"""Least seconds from an attempt to read them to the next one."""
_MOST_EXCHANGES: Final = 8
"""Codes that are exchanged at one time: each holds a thread, and the provider may be slow with a stranger's."""
_OF_NETWORK: Final = 4
"""Of them from one address."""
_LONGEST_CODE: Final = 4096
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_FORM: Final = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))


class SignInError(BeehiveError):
    """Nobody can sign in at the identity provider."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot sign in at the identity provider", "", why)


class SignIn(msgspec.Struct, frozen=True):
    """The parts of a browser's request to the provider for a code."""

    endpoint: str
    """The provider's authorization endpoint."""
    client_id: str
    scope: str = SCOPE


class SignInCode(msgspec.Struct, frozen=True):
    """The parameters that a browser brings back from the provider."""

    code: str = ""
    verifier: str = ""
    """The code verifier; the provider knows its hash."""
    nonce: str = ""


class _Endpoints(msgspec.Struct, frozen=True):
    authorization_endpoint: str = ""
    token_endpoint: str = ""


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str = ""


class CodeFlow:
    """The sign-in of browsers. Thread-safe.

    Args:
        settings: of the provider.
        context: trusts the authorities of its certificate.
        clock: for deadlines.
    """

    def __init__(self, settings: OidcSettings, context: ssl.SSLContext, clock: Clock) -> None:
        self._settings = settings
        self._context = context
        self._clock = clock
        self._lock = threading.Lock()
        self._known = _Endpoints()
        self._until = 0.0
        self._counting = threading.Lock()
        self._exchanging = Counter[str]()
        """Codes that are exchanged now, by address."""

    def sign_in(self) -> SignIn:
        """Return the parameters of a browser's request to the provider.

        Raises:
            SignInError: the provider does not answer, or knows no such flow.
        """
        return SignIn(self._endpoints().authorization_endpoint, self._settings.client_id)

    def exchange(self, given: SignInCode, redirect_uri: str, address: str = "") -> str:
        """Return the ID token for a code; who its user is has still to be found out.

        Args:
            given: the code, with the proof that it is for who began the sign-in.
            redirect_uri: as at the beginning.
            address: of who asks, a stranger so far.

        Raises:
            SignInError: the provider refuses the code, or its token is not for this sign-in.
        """
        if not 0 < len(given.code) <= _LONGEST_CODE or not _VERIFIER.fullmatch(given.verifier) or not given.nonce:
            raise SignInError("the code is none")
        endpoint = self._endpoints().token_endpoint
        with self._place(network_of(address)):
            token = self._exchanged(endpoint, given, redirect_uri)
        try:
            nonce = read_claims(read_jws(token)).get("nonce")
        except (JwsError, BeehiveError) as error:
            raise SignInError("its ID token cannot be read") from error
        if nonce != given.nonce:
            raise SignInError("its ID token is for another sign-in: its nonce differs")
        return token

    @contextmanager
    def _place(self, network: str) -> Iterator[None]:
        with self._counting:
            if self._exchanging.total() >= _MOST_EXCHANGES or self._exchanging[network] >= _OF_NETWORK:
                raise SignInError("too many sign in at one time: try again")
            self._exchanging[network] += 1
        try:
            yield
        finally:
            with self._counting:
                self._exchanging[network] -= 1
                if not self._exchanging[network]:
                    del self._exchanging[network]

    def _exchanged(self, endpoint: str, given: SignInCode, redirect_uri: str) -> str:
        split = urlsplit(endpoint)
        form = {
            "grant_type": "authorization_code", "code": given.code, "redirect_uri": redirect_uri,
            "client_id": self._settings.client_id, "code_verifier": given.verifier,
        }  # fmt: skip
        target = f"{split.path or '/'}{'?' if split.query else ''}{split.query}"
        host = split.hostname or ""
        call = HttpCall("POST", host, split.port or 443, target, _FORM, urlencode(form).encode(), scheme="https")
        try:
            reply = perform(
                call, self._clock, seconds=CALL_SECONDS, most_bytes=MOST_BYTES, secured=Secured(self._context, host)
            )
        except CallFailedError as error:
            raise SignInError(f"it does not answer: {error.why}") from error
        if reply.status != HTTPStatus.OK:
            raise SignInError(f"it refuses the code, with the status {reply.status}: sign in again")
        try:
            token = decode_json(reply.body, _Tokens).id_token
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise SignInError("its answer cannot be read") from error
        if not token:
            raise SignInError("its answer has no ID token")
        return token

    def _endpoints(self) -> _Endpoints:
        """Return the provider's addresses; anybody can ask, so they are read now and then, by one thread at a time."""
        with self._lock:
            if self._clock.monotonic() >= self._until:
                seconds = _PAUSE
                try:
                    self._known = fetch_document(self._settings.issuer_url, self._context, self._clock, _Endpoints)
                    seconds = _KEPT_SECONDS
                except FetchError as error:
                    if not self._known.token_endpoint:
                        raise SignInError(error.hint) from error
                finally:  # who has waited meanwhile does not try again: a name may be resolved for long
                    self._until = self._clock.monotonic() + seconds
            found = self._known
        if not all(_is_https(each) for each in (found.authorization_endpoint, found.token_endpoint)):
            raise SignInError("it names no addresses for it")
        return found


def _is_https(url: str) -> bool:
    try:
        split = urlsplit(url)
        return split.scheme == "https" and bool(split.hostname) and split.port != 0
    except ValueError:
        return False
