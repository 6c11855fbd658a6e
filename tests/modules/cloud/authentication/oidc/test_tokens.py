"""Which tokens are a provider's, by their signatures, and when new keys are asked for."""

import hmac
import logging
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from beehive.simulation import Simulation
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.jws import ALGORITHMS, LONGEST, JwsError, is_signed_by, read_jws, to_base64url
from modules.cloud.authentication.oidc.key_sets import MOST_KEYS, KeySetError, ProviderKey, read_key_set
from modules.cloud.authentication.oidc.tokens import MOST_WAITING, KnownKeys, OidcTokens
from modules.cloud.authentication.settings import OidcSettings
from tests.modules.cloud.authentication.oidc.provider import (
    CLIENT,
    claims,
    jwk,
    key_for,
    key_set,
    keys_of,
    rsa_key,
    signed,
    unsigned,
)

ISSUER = "https://login.example"
API = ("https://kubernetes.default.svc",)


class Tokens:
    """The authenticator with a provider's keys, and what it asks for."""

    def __init__(self, *keys: ProviderKey, later: tuple[ProviderKey, ...] | None = None, **changes: Any) -> None:
        settings = OidcSettings(**{"issuer_url": ISSUER, "client_id": CLIENT, "username_prefix": "-", **changes})
        self.known = KnownKeys()
        self.known.keys = keys
        self._later = later
        self.clock = Simulation(0).clock
        self.asked = 0
        self.tokens = OidcTokens(settings, API, self.known, self._refresh, self.clock)

    def _refresh(self) -> None:
        self.asked += 1
        if self._later is not None:
            self.known.keys = self._later

    def claims(self, **changes: Any) -> dict[str, Any]:
        return claims(ISSUER, self.clock.now(), **changes)

    def user(self, token: str, audiences: tuple[str, ...] = API) -> str | None:
        """The user's name."""
        found = self.tokens.authenticate(token, audiences)
        assert found is None or found.audiences == API
        return None if found is None else found.user.name


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_is_accepted_only_where_it_is_allowed(algorithm: str) -> None:
    """And only with a key of its kind; an RSA key may be restricted to one."""
    key = key_for(algorithm)
    tokens = Tokens(*keys_of(key), signing_algs=(algorithm,))
    token = signed(tokens.claims(), algorithm)
    assert tokens.user(token) == "carol"
    assert tokens.user(token, ("other", *API)) == "carol"
    assert tokens.user(token, ("other",)) is None
    assert tokens.user(token.rpartition(".")[0] + "." + to_base64url(b"x" * 256)) is None
    assert tokens.user(signed(tokens.claims(exp=1), algorithm)) is None
    others = tuple(each for each in ALGORITHMS if each != algorithm)
    assert Tokens(*keys_of(key), signing_algs=others).user(token) is None
    assert Tokens(*keys_of(key, alg=others[0]), signing_algs=(algorithm,)).user(token) is None
    other_kind = keys_of(key_for("RS256" if algorithm.startswith("ES") else "ES256"))
    assert Tokens(*other_kind, signing_algs=ALGORITHMS).user(token) is None


def test_a_public_key_is_no_secret() -> None:
    """Tokens without a signature, or signed with the public key as a secret, are refused (RFC 8725 §2.1)."""
    tokens = Tokens(*keys_of(rsa_key()), signing_algs=ALGORITHMS)
    public = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for algorithm in ("HS256", "none", "None", "", "RS1"):
        text = unsigned(tokens.claims(), alg=algorithm, kid="k1")
        for secret in (public, public.strip(), key_set(jwk(rsa_key(), "k1"))):
            assert tokens.user(f"{text}.{to_base64url(hmac.digest(secret, text.encode(), 'sha256'))}") is None
        assert tokens.user(f"{text}.") is None
    assert tokens.asked == 0


@pytest.mark.parametrize("kid", ["k1", None, ""])
def test_a_token_may_leave_its_key_unnamed(kid: str | None) -> None:
    """Then any key may have signed it; a named key must have."""
    keys = read_key_set(key_set(jwk(rsa_key(1), "k0"), jwk(rsa_key(), "k1")))
    tokens = Tokens(*keys)
    assert tokens.user(signed(tokens.claims(), kid=kid)) == "carol"
    assert tokens.user(signed(tokens.claims(), kid="k0")) is None
    assert tokens.asked == 1


def test_an_unknown_key_is_asked_for() -> None:
    """The token with it is accepted immediately, and a token that no key has signed is refused."""
    tokens = Tokens(*keys_of(rsa_key(), "k1"), later=keys_of(rsa_key(1), "k2"))
    assert tokens.user(signed(tokens.claims())) == "carol"
    assert tokens.asked == 0
    assert tokens.user(signed(tokens.claims(), key=rsa_key(1), kid="k2")) == "carol"
    assert tokens.asked == 1
    assert tokens.user(signed(tokens.claims())) is None, "the provider has withdrawn its key"


def test_without_keys_it_is_not_known_who_it_is() -> None:
    """That is 503; other issuers' tokens are left alone, and cause no request."""
    tokens = Tokens()
    with pytest.raises(ApiStatusError) as refused:
        tokens.user(signed(tokens.claims()))
    assert (refused.value.code, tokens.asked) == (503, 1)
    for other in (signed(tokens.claims(iss=ISSUER + "/")), signed([]), "wrong", "a.b.c", "x" * (LONGEST + 1)):
        assert tokens.user(other) is None
    assert tokens.asked == 1


@pytest.mark.parametrize(
    ("header", "is_read"), [({"crit": ["exp"]}, False), ({"kid": "k" * 254}, False), ({"kid": "k" * 253}, True)]
)
def test_a_header_that_is_not_understood_is_refused(header: dict[str, Any], *, is_read: bool) -> None:
    with nullcontext() if is_read else pytest.raises(JwsError):
        read_jws(unsigned({}, **{"alg": "RS256", **header}) + ".AAAA")


def test_a_signature_has_the_form_of_its_algorithm() -> None:
    """An RSA key signs by no algorithm of a curve, and two numbers have their bytes."""
    jws = read_jws(signed({}, "RS256"))
    public = rsa_key().public_key()
    assert is_signed_by(jws, public)
    assert not is_signed_by(msgspec.structs.replace(jws, algorithm="ES256"), public)
    jws, key = read_jws(signed({}, "ES256")), key_for("ES256")
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert is_signed_by(jws, key.public_key())
    longer = jws.signature[:32] + b"\0" + jws.signature[32:]
    assert not is_signed_by(msgspec.structs.replace(jws, signature=longer), key.public_key())


def test_a_token_is_bounded() -> None:
    longest = f"{unsigned({}, alg='RS256')}.".ljust(LONGEST, "A")
    assert read_jws(longest).algorithm == "RS256"
    with pytest.raises(JwsError, match="three parts"):
        read_jws(longest + "A")


def test_a_fetch_that_fails_gives_its_place_back() -> None:
    tokens = Tokens(*keys_of(rsa_key()))
    token = signed(tokens.claims(), kid="k2")
    tokens.tokens._refresh = Mock(side_effect=OSError)
    for _ in range(MOST_WAITING + 1):
        with pytest.raises(OSError):
            tokens.user(token)


def test_few_requests_wait_for_keys_at_a_time() -> None:
    """The others are answered by the keys that are there."""
    depth = 0

    def refresh() -> None:
        nonlocal depth
        depth += 1
        tokens.user(token)

    tokens = Tokens(*keys_of(rsa_key()))
    token = signed(tokens.claims(), kid="k2")
    tokens.tokens._refresh = refresh
    assert tokens.user(token) is None
    assert depth == MOST_WAITING


@pytest.mark.parametrize(
    "changes", [{"kid": "k2"}, {"claims": {"aud": "other"}}, {"claims": {"sub": "system:x"}}, {"cut": 3}]
)
def test_no_refused_token_is_logged(caplog: pytest.LogCaptureFixture, changes: dict[str, Any]) -> None:
    """A line says why it was refused, without a part of it."""
    caplog.set_level(logging.DEBUG)
    tokens = Tokens(*keys_of(rsa_key()))
    token = signed(tokens.claims(**changes.get("claims", {})), kid=changes.get("kid", "k1"))
    token = token[: -changes["cut"]] if "cut" in changes else token
    assert tokens.user(token) is None
    assert "a token of the identity provider is refused" in caplog.text
    assert not any(part[:20] in caplog.text for part in token.split("."))


def test_a_set_has_the_keys_that_can_be_used() -> None:
    """Keys for encryption, weak and unknown ones are left out; a set without any, or with too many, is refused."""
    good = jwk(rsa_key(), "good", use="sig", alg="RS256", x5t="ignored")
    left_out = [
        jwk(rsa_key(), "enc", use="enc"),
        jwk(rsa_key(), "tls", use="tls"),
        jwk(rsa_key(0, 1024), "weak"),
        {**jwk(rsa_key(), "even"), "e": "Ag"},
        {**jwk(rsa_key(), "big"), "n": to_base64url(b"\xff" * 1025)},
        {**jwk(rsa_key(), "text"), "n": "no base64url!"},
        {**jwk(key_for("ES256"), "off"), "x": to_base64url(b"\x01" * 32)},
        {**jwk(key_for("ES256"), "curve"), "crv": "secp256k1"},
        {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
        {"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": "AAAA"},
    ]
    assert [key.key_id for key in read_key_set(key_set(*left_out, good, jwk(key_for("ES512"), "ec")))] == ["good", "ec"]
    assert len(read_key_set(key_set(*[good] * MOST_KEYS))) == MOST_KEYS
    for text in (
        key_set(),
        key_set(*left_out),
        key_set(*[good] * (MOST_KEYS + 1)),
        b"[]",
        b'{"keys": 1}',
        b"\xff",
        b"{",
    ):
        with pytest.raises(KeySetError):
            read_key_set(text)
