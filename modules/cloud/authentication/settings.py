"""Settings of the authentication at the embedded API server."""

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from modules.cloud.authentication.jws import ALGORITHMS
from modules.cloud.authentication.users import RESERVED, is_reserved

EMAIL: Final = "email"
"""The claim with the user's address, which the provider may not have verified."""
ISSUER: Final = "https://kubernetes.default.svc"
"""The issuer of the tokens of service accounts, unless another one is configured."""


class ServiceAccountSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens of service accounts."""

    issuer: Annotated[str, msgspec.Meta(min_length=1)] = ISSUER
    """The issuer of tokens (kube-apiserver's `--service-account-issuer`)."""

    audiences: tuple[str, ...] = ()
    """Audiences of the API server (kube-apiserver's `--api-audiences`); a token without audiences is for all of them.
    Default the issuer."""

    mounted: bool = False
    """Whether containers of pods get one, and namespaces the certificate authority; with the secure port only."""

    @property
    def api_audiences(self) -> tuple[str, ...]:
        """The audiences of the API server."""
        return self.audiences or (self.issuer,)


class OidcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tokens of an identity provider (OpenID Connect), with the names of kube-apiserver's options `--oidc-…`."""

    issuer_url: str
    """The provider's URL, https, and exactly the issuer in its tokens."""

    client_id: str
    """The audience that a token must name."""

    username_claim: str = "sub"
    """The claim that has the user's name."""

    username_prefix: str = ""
    """Before the user's name. `-` means no prefix; "" means no prefix for the claim `email`, and the issuer with `#`
    for others.
    """

    groups_claim: str = ""
    """The claim that has the user's groups, a string or a list; "" for no groups."""

    groups_prefix: str = ""
    """Before the name of each group."""

    required_claims: dict[str, str] = {}
    """Claims that a token must have, with these values."""

    signing_algs: tuple[str, ...] = ("RS256",)
    """The algorithms that tokens may be signed with."""

    ca_file: Path | None = None
    """The authorities of the provider's certificate, PEM. Default: the machine's."""

    @property
    def name_prefix(self) -> str:
        """Prefix of each user's name."""
        if self.username_prefix:
            return "" if self.username_prefix == "-" else self.username_prefix
        return "" if self.username_claim == EMAIL else f"{self.issuer_url}#"

    @property
    def mistake(self) -> str:
        """Why the settings cannot be used, naming kube-apiserver's option; "" if they can."""
        url = urlsplit(self.issuer_url)
        if url.scheme != "https" or not url.hostname or url.query or url.fragment or "@" in url.netloc:
            return "--oidc-issuer-url is a URL https://HOST[:PORT][/PATH]"
        if not self.client_id:
            return "--oidc-issuer-url and --oidc-client-id belong together: a token is for one client"
        if not self.username_claim:
            return "--oidc-username-claim names a claim: without it users have no name"
        unknown = [each for each in self.signing_algs if each not in ALGORITHMS]
        if unknown or not self.signing_algs:
            return f"--oidc-signing-algs are some of {', '.join(ALGORITHMS)}"
        prefixes = (("username", self.name_prefix), ("groups", self.groups_prefix))
        reserved = [name for name, prefix in prefixes if is_reserved(prefix)]
        if reserved:
            return f"--oidc-{reserved[0]}-prefix: names that begin with {' or '.join(RESERVED)} are reserved"
        return ""
