"""The documents that let others check tokens of service accounts (OpenID Connect Discovery 1.0)."""

from typing import Final, Protocol

import msgspec

from beehive.http.responses import Response
from modules.cloud.apiserver.system_roles import OPENID_PATHS
from modules.cloud.apiserver.tokens.signing_keys import json_web_keys
from modules.cloud.authentication.jws import ALGORITHM

_CONFIGURATION, _KEYS = (tuple(path[1:].split("/")) for path in OPENID_PATHS)
_CACHED: Final = (("Cache-Control", "public, max-age=3600"),)
"""As kube-apiserver's."""


class TokenKeySource(Protocol):
    """A source of the keys of service accounts."""

    def token_keys(self) -> dict[str, bytes]:
        """Return the public keys, PEM, by their ids. Raises ApiStatusError."""


def openid_document(parts: tuple[str, ...], issuer: str, keys_uri: str, caller: TokenKeySource) -> Response | None:
    """Return the document at a path; None for another path.

    Args:
        parts: of the path.
        issuer: the issuer of the tokens.
        keys_uri: where others find the public keys.
        caller: has the keys.

    Raises:
        ApiStatusError: there is no answer about the keys.
    """
    if parts == _KEYS:
        found = json_web_keys(caller.token_keys())
        return Response(200, "application/jwk-set+json", msgspec.json.encode(found), headers=_CACHED)
    if parts != _CONFIGURATION:
        return None
    configuration = {
        "issuer": issuer,
        "jwks_uri": keys_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }
    return Response(200, "application/json", msgspec.json.encode(configuration), headers=_CACHED)
