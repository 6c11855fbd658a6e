"""Finds the users of an identity provider's tokens."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.jws import Jws, JwsError, read_jws
from modules.cloud.authentication.oidc.claims import TokenRefusedError, read_claims, user_of
from modules.cloud.authentication.oidc.key_sets import ProviderKey, is_signed_by_one
from modules.cloud.authentication.users import Authenticated

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.clock import Clock
    from modules.cloud.authentication.settings import OidcSettings
    from modules.cloud.authentication.users import User

_log = logging.getLogger(__name__)

MOST_WAITING: Final = 32
"""Requests that wait for new keys at a time; others are answered by the keys that are there."""


class KnownKeys:
    """The keys of the provider, for all threads; they outlive a restart of the module that fetches them."""

    def __init__(self) -> None:
        self.keys: tuple[ProviderKey, ...] = ()
        """The last ones that were fetched; none before the first."""


class OidcTokens:
    """Finds the users of tokens, on the threads of connections (`TokenAuthenticator`).

    A token whose key is not known asks for new keys, and waits for them: providers change their keys. How often they
    are fetched is up to the module, as anybody can send tokens with ids of keys that do not exist.

    Args:
        settings: of the provider.
        api_audiences: the audiences of the API server; a token of the provider is for all of them, as with
            kube-apiserver.
        known: the keys.
        refresh: asks for new keys, and returns when they are there or when there are none.
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
        """Return the user of a token for one of some audiences; None for one that is not valid, or another issuer's.

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
