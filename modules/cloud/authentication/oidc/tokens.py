"""Finds the users of an identity provider's tokens."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.jws import Jws, JwsError, read_jws
from modules.cloud.authentication.oidc.key_sets import ProviderKey, is_signed_by_one
from modules.cloud.authentication.settings import EMAIL, OidcSettings
from modules.cloud.authentication.users import Authenticated, User, is_reserved

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.clock import Clock

_log = logging.getLogger(__name__)

MOST_WAITING: Final = 32
"""Requests that wait for new keys at a time; others are answered by the keys that are there."""

_LEEWAY: Final = 300
"""Seconds that a provider's clock may be ahead (go-oidc's, which kube-apiserver uses)."""
_VERIFIED: Final = "email_verified"

Claims = dict[str, Any]


class KnownKeys:
    """The keys of the provider, for all threads; they outlive a restart of the module that fetches them."""

    def __init__(self) -> None:
        self.keys: tuple[ProviderKey, ...] = ()
        """The last ones that were fetched; none before the first."""


class TokenRefusedError(BeehiveError):
    """A token of the provider is not accepted. The error names claims, and shows no value of one."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot accept a token of the identity provider", "", why)


def read_claims(jws: Jws) -> Claims:
    """Return the claims of a token, whether or not it is signed; none of one without claims."""
    try:
        claims = decode_json(jws.payload, Claims)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return dict(claims)


def user_of(claims: Claims, settings: OidcSettings, now: float) -> User:
    """Return the user of a token whose signature was checked.

    A name that is reserved for Kubernetes' own users is refused, whatever claim and prefix it is made of, and a group
    with such a name is left out: so a provider makes nobody an administrator, a node or a service account.

    Args:
        claims: of the token.
        settings: of the provider.
        now: seconds since the epoch.

    Raises:
        TokenRefusedError: the token is not for this server, not valid now, or names no user.
    """
    _check(claims, settings, now)
    claim = settings.username_claim
    name = claims.get(claim)
    if not isinstance(name, str) or not name:
        raise TokenRefusedError(f"its claim {claim} is no name")
    if claim == EMAIL and claims.get(_VERIFIED, True) is not True:
        raise TokenRefusedError(f"its claim {_VERIFIED} is not true")
    name = settings.name_prefix + name
    if not _may_be(name):
        raise TokenRefusedError(f"its claim {claim} is a name that is reserved, or not printable")
    groups = _strings(claims.get(settings.groups_claim) or []) if settings.groups_claim else []
    if groups is None:
        raise TokenRefusedError(f"its claim {settings.groups_claim} is no list of names")
    return User(name, groups=tuple(filter(_may_be, (settings.groups_prefix + group for group in groups))))


def _check(claims: Claims, settings: OidcSettings, now: float) -> None:
    """Check everything but the names.

    Raises:
        TokenRefusedError: a claim is not as it has to be.
    """
    if claims.get("iss") != settings.issuer_url:
        raise TokenRefusedError("its claim iss is another issuer")
    if settings.client_id not in (_strings(claims.get("aud")) or ()):
        raise TokenRefusedError(f"its claim aud does not name the client {settings.client_id}")
    if now >= _time(claims, "exp"):
        raise TokenRefusedError("its claim exp has passed")
    if "nbf" in claims and _time(claims, "nbf") > now + _LEEWAY:
        raise TokenRefusedError("its claim nbf is to come")
    for name, value in settings.required_claims.items():
        if claims.get(name) != value:
            raise TokenRefusedError(f"its claim {name} has not the required value")


def _may_be(name: str) -> bool:
    """Return whether a provider may name a user or a group so."""
    return bool(name) and name.isprintable() and not is_reserved(name)


def _strings(value: object) -> list[str] | None:
    """Return a string, or a list of strings, as a list; None for anything else."""
    found = [value] if isinstance(value, str) else value
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None


def _time(claims: Claims, name: str) -> float:
    """Return a time in seconds since the epoch.

    Raises:
        TokenRefusedError: it is missing, or no number.
    """
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TokenRefusedError(f"its claim {name} is no time")
    return value


class OidcTokens:
    """The users of tokens, found on the threads of connections (`TokenAuthenticator`).

    A token whose key is not known asks for new keys, and waits for them: providers change their keys. How often they
    are fetched is up to the module, as anybody can send tokens with ids of keys that do not exist.

    Args:
        settings: of the provider.
        api_audiences: the audiences of the API server; a token of the provider is for all of them, as with
            kube-apiserver.
        known: the keys.
        refresh: asks for new keys, and returns when the fetch has ended.
        clock: the time.
    """

    def __init__(
        self,
        settings: OidcSettings,
        api_audiences: tuple[str, ...],
        known: KnownKeys,
        refresh: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._api_audiences = api_audiences
        self._known = known
        self._refresh = refresh
        self._clock = clock
        self._places = threading.BoundedSemaphore(MOST_WAITING)

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Authenticated | None:
        """Return the user of a token for one of some audiences; None if the token is not valid, or another issuer's.

        Raises:
            ApiStatusError: 503; it is a token of the provider, whose keys could not be fetched yet.
        """
        try:
            jws = read_jws(token)
        except JwsError:
            return None
        claims = read_claims(jws)
        shared = tuple(each for each in audiences if each in self._api_audiences)
        if claims.get("iss") != self._settings.issuer_url or not shared:
            return None
        try:
            self._check_signature(jws)
            user: User = user_of(claims, self._settings, self._clock.now())
        except TokenRefusedError as error:
            _log.warning("a token of the identity provider is refused: %s", error.hint)
            return None
        return Authenticated(user, shared)

    def _check_signature(self, jws: Jws) -> None:
        """Check that the provider has signed a token.

        Raises:
            TokenRefusedError: it has not.
            ApiStatusError: 503; it is not known, because there are no keys.
        """
        if jws.algorithm not in self._settings.signing_algs:
            raise TokenRefusedError("its algorithm is not one of --oidc-signing-algs")
        if is_signed_by_one(jws, self._known.keys):
            return
        if self._places.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._places.release()
        keys = self._known.keys
        if not keys:
            raise ApiStatusError(503, "the keys of the identity provider could not be fetched yet: try again soon")
        if not is_signed_by_one(jws, keys):
            raise TokenRefusedError("no key of the provider has signed it")
