"""The authentication of the embedded API server's clients, and the keys for others to verify its tokens."""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

from beehive.http.responses import Response
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.endpoints.module_caller import ModuleCaller
from modules.cloud.apiserver.tokens.openid import openid_document
from modules.cloud.apiserver.tokens.verification import ServiceAccountTokens
from modules.cloud.authentication.authenticator import Authenticator, TokenAuthenticator
from modules.cloud.authentication.settings import ISSUER
from modules.cloud.authentication.token_file import StaticTokens, read_tokens
from modules.cloud.identities.known import NOT_YET, KnownIdentities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from beehive.clock import Clock
    from beehive.hive import Hive
    from modules.cloud.authentication.settings import OidcSettings
    from modules.cloud.authorization.subject_reviews import Authenticate
    from modules.cloud.identities.known import ServesCertified
    from modules.processes.cloudcore.config import CloudCoreConfig


class ApiTokens:
    """An authenticator by certificates, static tokens, the tokens of an identity provider and service accounts' tokens,
    which a cluster has not from here.

    Args:
        config: settings.
        hive: has the module apiserver.
        clock: the time.
        identities: knows which client certificates are refused.
        port: returns the port of the Kubernetes API.

    Raises:
        TokenFileError: the file of static tokens cannot be used.
        FetchError: the authorities of the identity provider cannot be used.
    """

    def __init__(
        self, config: CloudCoreConfig, hive: Hive, clock: Clock, identities: KnownIdentities, port: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._identities = identities
        self._config = config
        self._port = port
        file, caller = config.token_auth_file, ModuleCaller(hive, clock)
        static = read_tokens(file) if file else StaticTokens({})
        is_embedded = config.kubeconfig is None and not config.in_cluster
        others: list[TokenAuthenticator] = [] if config.oidc is None else [_provider(config, config.oidc, hive, clock)]
        self._accounts = (
            ServiceAccountTokens(config.tokens, caller, clock, identities.refuses_token) if is_embedded else None
        )
        if self._accounts is not None:
            others.append(self._accounts)
        self.authenticator = Authenticator(static, self._check, others, config.tokens)
        self.authenticate: Authenticate = self.authenticator.authenticate
        self._caller = caller

    def document(self, parts: tuple[str, ...]) -> Response | None:
        """Return a document about the tokens of service accounts (`openid_document`)."""
        return openid_document(parts, self._config.tokens.issuer, self._keys_uri(), self._caller)

    def end_connections(self, server: ServesCertified) -> Callable[[], None]:
        """End, whenever something is revoked, the connections whose certificate or token is refused from then on.

        Returns:
            A function that ends this.
        """
        return self._identities.end_connections(server, self._is_refused)

    def _is_refused(self, credentials: str) -> bool:
        token = credentials.partition(" ")[2].strip()
        return bool(token) and self._accounts is not None and self._accounts.is_refused(token)

    def _keys_uri(self) -> str:
        """Return where others find the keys: at the issuer, if it was configured; else at the secure port."""
        issuer, tls = self._config.tokens.issuer, self._config.tls
        root = issuer if issuer != ISSUER or tls is None else f"https://{tls.names[0]}:{self._port()}"
        return f"{root.rstrip('/')}/openid/v1/jwks"

    def _check(self, certificate: Mapping[str, Any] | None) -> None:
        """Check that a client certificate is accepted, with each request: connections, and sessions of the page, may be
        older than its end. Raises ApiStatusError if it is not.
        """
        ends = (certificate or {}).get("notAfter")
        if ends and self._clock.now() > ssl.cert_time_to_seconds(str(ends)):
            raise ApiStatusError(401, "Unauthorized: the certificate has expired")
        why = self._identities.refusal(certificate)
        if why:
            raise ApiStatusError(503 if why == NOT_YET else 401, why if why == NOT_YET else f"Unauthorized: {why}")


def _provider(config: CloudCoreConfig, settings: OidcSettings, hive: Hive, clock: Clock) -> TokenAuthenticator:
    """Return the finder of the users of the identity provider's tokens, and add the module that fetches its keys.

    Raises:
        FetchError: the authorities cannot be used.
    """
    from modules.cloud.authentication.oidc import fetching, module, tokens  # noqa: PLC0415 - only with a provider

    context, known = fetching.trusted(settings.ca_file), tokens.KnownKeys()
    hive.add(module.IdentityProvider, known, partial(fetching.fetch_keys, settings.issuer_url, context, clock))
    refresh = partial(module.ask_for_keys, hive, clock)
    return tokens.OidcTokens(settings, config.tokens.api_audiences, known, refresh, clock)
