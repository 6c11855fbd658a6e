"""Finds the users of service accounts' tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.tokens.claims import AccountClaims, is_void, read_claims
from modules.cloud.apiserver.tokens.signing_keys import public_key, public_keys
from modules.cloud.authentication.jws import JwsError, is_signed_by, read_jws
from modules.cloud.authentication.users import Authenticated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from beehive.clock import Clock
    from modules.apimachinery.lister import Lister
    from modules.cloud.apiserver.tokens.signing_keys import KeyStore
    from modules.cloud.authentication.settings import ServiceAccountSettings

_PAUSE: Final = 1.0
"""Seconds between two questions for keys: anybody can send tokens with ids of keys that do not exist."""


class AsksApiServer(Protocol):
    """A client that asks the API server about tokens, whose texts stay here."""

    def token_keys(self) -> dict[str, bytes]:
        """Return the public keys, PEM, by their ids. Raise ApiStatusError without an answer."""

    def is_void(self, claims: AccountClaims, /) -> bool:
        """Return whether a token is void (`claims.is_void`). Raise ApiStatusError without an answer."""


RefusesTokens = Callable[[str, float], bool]
"""Returns whether tokens of pods of a node that were issued at a time are refused. Raises ApiStatusError when that is
not known.
"""


def refuses_none(_node: str, _issued_at: float) -> bool:
    """Refuse no token because of its pod's node (`RefusesTokens`)."""
    return False


class _Checked(NamedTuple):
    claims: AccountClaims
    audiences: tuple[str, ...]


def check_token(
    token: str,
    keys: Mapping[str, bytes],
    settings: ServiceAccountSettings,
    wanted: tuple[str, ...],
    now: float,
    refuses: RefusesTokens,
) -> _Checked | None:
    """Return the claims of a token, and the wanted audiences that it names; None if it is not valid.

    Args:
        token: the token.
        keys: the public keys, PEM, by their ids.
        settings: the issuer, and the audiences of the API server.
        wanted: the token is for one of these audiences; empty: of the API server's.
        now: seconds since the epoch.
        refuses: tokens of a node's pods.
    """
    try:
        jws = read_jws(token)
    except JwsError:
        return None
    pem = keys.get(jws.key_id)
    if pem is None or not is_signed_by(jws, public_key(pem)):
        return None
    claims = read_claims(jws.payload, settings.issuer, now)
    if claims is None or _is_refused(claims, refuses):
        return None
    found = tuple(each for each in wanted or settings.api_audiences if each in claims.aud)
    return _Checked(claims, found) if found else None


def _is_refused(claims: AccountClaims, refuses: RefusesTokens) -> bool:
    return claims.bound.node is not None and refuses(claims.bound.node.name, claims.iat)


def review_token(
    token: str,
    store: KeyStore,
    settings: ServiceAccountSettings,
    wanted: tuple[str, ...],
    objects: Lister,
    now: float,
    refuses: RefusesTokens = refuses_none,
) -> Authenticated | None:
    """Return the user of a token, on the thread of the API server; None if the token is not valid (`check_token`)."""
    checked = check_token(token, public_keys(store), settings, wanted, now, refuses)
    if checked is None or is_void(checked.claims, objects, now):
        return None
    return Authenticated(checked.claims.user, checked.audiences)


class ServiceAccountTokens:
    """The users of tokens, found on the threads of connections.

    A signature is checked here, with the keys that the API server has given. It is asked each time whether the objects
    still exist that the token is bound to: a token is refused as soon as the deletion of one is answered.

    Args:
        settings: the issuer, and the audiences of the API server.
        server: the API server.
        clock: the time.
        refuses: tokens of a node's pods.
    """

    def __init__(
        self, settings: ServiceAccountSettings, server: AsksApiServer, clock: Clock, refuses: RefusesTokens
    ) -> None:
        self._refuses = refuses
        self._settings = settings
        self._server = server
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Mapping[str, bytes] = {}
        self._asked_at = -_PAUSE
        """Monotonic seconds of the last answer to a question for keys, or of its failure."""
        self._problem: ApiStatusError | None = None
        """Why the last question had no answer."""

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Authenticated | None:
        """Return the user of a token for one of some audiences; None if the token is not valid.

        Raises:
            ApiStatusError: the API server does not answer.
        """
        try:
            key_id = read_jws(token).key_id
        except JwsError:
            return None
        keys = self._keys_with(key_id)
        checked = check_token(token, keys, self._settings, audiences, self._clock.now(), self._refuses)
        if checked is None or self._server.is_void(checked.claims):
            return None
        return Authenticated(checked.claims.user, checked.audiences)

    def is_refused(self, token: str) -> bool:
        """Return whether a token that was accepted is refused now, because of its pod's node; no signature is checked,
        and it may have expired since: a connection outlives its token.

        Raises:
            ApiStatusError: it is not known.
        """
        try:
            claims = read_claims(read_jws(token).payload, self._settings.issuer, None)
        except JwsError:
            return False
        return claims is not None and _is_refused(claims, self._refuses)

    def _keys_with(self, key_id: str) -> Mapping[str, bytes]:
        """Return the keys; an unknown key may have been made by another cloudcore, or by this one, just now.

        Raises:
            ApiStatusError: whether there is such a key is not known, as the last question had no answer.
        """
        if key_id in self._keys:
            return self._keys
        with self._lock:
            if key_id not in self._keys and self._clock.monotonic() >= self._asked_at + _PAUSE:
                try:
                    self._keys, self._problem = self._server.token_keys(), None
                except ApiStatusError as error:
                    self._problem = error
                self._asked_at = self._clock.monotonic()
            if key_id not in self._keys and self._problem is not None:
                raise self._problem.with_traceback(None)
            return self._keys
