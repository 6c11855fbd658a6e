"""Targets of an identity provider's users: tokens, their claims, and sets of keys."""

import json
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from beehive.simulation.scheduler import VirtualClock
from modules.cloud.authentication.jws import Jws
from modules.cloud.authentication.oidc.key_sets import MOST_KEYS, KeySetError, read_key_set
from modules.cloud.authentication.oidc.tokens import KnownKeys, OidcTokens, TokenRefusedError, read_claims, user_of
from modules.cloud.authentication.settings import OidcSettings
from tests.fuzz.cloud import spelt
from tests.fuzz.target import Target, must
from tests.modules.cloud.authentication.oidc.provider import CLIENT, claims, jwk, key_for, key_set, rsa_key, signed

_ISSUER: Final = "https://login.example"
_API: Final = ("https://kubernetes.default.svc",)
_SETTINGS: Final = OidcSettings(
    issuer_url=_ISSUER, client_id=CLIENT, username_prefix="-", groups_claim="groups", signing_algs=("RS256", "ES256")
)


@cache
def _tokens() -> Sequence[bytes]:
    given = claims(_ISSUER, 0.0)
    good = [signed(given), signed(given, "ES256", kid="k2"), signed(given, kid=None)]
    head = json.dumps({"alg": "RS256", "kid": "k1"})
    plain = f"plain\n{head}\n{json.dumps(given)}\nsignature"
    return tuple(each.encode() for each in (*good, plain, plain))


@cache
def _provider() -> OidcTokens:
    known = KnownKeys()
    known.keys = read_key_set(_sets()[0])
    return OidcTokens(_SETTINGS, _API, known, lambda: None, VirtualClock(0))


def _check_token(data: bytes, _: Random) -> None:
    """Check that only what the provider has signed is accepted."""
    text = spelt(data).decode("latin-1")
    found = _provider().authenticate(text, _API)
    issued = {token.decode().rpartition(".")[0] for token in _tokens()[:3]}
    must(found is None or text.rpartition(".")[0] in issued, "what the signature is for is what was issued")
    must(found is None or found.user.name == "carol", "and its user is the one that it was issued for")


def _claims() -> Sequence[bytes]:
    many = claims(_ISSUER, 0.0, aud=["a", CLIENT], nbf=1, groups=["system:masters", "shop", "system:nodes"])
    return tuple(json.dumps(each).encode() for each in (claims(_ISSUER, 0.0), many, {**many, "sub": "system:node:n1"}))


def _check_claims(data: bytes, _: Random) -> None:
    """Check that nobody becomes one of Kubernetes' own users, whatever a provider signs."""
    try:
        user = user_of(read_claims(Jws("", "", data, b"", b"")), _SETTINGS, 0.0)
    except TokenRefusedError:
        return
    for name in (user.name, *user.groups):
        must(bool(name) and name.isprintable(), "a name can be shown")
        must(not name.startswith(("system:", "kubeedge:")), "a name is not reserved")
    must(user.node == "" and not user.is_administrator, "it is a plain user")


@cache
def _sets() -> Sequence[bytes]:
    keys = jwk(rsa_key(), "k1", use="sig"), jwk(key_for("ES256"), "k2"), jwk(key_for("ES384"), "k3", alg="ES384")
    return key_set(*keys), key_set(keys[1]), key_set(*reversed(keys))


def _check_set(data: bytes, _: Random) -> None:
    """Check that a set has few keys, and none that is weak or too large to check with."""
    try:
        keys = read_key_set(data)
    except KeySetError:
        return
    must(0 < len(keys) <= MOST_KEYS, "there are a few")
    for each in keys:
        size = each.key.key_size
        is_rsa = isinstance(each.key, rsa.RSAPublicKey)
        must(2048 <= size <= 8192 if is_rsa else size in (256, 384, 521), "a key has a usual size")


TARGETS: Final = (
    Target("provider-token", _tokens, _check_token),
    Target("provider-claims", _claims, _check_claims),
    Target("provider-keys", _sets, _check_set),
)
