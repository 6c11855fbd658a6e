"""An identity provider: its keys, its tokens and, over TLS, its documents."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding

from modules.cloud.authentication.jws import to_base64url
from modules.cloud.authentication.oidc.key_sets import ProviderKey, read_key_set
from modules.cloud.authentication.settings import OidcSettings
from tests.edgehub.certificates.authority import Authority
from tests.support.http_application import Heard, HttpApplication, Reply

CLIENT = "edge"
NOW = 1_800_000_000.0
_HASHES: dict[str, hashes.HashAlgorithm] = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
_CURVES = {"256": ("P-256", ec.SECP256R1()), "384": ("P-384", ec.SECP384R1()), "512": ("P-521", ec.SECP521R1())}

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """A key, which is made once: that takes long."""
    return _rsa_key(number, bits)


@cache
def _rsa_key(_number: int, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def key_for(algorithm: str) -> PrivateKey:
    """The key that signs with an algorithm."""
    return ec.generate_private_key(_CURVES[algorithm[2:]][1]) if algorithm.startswith("ES") else rsa_key()


def jwk(key: PrivateKey, key_id: str, **more: str) -> dict[str, str]:
    """A public key as in a set of keys."""
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {"kty": "RSA", "kid": key_id, "n": _number(numbers.n), "e": _number(numbers.e), **more}
    point = key.public_key().public_numbers()
    size = (key.key_size + 7) // 8
    name = next(name for name, curve in _CURVES.values() if curve.name == key.curve.name)
    return {"kty": "EC", "kid": key_id, "crv": name, "x": _number(point.x, size), "y": _number(point.y, size), **more}


def key_set(*keys: dict[str, str]) -> bytes:
    """The text of a set of keys."""
    return json.dumps({"keys": keys}).encode()


def keys_of(key: PrivateKey, key_id: str = "k1", **more: str) -> tuple[ProviderKey, ...]:
    """A set of one key, as it is read."""
    return read_key_set(key_set(jwk(key, key_id, **more)))


def unsigned(claims: Any, **header: Any) -> str:
    """Header and payload of a token."""
    return ".".join(to_base64url(json.dumps(part).encode()) for part in ({"typ": "JWT", **header}, claims))


def signed(claims: Any, algorithm: str = "RS256", key: PrivateKey | None = None, kid: str | None = "k1") -> str:
    """A token."""
    key = key or key_for(algorithm)
    text = unsigned(claims, alg=algorithm, **({"kid": kid} if kid is not None else {}))
    used = _HASHES[algorithm[2:]]
    if isinstance(key, ec.EllipticCurvePrivateKey):
        size = (key.key_size + 7) // 8
        r, s = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(used)))
        signature = r.to_bytes(size, "big") + s.to_bytes(size, "big")
    else:
        pss = padding.PSS(padding.MGF1(used), used.digest_size)
        signature = key.sign(text.encode(), pss if algorithm.startswith("PS") else padding.PKCS1v15(), used)
    return f"{text}.{to_base64url(signature)}"


def claims(issuer: str, now: float = NOW, **changes: Any) -> dict[str, Any]:
    """The claims of carol's token; None takes one away."""
    found = {"iss": issuer, "sub": "carol", "aud": CLIENT, "exp": now + 600, "groups": ["shop"], **changes}
    return {name: value for name, value in found.items() if value is not None}


class Provider:
    """A provider that serves its documents over TLS.

    Args:
        directory: for its files.
    """

    def __init__(self, directory: Path) -> None:
        self.ca = directory / "provider-ca.pem"
        self.documents: dict[str, tuple[int, bytes]] = {}
        """Status and body by path, in place of the right ones."""
        self.keys = key_set(jwk(rsa_key(), "k1"))
        self.application = HttpApplication(self._answer, self._context(directory))
        self.issuer = f"https://127.0.0.1:{self.application.port}/realms/edge"

    @property
    def discovery(self) -> dict[str, Any]:
        """The right discovery document."""
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys?v=1"}

    def settings(self, **changes: Any) -> OidcSettings:
        """Settings of a cloudcore that trusts it."""
        given = {
            "issuer_url": self.issuer,
            "client_id": CLIENT,
            "ca_file": self.ca,
            "groups_claim": "groups",
            **changes,
        }
        return OidcSettings(**given)

    def _context(self, directory: Path) -> Any:
        authority = Authority()
        self.ca.write_bytes(authority.certificate.public_bytes(Encoding.PEM))
        return authority.server_context(directory)

    def _answer(self, heard: Heard) -> Reply:
        path = heard.target.removeprefix("/realms/edge")
        found = self.documents.get(path)
        if found is None and path == "/.well-known/openid-configuration":
            found = 200, json.dumps(self.discovery).encode()
        if found is None and path == "/keys?v=1":
            found = 200, self.keys
        status, body = found or (404, b"")
        return status, {"Location": self.issuer} if status == 302 else {}, body


@contextmanager
def running_provider(directory: Path) -> Iterator[Provider]:
    """A provider on a free port."""
    provider = Provider(directory)
    with provider.application:
        yield provider


def _number(value: int, size: int = 0) -> str:
    return to_base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))
