"""The user of a request over TCP: by a client certificate, or by a bearer token."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.settings import ServiceAccountSettings
from modules.cloud.authentication.token_file import StaticTokens
from modules.cloud.authentication.users import Authenticated, User, user_of_certificate


class TokenAuthenticator(Protocol):
    """An authenticator that finds the users of tokens."""

    def authenticate(self, token: str, audiences: tuple[str, ...], /) -> Authenticated | None:
        """Return the user of a token for one of some audiences; None if the token is not valid, or not of this kind.
        Raise ApiStatusError when that cannot be found out.
        """


def is_by_token(request: Request) -> bool:
    """Return whether a bearer token is what authenticates a request: a certificate with a user counts before it. A page
    cannot have a browser send a token that it does not know, but any page can make one up beside the certificate.
    """
    scheme = request.header("authorization").partition(" ")[0]
    return scheme.lower() == "bearer" and user_of_certificate(request.certificate) is None


class Authenticator:
    """The authenticator of requests; a certificate counts before a token, as with kube-apiserver.

    Args:
        tokens: the static tokens.
        others: find the users of other tokens, in this order.
        settings: the audiences of the API server.
        check: checks that a client certificate is not revoked; raises ApiStatusError if it is.
    """

    def __init__(
        self,
        tokens: StaticTokens,
        check: Callable[[Mapping[str, Any] | None], None] = lambda _: None,
        others: Sequence[TokenAuthenticator] = (),
        settings: ServiceAccountSettings | None = None,
    ) -> None:
        self._tokens = tokens
        self._check = check
        self._others = others
        self._audiences = (settings or ServiceAccountSettings()).api_audiences

    def authenticate(self, token: str, audiences: tuple[str, ...] = ()) -> Authenticated | None:
        """Return the user of a bearer token, or None if it is not valid.

        Args:
            token: the token.
            audiences: it is for one of these; none: for one of the API server's. A static token is for the API server.

        Raises:
            ApiStatusError: it is not known whether it is valid.
        """
        user = self._tokens.user(token)
        wanted = audiences or self._audiences
        if user is not None:
            shared = tuple(each for each in wanted if each in self._audiences)
            return Authenticated(user, shared) if shared else None
        found = (other.authenticate(token, wanted) for other in self._others)
        return next((each for each in found if each is not None), None)

    def user(self, request: Request) -> User | None:
        """Return the user of a request, None for an anonymous one.

        Raises:
            ApiStatusError: 401; the request has credentials that are not valid. 503; it is not known yet whether.
        """
        self._check(request.certificate)
        user = user_of_certificate(request.certificate)
        if user is not None:
            return user
        credentials = request.header("authorization")
        if not credentials and request.certificate is None:
            return None
        scheme, _, token = credentials.partition(" ")
        found = self.authenticate(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise ApiStatusError(401, "Unauthorized")
        return found.user
