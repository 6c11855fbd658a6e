"""Registry credentials from pull secrets."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from beehive.decoding import decode_json
from edged.errors import EdgedError
from modules.apimachinery.types import Secret

DOCKER_CONFIG_JSON = "kubernetes.io/dockerconfigjson"
DOCKER_CFG = "kubernetes.io/dockercfg"
_HUB_NAMES = ("docker.io", "index.docker.io")
_HUB_KEY = "index.docker.io"
_API_PATHS = ("/v1/", "/v2/")


class PullSecretError(EdgedError):
    """A pull secret that cannot be read."""


class Credentials(NamedTuple):
    """A user of a registry. The password never shows in its representation."""

    username: str
    password: str

    def __repr__(self) -> str:
        return "Credentials(…)"


class Keyring:
    """The credentials for an image in a pod's pull secrets, by kubelet's rules (pkg/credentialprovider).

    An entry names a host, optionally with a port and the beginning of a path; `*` and `?` stand for parts of a label of
    the host. All matching entries are tried, the most specific ones first. Docker Hub has several names. Errors quote
    nothing of a secret but its name.

    Args:
        entries: addresses of registries as written in the secrets, each with its credentials.
    """

    def __init__(self, entries: Iterable[tuple[str, Credentials]] = ()) -> None:
        self._entries: dict[str, list[Credentials]] = {}
        for address, credentials in entries:
            known = self._entries.setdefault(registry_key(address), [])
            if credentials not in known:
                known.append(credentials)

    def lookup(self, repository: str) -> tuple[Credentials, ...]:
        """Return all credentials for an image's repository (`registry.example/team/app`), the most specific first."""
        found = [
            each
            for key in sorted(self._entries, reverse=True)
            if matches(key, repository)
            for each in self._entries[key]
        ]
        if not found and repository.partition("/")[0] in _HUB_NAMES:
            found = self._entries.get(_HUB_KEY, [])
        return tuple(dict.fromkeys(found))


def read_pull_secret(secret: Secret) -> list[tuple[str, Credentials]]:
    """Return the entries of a pull secret; none when it is of another type (a kubelet ignores it too).

    Raises:
        PullSecretError: it is of the right type and cannot be read.
    """
    where = f"secret {secret.metadata.namespace}/{secret.metadata.name}"
    if secret.type == DOCKER_CONFIG_JSON and secret.data.get(".dockerconfigjson"):
        whole = _object(secret.data[".dockerconfigjson"], where)
        auths = whole.get("auths") or {}
    elif secret.type == DOCKER_CFG and secret.data.get(".dockercfg"):
        auths = _object(secret.data[".dockercfg"], where)
    else:
        return []
    if not isinstance(auths, dict):
        raise _unreadable(where)
    return [(address, _credentials(entry, where)) for address, entry in auths.items()]


def registry_key(address: str) -> str:
    """Return an entry's address for comparison: without scheme, and without the path of the registry's API."""
    bare = address.removeprefix("https://").removeprefix("http://")
    host, slash, path = bare.partition("/")
    path = slash + path
    if path.startswith(_API_PATHS):
        path = path[3:]
    return host if path in ("", "/") else host + path


def matches(key: str, repository: str) -> bool:
    """Return whether an entry is for a repository: equally many labels, each matching; same port; its path a prefix."""
    host, _, path = key.partition("/")
    target_host, _, target_path = repository.partition("/")
    name, _, port = host.partition(":")
    target_name, _, target_port = target_host.partition(":")
    labels, target_labels = name.split("."), target_name.split(".")
    return (
        port == target_port
        and len(labels) == len(target_labels)
        and target_path.startswith(path)
        and all(fnmatchcase(label, pattern) for pattern, label in zip(labels, target_labels, strict=True))
    )


def _credentials(entry: Any, where: str) -> Credentials:
    if not isinstance(entry, dict):
        raise _unreadable(where)
    encoded = entry.get("auth")
    if not encoded:
        return Credentials(str(entry.get("username") or ""), str(entry.get("password") or ""))
    try:
        plain = base64.b64decode(_padded(encoded), validate=True).decode()
    except (binascii.Error, ValueError, TypeError, AttributeError):
        raise _unreadable(where) from None
    username, colon, password = plain.partition(":")
    if not colon:
        raise _unreadable(where)
    return Credentials(username, password)


def _padded(encoded: str) -> str:
    """Return base64 in one line and with padding: Docker writes it with and without, and `base64` breaks lines."""
    bare = encoded.replace("\r", "").replace("\n", "").rstrip("=")
    return bare + "=" * (-len(bare) % 4)


def _object(text: bytes, where: str) -> Mapping[str, Any]:
    try:
        value = decode_json(text)
    except (msgspec.DecodeError, UnicodeError):
        raise _unreadable(where) from None
    if not isinstance(value, dict):
        raise _unreadable(where)
    return value


def _unreadable(where: str) -> PullSecretError:
    hint = "wanted is what `kubectl create secret docker-registry` makes"
    return PullSecretError("read the credentials of a registry", where, hint, retryable=True)
