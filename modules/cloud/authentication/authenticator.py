"""The user of a request over TCP: by a client certificate, or by a bearer token."""

from collections.abc import Callable, Mapping
from typing import Any

from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.token_file import StaticTokens
from modules.cloud.authentication.users import User, user_of_certificate


class Authenticator:
    """Authenticates requests; a certificate counts before a token, as with kube-apiserver.

    Args:
        tokens: the static tokens.
        check: checks that a client certificate is not revoked; raises ApiStatusError if it is.
    """

    def __init__(
        self, tokens: StaticTokens, check: Callable[[Mapping[str, Any] | None], None] = lambda _: None
    ) -> None:
        self._tokens = tokens
        self._check = check

    def user_of_token(self, token: str) -> User | None:
        """Return the user of a bearer token, None for one that is not valid."""
        return self._tokens.user(token)

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
        user = self._tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise ApiStatusError(401, "Unauthorized")
        return user
