"""The public keys of an identity provider (JSON Web Key Sets, RFC 7517)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from modules.cloud.authentication.jws import CURVES, from_base64url, is_signed_by
from modules.cloud.authentication.rsa_bounds import LEAST_BITS, MOST_BITS, is_within_bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modules.cloud.authentication.jws import Jws, PublicKey

MOST_KEYS: Final = 64
"""Keys of a set; one with more is refused."""


class KeySetError(BeehiveError):
    """A text is no set of keys."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot use the keys of the identity provider", "", why)


class JsonWebKey(msgspec.Struct, frozen=True):
    """A public key as a provider describes it."""

    kty: str = ""
    kid: str = ""
    use: str = ""
    alg: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""
    n: str = ""
    e: str = ""


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[msgspec.Raw]


class ProviderKey(msgspec.Struct, frozen=True):
    """A key that can check signatures."""

    key_id: str
    algorithm: str
    """The only algorithm that the provider uses it for; "" for any that it can."""
    key: Any
    """`PublicKey`."""


def read_key_set(text: bytes) -> tuple[ProviderKey, ...]:
    """Return the keys of a set that can check signatures; others are left out, as RFC 7517 wants it.

    Raises:
        KeySetError: it is no set of keys, or has more than 64, or none that can be used.
    """
    try:
        entries = decode_json(text, _KeySet).keys
    except (msgspec.DecodeError, UnicodeError) as error:
        raise KeySetError("it is no JSON Web Key Set") from error
    if len(entries) > MOST_KEYS:
        raise KeySetError(f"it has more than {MOST_KEYS} keys")
    found = tuple(key for key in map(_provider_key, entries) if key is not None)
    if not found:
        raise KeySetError(f"it has no RSA key of {LEAST_BITS} to {MOST_BITS} bits, and none on P-256, P-384 or P-521")
    return found


def is_signed_by_one(jws: Jws, keys: Iterable[ProviderKey]) -> bool:
    """Return whether one of some keys has signed a token; if the token names its key, one with this id."""
    return any(
        jws.key_id in ("", each.key_id) and each.algorithm in ("", jws.algorithm) and is_signed_by(jws, each.key)
        for each in keys
    )


def _provider_key(entry: msgspec.Raw) -> ProviderKey | None:
    try:
        described = decode_json(entry, JsonWebKey)
        key = _public_key(described) if described.use in ("", "sig") else None
    except ValueError:  # msgspec's errors are ValueErrors
        return None
    return None if key is None else ProviderKey(described.kid, described.alg, key)


def _public_key(described: JsonWebKey) -> PublicKey | None:
    """Return a key; None for one of another kind.

    Raises:
        ValueError: it is not valid.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415 - 8 MB

    if described.kty == "RSA":
        modulus, exponent = _number(described.n), _number(described.e)
        if not is_within_bounds(modulus.bit_length(), exponent):
            return None
        return rsa.RSAPublicNumbers(exponent, modulus).public_key()
    if described.kty == "EC" and described.crv in CURVES:
        curves = (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())
        curve = next(each for each in curves if each.name == CURVES[described.crv])
        return ec.EllipticCurvePublicNumbers(_number(described.x), _number(described.y), curve).public_key()
    return None


def _number(text: str) -> int:
    return int.from_bytes(from_base64url(text), "big")
