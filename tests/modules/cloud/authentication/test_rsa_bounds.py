"""Which RSA keys of others are used."""

import json

import pytest

from modules.cloud.authentication.jws import to_base64url
from modules.cloud.authentication.oidc.key_sets import KeySetError, read_key_set
from modules.cloud.authentication.rsa_bounds import is_within_bounds


@pytest.mark.parametrize(
    ("bits", "exponent", "is_used"),
    [(2047, 65_537, False), (2048, 3, True), (4096, 2**31 - 1, True), (4097, 65_537, False), (4096, 2**31, False)],
)
def test_keys_are_neither_weak_nor_expensive(bits: int, exponent: int, *, is_used: bool) -> None:
    assert is_within_bounds(bits, exponent) is is_used


def test_large_keys_of_an_identity_provider_are_left_out() -> None:
    """A token without a key's id is checked with all 64 of a set."""
    modulus = ((1 << 4096) + 1).to_bytes(513, "big")
    key = {"kty": "RSA", "kid": "large", "n": to_base64url(modulus), "e": "AQAB"}
    with pytest.raises(KeySetError, match="no RSA key of 2048 to 4096 bits"):
        read_key_set(json.dumps({"keys": [key]}).encode())
