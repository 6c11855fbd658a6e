"""The formats of texts in a schema that kube-apiserver checks (kube-openapi's `strfmt`).

An unknown format is no rule, as there. Formats that Go's parsers define are followed for the usual texts.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import urlsplit

from modules.apimachinery.ip_addresses import read_address, read_network

_LONGEST: Final = 4096
"""Characters of a text with a format; a longer one has none."""
_HOST: Final = re.compile(
    r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?)*"
)
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EMAIL: Final = re.compile(r"(?:[^<>\x00-\x1f]*<)?[^\s<>@,;:\\\"\[\]()]+@[^\s<>@,;:\\\"()]+>?")
_DURATION: Final = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|m|h|d|w|nano|nanos|micro|micros|milli|millis|second|seconds|sec|secs"
    r"|minute|minutes|min|mins|hour|hours|hr|hrs|day|days|week|weeks|wk|wks)"
)
_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = _HEX + "{8}-?" + _HEX + "{4}-?{version}" + _HEX + "{3}-?{variant}" + _HEX + "{3}-?" + _HEX + "{12}"
_IPV6: Final = 6
_COLOR: Final = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")


def fits_format(name: str, text: str) -> bool:
    """Return whether a text has a format; true of a format that is not known, or not checked."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or (len(text) <= _LONGEST and check(text))


def _without_error(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str = _HEX) -> Callable[[str], bool]:
    return _matches(_UUID.replace("{version}", version).replace("{variant}", variant))


def _ipv6(text: str) -> None:
    if read_address(text).version != _IPV6:
        raise ValueError("no address of IPv6")


def _is_uri(text: str) -> bool:
    """Return whether a text is an absolute URI, or a path from the root (ParseRequestURI)."""
    try:
        found = urlsplit(text)
    except ValueError:
        return False
    return bool(text) and not re.search(r"[\x00-\x20\x7f]", text) and (text.startswith("/") or bool(found.scheme))


def _is_host(text: str) -> bool:
    """Return whether a text is a host's name; one of several labels ends with one of letters."""
    last = text.rpartition(".")[2]
    return len(text) <= 255 and _HOST.fullmatch(text) is not None and ("." not in text or len(last) > 1)


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None or not _is_date(found[1]):
        return False
    return int(found[2]) < 24 and int(found[3]) < 60 and int(found[4]) < 60


def _duration(text: str) -> None:
    at = 0
    while found := _DURATION.match(text, at):
        at = found.end()
    if at != len(text) or not text:
        raise ValueError("no duration")


_is_date: Final = _without_error(
    lambda text: date.fromisoformat(text if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else "")
)
_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "uri": _is_uri,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": _is_host,
    "ipv4": _without_error(IPv4Address),
    "ipv6": _without_error(_ipv6),
    "cidr": _without_error(read_network),
    "mac": _matches(f"{_HEX}{{2}}(([:-]){_HEX}{{2}}){{5}}|({_HEX}{{4}}\\.){{2}}{_HEX}{{4}}"),
    "uuid": _uuid(_HEX),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
    "hexcolor": _matches(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": lambda text: (
        (found := _COLOR.fullmatch(text)) is not None and all(int(one) < 256 for one in found.groups())
    ),
    "byte": _without_error(lambda text: base64.b64decode(text, validate=True)),
    "date": _is_date,
    "duration": _without_error(_duration),
    "datetime": _is_time,
}
