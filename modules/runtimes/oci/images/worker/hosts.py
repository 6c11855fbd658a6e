"""The servers of a registry's images: from containerd's `certs.d/HOST/hosts.toml`, else the registry itself."""

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from modules.runtimes.oci.images.worker.errors import MACHINE, ImageWorkError
from modules.runtimes.oci.images.worker.references import HUB

_HUB_SERVER: Final = "registry-1.docker.io"
_LONGEST_FILE: Final = 1024 * 1024
_DEFAULT: Final = "_default"
_CAPABILITIES: Final = ("pull", "resolve", "push")
_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_HOST: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?|[0-9A-Fa-f:.]{{2,45}}")
_PORTS: Final = {"http": 80, "https": 443}


class ServerAddress(NamedTuple):
    """A server's address."""

    scheme: str
    host: str
    port: int

    @property
    def name(self) -> str:
        """Host and port, as in URLs and certs.d; the port is left out where it is the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class RegistryHost(NamedTuple):
    """A server that has images of a registry: a mirror, or the registry."""

    address: ServerAddress
    prefix: str
    """Prefix of the API's paths: `/v2`, or the path of a mirror with `override_path`."""
    is_registry: bool
    """It is the registry itself, so it gets the credentials."""
    resolves: bool = True
    """Tags may be asked of it; otherwise only content by digest."""
    ca: tuple[Path, ...] = ()
    clients: tuple[tuple[Path, Path | None], ...] = ()
    """Certificates and keys of the client."""
    skip_verify: bool = False
    headers: tuple[tuple[str, str], ...] = ()


def endpoints_of(registry: str, directory: Path) -> tuple[RegistryHost, ...]:
    """Return the servers for a registry, in the order of the requests.

    Raises ImageWorkError for a file that cannot be read.
    """
    path = _file_of(registry, directory)
    if path is None:
        return (_registry(registry),)
    document = _read(path)
    found = [_mirror(path, url, _table(path, value)) for url, value in _table(path, document.get("host", {})).items()]
    if "server" not in document:
        return (*(each for each in found if each is not None), _registry(registry))
    server = _endpoint(path, str(document["server"]), document, is_registry=True)
    return (*(each for each in found if each is not None), server)


def address_of(url: str) -> ServerAddress | None:
    """Return the address in a URL; None if it is no URL of HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or not url.isascii() or not _HOST.fullmatch(host) or parts.username is not None:
        return None
    return ServerAddress(parts.scheme, host, port or _PORTS[parts.scheme])


def is_loopback(host: str) -> bool:
    """Return whether a name is one of this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _registry(name: str) -> RegistryHost:
    server = _HUB_SERVER if name == HUB else name
    address = address_of(f"https://{server}")
    if address is not None and is_loopback(address.host) and not server.endswith(":443"):
        address = address_of(f"http://{server}")
    if address is None:
        raise ImageWorkError(MACHINE, f"{name!r} is no name of a server")
    return RegistryHost(address, "/v2", is_registry=True)


def _file_of(registry: str, directory: Path) -> Path | None:
    host, colon, port = registry.rpartition(":")
    names = [registry, *([f"{host}_{port}_"] if colon and port.isdecimal() else []), _DEFAULT]
    return next((path for name in names if (path := directory / name / "hosts.toml").is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_FILE).decode()
        return tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ImageWorkError(MACHINE, f'"{path}" cannot be read: {error}', "its form is that of containerd") from None


def _table(path: Path, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ImageWorkError(MACHINE, f'"{path}" has another value where a table is wanted')
    return value


def _mirror(path: Path, url: str, table: Mapping[str, Any]) -> RegistryHost | None:
    """Return the endpoint of a `host` table; None if it may not be asked for content."""
    capabilities = table.get("capabilities", _CAPABILITIES)
    if "pull" not in capabilities:
        return None
    return _endpoint(path, url, table, is_registry=False)._replace(resolves="resolve" in capabilities)


def _endpoint(path: Path, url: str, table: Mapping[str, Any], *, is_registry: bool) -> RegistryHost:
    full = url if "://" in url else f"https://{url}"
    address = address_of(full)
    if address is None:
        raise ImageWorkError(MACHINE, f'"{path}" has no URL of a server: {url[:80]!r}')
    way = urlsplit(full).path.rstrip("/")
    return RegistryHost(
        address,
        way if table.get("override_path") is True else way.removesuffix("/v2") + "/v2",
        is_registry,
        ca=tuple(path.parent / str(each) for each in _list(table.get("ca"))),
        clients=_clients(path, table.get("client")),
        skip_verify=table.get("skip_verify") is True,
        headers=tuple((str(key), str(item)) for key, value in _table(path, table.get("header", {})).items()
                      for item in _list(value)),
    )  # fmt: skip


def _clients(path: Path, value: Any) -> tuple[tuple[Path, Path | None], ...]:
    """Return certificates: one file, a list of files, or a list of pairs of certificate and key."""
    found = []
    for each in _list(value):
        certificate, *key = _list(each)
        found.append((path.parent / str(certificate), path.parent / str(key[0]) if key and key[0] else None))
    return tuple(found)


def _list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]
