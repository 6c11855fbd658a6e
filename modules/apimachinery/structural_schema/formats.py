"""The formats of texts in a schema that kube-apiserver checks (kube-openapi's `strfmt`).

An unknown format is no rule, as there. Compared with Kubernetes 1.32's code over random texts; an IPv4 address with
zeros before a number is refused here, see `ip_addresses`.
"""

import re
import unicodedata
from collections.abc import Callable
from datetime import date
from typing import Final

from modules.apimachinery.go_durations import read_duration
from modules.apimachinery.ip_addresses import read_address, read_network

_LONGEST: Final = 4096
"""Characters of a text with a format; a longer one has none."""
_LONGEST_HOST: Final = 255
_LONGEST_LABEL: Final = 63
"""Bytes of a host's name, and of a part of it."""
_HOST: Final = re.compile(r"[Lx](-?[Lx]{0,62})?|([Lx]([-Lx]{0,61}[Lx])?\.)+L{2,63}")
"""A host's name whose letters are L, and whose digits and symbols are x: one label has a dash after its first letter
only.
"""
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d):(\d\d):(\d\d)(.[0-9]+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_WORD: Final = r"[^\x00-\x20\x7f()<>\[\]:;@\\,\".]+"
_QUOTED: Final = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*"'
_ADDRESS: Final = rf"(?:{_WORD}(?:\.{_WORD})*|{_QUOTED})@[ \t]*(?:{_WORD}(?:\.{_WORD})*|\[[^\[\]\\\x00-\x20\x7f]*\])"
_NAMES: Final = rf"(?:(?:[^\x00-\x20\x7f()<>\[\]:;@\\,\"]++|{_QUOTED})[ \t]*+)*+"
_EMAIL: Final = re.compile(rf"[ \t]*(?:{_ADDRESS}|{_NAMES}<{_ADDRESS}>)[ \t]*")
_TERM: Final = re.compile(r"(?<![0-9])([0-9]++)\s*+([A-Za-zµ]++)", re.ASCII)
_UNITS: Final = ("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk")
_LONG_UNITS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
"""Units to which any letters may be added, as in `hours`."""
_LARGEST: Final = 2**63 - 1
_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = _HEX + "{8}-?" + _HEX + "{4}-?{version}" + _HEX + "{3}-?{variant}" + _HEX + "{3}-?" + _HEX + "{12}"
_MAC: Final = "|".join(
    f"{_HEX}{{2}}({mark}{_HEX}{{2}}){{{octets - 1}}}|{_HEX}{{4}}(\\.{_HEX}{{4}}){{{octets // 2 - 1}}}"
    for octets in (6, 8, 20)
    for mark in ":-"
)
_IPV6: Final = 6
_BYTE: Final = r"(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])"
_CARD: Final = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}",
    re.ASCII,
)
_ESCAPE: Final = re.compile(r"%(?!" + _HEX + "{2})")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY: Final = re.compile(
    r"(?:(?:[A-Za-z0-9._:~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})*@)?"
    r"(?:\[[0-9A-Fa-f:.]*\]|(?:[A-Za-z0-9!$&'()*+,;=\[\]<>\"._~-]|[^\x00-\x7f]|%[89A-Fa-f][0-9A-Fa-f])*)(?::[0-9]*)?"
)
"""User, host and port of a URL, as `net/url` takes them."""


def fits_format(name: str, text: str) -> bool:
    """Return whether a text has a format; true of a format that is not known, or not checked."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or (len(text) <= _LONGEST and check(text))


def _without_error(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str = _HEX) -> Callable[[str], bool]:
    return _matches(_UUID.replace("{version}", version).replace("{variant}", variant))


def _ipv4(text: str) -> None:
    if "." not in text:
        raise ValueError("no address of IPv4")
    read_address(text)


def _ipv6(text: str) -> None:
    if read_address(text).version != _IPV6:
        raise ValueError("no address of IPv6")


def _is_uri(text: str) -> bool:
    """Return whether a text is an absolute URI, or a path from the root (`url.ParseRequestURI`)."""
    if not text or re.search(r"[\x00-\x1f\x7f]", text):
        return False
    scheme = _SCHEME.match(text)
    rest = (text[scheme.end() :] if scheme else text).partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        if _AUTHORITY.fullmatch(authority) is None:
            return False
        rest = slash + path
    return _ESCAPE.search(rest) is None


def _is_email(text: str) -> bool:
    """Return whether a text is a mail address, with a name or without (`mail.ParseAddress`)."""
    if _EMAIL.fullmatch(text) is None:
        return False
    literal = re.search(r"@[ \t]*\[(.*)\]", text)
    return literal is None or _without_error(read_address)(literal[1])


def _is_host(text: str) -> bool:
    if len(text.encode()) > _LONGEST_HOST or any(len(part.encode()) > _LONGEST_LABEL for part in text.split(".")):
        return False
    return _HOST.fullmatch("".join(map(_class_in_host, text))) is not None


def _class_in_host(char: str) -> str:
    """Return L for a letter, x for a digit or a symbol, a dash or dot as it is, and a blank for what no name has."""
    if char in "-.":
        return char
    if char in "0123456789":
        return "x"
    return {"L": "L", "S": "x"}.get(unicodedata.category(char)[0], " ")


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None or not _is_date(found[1]):
        return False
    return int(found[2]) < 24 and int(found[3]) < 60 and int(found[4]) < 60


def _is_duration(text: str) -> bool:
    """Return whether a text is a duration of Go, or has a number with a unit somewhere."""
    if _without_error(read_duration)(text):
        return True
    terms = [(int(number), unit.lower()) for number, unit in _TERM.findall(text)]
    is_known = any(unit in _UNITS or unit.startswith(_LONG_UNITS) for _, unit in terms)
    return is_known and all(number <= _LARGEST for number, _ in terms)


def _is_card(text: str) -> bool:
    """Return whether a text has the number of a payment card, with Luhn's check digit."""
    digits = re.sub(r"\D+", "", text, flags=re.ASCII)
    doubled = (int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits)))
    return _CARD.fullmatch(digits) is not None and sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    return sum((10 - at) * (10 if digit == "X" else int(digit)) for at, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if re.fullmatch(r"[0-9]{13}", digits) is None:
        return False
    return sum((1, 3)[at % 2] * int(digit) for at, digit in enumerate(digits)) % 10 == 0


_is_date: Final = _without_error(
    lambda text: date.fromisoformat(text if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else "")
)
_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_host,
    "ipv4": _without_error(_ipv4),
    "ipv6": _without_error(_ipv6),
    "cidr": _without_error(read_network),
    "mac": _matches(_MAC),
    "uuid": _uuid(_HEX),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "hexcolor": _matches(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matches(rf"rgb\([\t\n\f\r ]*{_BYTE}[\t\n\f\r ]*(,[\t\n\f\r ]*{_BYTE}[\t\n\f\r ]*){{2}}\)"),
    "byte": _matches(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "creditcard": _is_card,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "ssn": lambda text: re.fullmatch(r"[0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4}", text) is not None and len(text) == 11,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_time,
}
