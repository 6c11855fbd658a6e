"""Authorization at a registry: basic, or a bearer token of its token server (distribution's token specification)."""

import base64
import binascii
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from beehive.nesting import read_json
from modules.runtimes.oci.images.worker.errors import DENIED, INVALID, UNAVAILABLE, ImageWorkError, invalid
from modules.runtimes.oci.images.worker.hosts import RegistryHost, address_of
from modules.runtimes.oci.images.worker.http_exchange import HttpExchange, read_bounded

_LONGEST_ANSWER: Final = 1024 * 1024
_CLIENT: Final = "edgecore"
_MARGIN: Final = 10.0
"""Seconds before its end when a token is given up."""
_LIFETIME: Final = 60.0
"""Lifetime in seconds of a token that comes without one."""
_LONGEST_LIFETIME: Final = 3600.0

_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAMETER: Final = rf'({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))'
_PART: Final = re.compile(rf"\s*(?:,\s*)?(?:{_PARAMETER}|({_WORD})(?=\s|$|,))", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_LONGEST: Final = 16 * 1024


class RegistryCredentials(NamedTuple):
    """The contents of CRI's AuthConfig. Their text form shows none of them."""

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    def __repr__(self) -> str:
        return "RegistryCredentials(…)"


def credentials_for(auth: Mapping[str, str], registry: str) -> RegistryCredentials:
    """Return the credentials of CRI's AuthConfig, none if they are for another registry. Raises ImageWorkError."""
    server = auth.get("server_address", "")
    if server:
        address = address_of(server if "://" in server else f"https://{server}")
        if address is None or registry_names(address.name).isdisjoint(registry_names(registry)):
            return RegistryCredentials()
    username, password = auth.get("username", ""), auth.get("password", "")
    if auth.get("auth") and not username:
        try:
            encoded = auth["auth"].rstrip("=")
            plain = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
        except (binascii.Error, ValueError):
            raise ImageWorkError(DENIED, "the credentials are not base64 of user:password") from None
        username, _, password = plain.rstrip("\0").partition(":")
    return RegistryCredentials(username, password, auth.get("identity_token", ""), auth.get("registry_token", ""))


def registry_names(name: str) -> frozenset[str]:
    """Return the names of a registry: Docker Hub has several."""
    hub = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
    return hub if name in hub else frozenset({name})


class Challenge(NamedTuple):
    """A server's way of authorization."""

    scheme: str
    """In lower case: `bearer`, `basic`."""
    parameters: dict[str, str]


def parse_challenges(header: str) -> list[Challenge]:
    """Return the challenges of a header, as far as it can be read."""
    found: list[Challenge] = []
    at = 0
    text = header[:_LONGEST]
    while (part := _PART.match(text, at)) is not None:
        at = part.end()
        key, quoted, plain, scheme = part.groups()
        if scheme is not None:
            found.append(Challenge(scheme.lower(), {}))
        elif found:
            value = plain if quoted is None else _ESCAPE.sub(r"\1", quoted)
            found[-1].parameters.setdefault(key.lower(), value)
    return found


class Authorization:
    """The `Authorization` header for one repository at one endpoint. Thread-safe.

    Args:
        endpoint: a mirror gets no credentials of the registry.
        exchange: to it.
        credentials: of the registry.
        repository: path of the repository.
        now: monotonic seconds.
    """

    def __init__(
        self,
        endpoint: RegistryHost,
        exchange: HttpExchange,
        credentials: RegistryCredentials,
        repository: str,
        now: Callable[[], float],
    ) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._credentials = credentials if endpoint.is_registry else RegistryCredentials()
        self._scope = f"repository:{repository}:pull"
        self._now = now
        self._lock = threading.Lock()
        self._header = ""
        self._ends_at = float("inf")

    def header(self) -> str:
        """Return the header to send, "" before the first challenge and after the end of a token."""
        with self._lock:
            if self._now() >= self._ends_at:
                self._header, self._ends_at = "", float("inf")
            return self._header

    def answer(self, challenge: str, refused: str) -> bool:
        """Get a new header after a refusal (401); return whether another attempt may succeed.

        Args:
            challenge: `WWW-Authenticate` of the answer.
            refused: the header that was sent.

        Raises:
            ImageWorkError: the token server refuses, or must not be asked.
            OSError, http.client.HTTPException: it cannot be reached.
        """
        with self._lock:
            if self._header != refused:
                return True  # another thread has got one meanwhile
            found = {each.scheme: each for each in reversed(parse_challenges(challenge))}
            if "bearer" in found:
                self._header, self._ends_at = self._bearer(found["bearer"])
            elif "basic" in found and self._credentials.username:
                self._header = _basic(self._credentials)
            else:
                return False
            return self._header != refused

    def _bearer(self, challenge: Challenge) -> tuple[str, float]:
        if self._credentials.registry_token:
            return f"Bearer {self._credentials.registry_token}", float("inf")
        realm = challenge.parameters.get("realm", "")
        address = address_of(realm)
        if address is None:
            raise invalid("the registry names no token server")
        if address.scheme == "http" and address != self._endpoint.address:
            hint = "a registry without TLS may be its own token server only"
            raise ImageWorkError(INVALID, f"the registry names {address.name}, a token server without TLS", hint)
        answer = self._ask(realm, challenge.parameters)
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise ImageWorkError(UNAVAILABLE, f"the token server {address.name} answers without a token")
        seconds = answer.get("expires_in")
        known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
        lifetime = float(min(seconds, _LONGEST_LIFETIME)) if known and seconds is not None else _LIFETIME
        return f"Bearer {token}", self._now() + max(lifetime - _MARGIN, lifetime / 2)

    def _ask(self, realm: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        """Ask the token server, with the credentials or without any."""
        fields = {"service": parameters.get("service", ""), "scope": parameters.get("scope") or self._scope}
        credentials, headers = self._credentials, {"Accept": "application/json"}
        url, method, body, authorization = realm, "GET", b"", ""
        if credentials.identity_token:
            token = {"grant_type": "refresh_token", "refresh_token": credentials.identity_token, "client_id": _CLIENT}
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            method, body = "POST", urlencode({**fields, **token}).encode()
        else:
            url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(fields)}"
            authorization = _basic(credentials) if credentials.username else ""
        with self._exchange.get(url, headers, authorization=authorization, method=method, body=body) as response:
            if response.status in (400, 401, 403):
                raise ImageWorkError(DENIED, "the registry's token server refuses the credentials", _which(credentials))
            if response.status != 200:
                raise OSError(f"the token server answers {response.status}")
            content = read_bounded(response, _LONGEST_ANSWER)
        try:
            found = read_json(content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ImageWorkError(UNAVAILABLE, "the registry's token server does not answer with JSON")
        return found


def _basic(credentials: RegistryCredentials) -> str:
    return "Basic " + base64.b64encode(f"{credentials.username}:{credentials.password}".encode()).decode()


def _which(credentials: RegistryCredentials) -> str:
    return "see the pull secret" if any(credentials) else "none were given: add a pull secret to the pod"
