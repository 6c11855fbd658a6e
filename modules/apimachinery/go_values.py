"""Values in Go's words, and the refusals of Go's readers of times and base64, which API servers tell their clients."""

import calendar
import re
from typing import Any, Final

import msgspec

_SHOWN: Final = 64
"""Characters of a text in a refusal."""


class _Part(msgspec.Struct, frozen=True):
    """A part of a time's layout: as the layout has it, the texts that fit, and the range of its number."""

    element: str
    fits: re.Pattern[str]
    unit: str = ""
    least: int = 0
    most: int = 0


def _part(element: str, fits: str, unit: str = "", least: int = 0, most: int = 0) -> _Part:
    return _Part(element, re.compile(fits, re.ASCII), unit, least, most)


_DATE: Final = (
    _part("2006", r"\d{4}"), _part("-", "-"), _part("01", r"\d\d", "month", 1, 12), _part("-", "-"),
    _part("02", r"\d\d"), _part("T", "T"), _part("15", r"\d\d?", "hour", 0, 23), _part(":", ":"),
    _part("04", r"\d\d", "minute", 0, 59), _part(":", ":"), _part("05", r"\d\d", "second", 0, 59),
)  # fmt: skip
_ZONE: Final = re.compile(r"Z|[+-](\d\d):(\d\d)", re.ASCII)
_FRACTION: Final = re.compile(r"[.,]\d+", re.ASCII)
_MICROSECONDS: Final = re.compile(r"[.,]\d{6}", re.ASCII)
_GOOD: Final = re.compile(
    r"\d{4}-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    r"T([01]\d|2[0-3])(:[0-5]\d){2}(?P<micro>\.\d{6})?Z",
    re.ASCII,
)
"""All times in UTC but those of a 29th of February, which need a look at the calendar."""
USUAL_TIME: Final = rf"\A(?a:{_GOOD.pattern})\Z"
"""The pattern of such a text."""
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DIGITS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_NEWLINES: Final = "\r\n"


def time_error(text: str, *, is_micro: bool = False) -> str:
    """Return Go's words for a text that is no time of RFC 3339; "" for a time.

    Args:
        text: the text.
        is_micro: whether it is a metav1.MicroTime, which has six digits after the point; a metav1.Time has any number.
    """
    good = _GOOD.fullmatch(text)
    if good is not None and (good["micro"] is not None or not is_micro):
        return ""
    layout = f"2006-01-02T15:04:05{'.000000' if is_micro else ''}Z07:00"
    rest, numbers = text, list[int]()
    for part in _DATE:
        found = part.fits.match(rest)
        if found is None:
            return _unlike(text, layout, rest, part.element)
        if len(part.element) > 1:
            numbers.append(int(found[0]))
        if part.unit and not part.least <= numbers[-1] <= part.most:
            return _out_of_range(text, part.unit)
        rest = rest[found.end() :]
    fraction = (_MICROSECONDS if is_micro else _FRACTION).match(rest)
    if fraction is None and is_micro:
        return _unlike(text, layout, rest, ".000000")
    rest = rest if fraction is None else rest[fraction.end() :]
    return _zone_error(text, layout, rest) or _day_error(text, *numbers[:3])


def _zone_error(text: str, layout: str, rest: str) -> str:
    zone = _ZONE.match(rest)
    if zone is None:
        return _unlike(text, layout, rest, "Z07:00")
    for number, most, unit in ((zone[1], 24, "hour"), (zone[2], 60, "minute")):
        if number is not None and int(number) > most:
            return _out_of_range(text, f"time zone offset {unit}")
    extra = rest[zone.end() :]
    return f"parsing time {_quoted(text)}: extra text: {_quoted(extra)}" if extra else ""


def _day_error(text: str, year: int, month: int, day: int) -> str:
    days = calendar.monthrange(year or 4, month)[1]  # the year 0 is a leap year
    return "" if 1 <= day <= days else _out_of_range(text, "day")


def _unlike(text: str, layout: str, rest: str, element: str) -> str:
    cannot = f"cannot parse {_quoted(rest)} as {_quoted(element)}"
    return f"parsing time {_quoted(text)} as {_quoted(layout)}: {cannot}"


def _out_of_range(text: str, unit: str) -> str:
    return f"parsing time {_quoted(text)}: {unit} out of range"


def _quoted(text: str) -> str:
    """Return a text in quotes, as Go's package `time` writes it: bytes outside ASCII by their number."""
    found = "".join(
        f"\\{each}" if each in '"\\' else each if " " <= each < "\x7f" else _escaped(each) for each in text[:_SHOWN]
    )
    return f'"{found}"'


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogatepass"))


def go_text(value: Any) -> str:
    """Return a JSON value as Go's `%v` prints it: `map[a:1 b:[x y]]`, `<nil>`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return "<nil>" if value is None else str(value)


def base64_error(text: str) -> str:
    """Return Go's words for a text that is not base64 with padding; "" for base64. Line ends in it do not count."""
    if _BASE64.fullmatch(text):
        return ""
    at = _fault_in_base64(text)
    return "" if at is None else f"illegal base64 data at input byte {at}"


def _fault_in_base64(text: str) -> int | None:
    """Return the byte that Go's decoder stumbles over."""
    taken = 0
    for at, character in enumerate(text):
        if character in _DIGITS:
            taken += 1
        elif character not in _NEWLINES:
            if character != "=" or taken % 4 < 2:
                return len(text[:at].encode(errors="surrogatepass"))
            return _fault_in_padding(text, at, taken % 4)
    return len(text) - taken % 4 if taken % 4 else None


def _fault_in_padding(text: str, first: int, digits: int) -> int | None:
    at = _after_newlines(text, first + 1)
    if digits == 2:
        if at == len(text):
            return at
        if text[at] != "=":
            return at - 1
        at = _after_newlines(text, at + 1)
    return at if at < len(text) else None


def _after_newlines(text: str, at: int) -> int:
    while at < len(text) and text[at] in _NEWLINES:
        at += 1
    return at
