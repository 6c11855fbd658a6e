"""The keys that sign the tokens of service accounts.

They are in the database, so that all cloudcores that share it sign with the same key and accept each other's tokens.
A key signs for 90 days. Then it loses its private part; the public one stays until its last token has expired. Tokens
that do not expire are signed by a key of their own, which is never replaced.
"""

from __future__ import annotations

import hashlib
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from modules.cloud.authentication.jws import public_jwk, to_base64url
from modules.cloud.storage.signing_key import StoredSigningKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric import ec

    from modules.apimachinery.kinds import JsonObject

_log = logging.getLogger(__name__)

_DAY: Final = 24 * 3600
SIGNS_FOR: Final = 90 * _DAY
"""Seconds that a key signs."""
LONGEST_LIFE: Final = 365 * _DAY
"""Most seconds that a token is valid."""
_UNENDING: Final = 0
"""When a key was made that signs tokens which do not expire. Older versions take it for one that signs no more."""
_KEPT: Final = LONGEST_LIFE + _DAY
"""Seconds that a public key is kept after its last signature: clocks of cloudcores differ."""


class KeyStore(Protocol):
    """A store of keys, in the transactions of the API server (`Database`)."""

    def signing_keys(self) -> list[StoredSigningKey]:
        """Return all keys, including the changes of this transaction."""

    def put_signing_key(self, key_id: str, key: StoredSigningKey | None, /) -> None:
        """Store a new or changed key; None deletes it."""


class TokenKeys(msgspec.Struct, frozen=True):
    """The public keys of tokens, for the bus."""

    keys: dict[str, bytes]
    """PEM, by their ids."""


class Signer(NamedTuple):
    """A key that signs."""

    key_id: str
    key: ec.EllipticCurvePrivateKey


def current_signer(store: KeyStore, now: float) -> Signer:
    """Return the key that signs now; a new one, if the last has signed for 90 days.

    Args:
        store: has the keys, in a transaction: tokens may be handed out when it is committed.
        now: seconds since the epoch.
    """
    keys = store.signing_keys()
    signing = _signing(keys, now)
    if signing is not None:
        return Signer(signing.key_id, _private(signing.pem))
    for old in keys:
        if old.made == _UNENDING:
            continue
        public = _public_part(old)
        if public is None or 0 < old.retired < now - _KEPT:
            store.put_signing_key(old.key_id, None)
        elif old.retired == 0:
            store.put_signing_key(old.key_id, StoredSigningKey(old.key_id, old.made, int(now), public))
    signer = _new_signer()
    store.put_signing_key(signer.key_id, StoredSigningKey(signer.key_id, int(now), 0, _private_pem(signer.key)))
    return signer


def unending_signer(store: KeyStore) -> Signer:
    """Return the key that signs tokens which do not expire; `store` is as for `current_signer`."""
    found = [key for key in store.signing_keys() if key.made == _UNENDING and key.retired == 0 and _public_part(key)]
    if found:
        key = max(found, key=lambda each: each.key_id)
        return Signer(key.key_id, _private(key.pem))
    signer = _new_signer()
    store.put_signing_key(signer.key_id, StoredSigningKey(signer.key_id, _UNENDING, 0, _private_pem(signer.key)))
    return signer


def public_keys(store: KeyStore) -> dict[str, bytes]:
    """Return the public keys, PEM, of all tokens that may still be valid, by their ids."""
    return {key.key_id: public for key in store.signing_keys() if (public := _public_part(key)) is not None}


def json_web_keys(keys: dict[str, bytes]) -> JsonObject:
    """Return public keys as a JSON Web Key Set (RFC 7517)."""
    return {"keys": [public_jwk(key_id, public_key(pem)) for key_id, pem in sorted(keys.items())]}


def public_key(pem: bytes) -> ec.EllipticCurvePublicKey:
    """Return a public key.

    Raises:
        ValueError: it is no path.
        TypeError: it is not one on the curve P-256.
    """
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415 - 8 MB

    key = load_pem_public_key(pem)
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise TypeError("a key on the curve P-256 is wanted")
    return key


def _signing(keys: Sequence[StoredSigningKey], now: float) -> StoredSigningKey | None:
    """Return the newest key that still signs. One from the future is another cloudcore's, whose clock is ahead."""
    found = [key for key in keys if key.retired == 0 and now < key.made + SIGNS_FOR and _public_part(key)]
    return max(found, key=lambda key: (key.made, key.key_id), default=None)


@lru_cache(maxsize=64)
def _public_part(key: StoredSigningKey) -> bytes | None:
    """Return the public key, PEM, of a stored one; None if it is damaged: all others still count."""
    try:
        return _public_pem(public_key(key.pem) if key.retired else _private(key.pem).public_key())
    except (TypeError, ValueError) as error:
        _log.error("the stored key %s of service accounts' tokens is damaged; its tokens are refused: %s", key, error)
        return None


def _new_signer() -> Signer:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415 - 8 MB

    key = ec.generate_private_key(ec.SECP256R1())
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Signer(to_base64url(hashlib.sha256(der).digest()), key)


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - 8 MB
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - 8 MB

    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("a private key on an elliptic curve is wanted")
    return key


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - 8 MB
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415 - 8 MB

    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
