"""Settings of the authentication at the embedded API server."""

from typing import Annotated, Final

import msgspec

ISSUER: Final = "https://kubernetes.default.svc"
"""The issuer of the tokens of service accounts, unless another one is configured."""


class ServiceAccountSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens of service accounts."""

    issuer: Annotated[str, msgspec.Meta(min_length=1)] = ISSUER
    """The issuer of tokens (kube-apiserver's `--service-account-issuer`)."""

    audiences: tuple[str, ...] = ()
    """Audiences of the API server (kube-apiserver's `--api-audiences`); a token that asks for none is for all of them.
    Default the issuer."""

    mounted: bool = False
    """Whether containers of pods get one, and namespaces the certificate authority; with the secure port only."""

    @property
    def api_audiences(self) -> tuple[str, ...]:
        """The audiences of the API server."""
        return self.audiences or (self.issuer,)
