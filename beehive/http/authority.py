"""The authority of a URL: a host and a port."""

from typing import Final

PORTS: Final = {"http": 80, "https": 443}
"""The ports of the schemes, which URLs leave out."""


def bracketed(host: str) -> str:
    """Return a host as in a URL: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def authority(host: str, port: int, scheme: str = "") -> str:
    """Return host and port as in a URL, or in the header `Host`; a scheme's own port is left out."""
    return bracketed(host) if port == PORTS.get(scheme) else f"{bracketed(host)}:{port}"


def server_of(text: str) -> tuple[str, int]:
    """Return host and port of a checked `HOST:PORT`, perhaps after a scheme; an IPv6 address without its brackets."""
    host, _, port = text.rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def url_of(host: str, port: int, *, tls: bool) -> str:
    """Return the URL of a server, with its port."""
    return f"{'https' if tls else 'http'}://{authority(host, port)}"
