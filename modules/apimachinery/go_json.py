"""Go's `encoding/json`: its escapes, and its refusals, which an API server passes on to its clients."""

import json
import re
from typing import Any, Final

from beehive.nesting import read_json

_AFTER: Final = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid \\escape": "in string escape code",
    "Invalid control character at": "in string literal",
}
"""By the beginning of Python's message, where Go stumbles."""
_ESCAPED: Final = ((b"&", rb"\u0026"), (b"<", rb"\u003c"), (b">", rb"\u003e"), ("\u2028".encode(), rb"\u2028"),
                   ("\u2029".encode(), rb"\u2029"))  # fmt: skip
"""Characters that Go escapes in JSON."""
_TYPES: Final[dict[type[Any], str]] = {str: "string", list: "array", dict: "object"}
_SHOWN: Final = 40
_NUMBER: Final = re.compile("[+-]?[0-9]+")
_LONGEST_INT64: Final = 40
_VALUE: Final = "looking for beginning of value"
_END: Final = "unexpected end of JSON input"


def escaped(text: bytes) -> bytes:
    """Return JSON as Go writes it."""
    for character, escape in _ESCAPED:
        text = text.replace(character, escape)
    return text


def type_error(value: Any, wanted: str) -> str:
    """Return Go's words for a JSON value of another type than the Go type that is wanted."""
    return f"json: cannot unmarshal {_type_of(value)} into Go value of type {wanted}"


def number_error(text: str, function: str = "ParseInt") -> str:
    """Return the words of Go's `strconv` for a text that is no number."""
    return f'strconv.{function}: parsing "{text[:_SHOWN]}": invalid syntax'


def int64_error(text: str) -> str:
    """Return Go's words for a text that is no number of 64 bits; "" for one that is."""
    if _NUMBER.fullmatch(text) is None:
        return number_error(text)
    if len(text) > _LONGEST_INT64 or not -(2**63) <= int(text) < 2**63:
        return f'strconv.ParseInt: parsing "{text[:_SHOWN]}": value out of range'
    return ""


def uint16_error(text: str) -> str:
    """Return Go's words for a text that is no port; "" for one that is."""
    return _unsigned_error(text, 2**16)


def uint64_error(text: str) -> str:
    """Return Go's words for a text that is no resourceVersion; "" for one that is."""
    return _unsigned_error(text, 2**64)


def _unsigned_error(text: str, end: int) -> str:
    if not (text.isascii() and text.isdecimal()):
        return number_error(text, "ParseUint")
    is_small = len(text) <= _LONGEST_INT64 and int(text) < end
    return "" if is_small else f'strconv.ParseUint: parsing "{text[:_SHOWN]}": value out of range'


def syntax_error(text: bytes) -> str:
    """Return Go's words for a text that is not JSON, or ""."""
    plain = text.decode("utf-8", "replace")
    try:
        read_json(plain)
    except json.JSONDecodeError as error:
        return _described(error.doc, error)
    except ValueError:
        return "exceeded max depth"
    return ""


def _described(text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 names the comma, and not the bracket behind it
        at = len(text) - len(text[at + 1 :].lstrip(" \t\r\n"))
    if at >= len(text) or error.msg.startswith("Unterminated string"):
        return _END
    where = next((words for begin, words in _AFTER.items() if error.msg.startswith(begin)), _VALUE)
    if error.msg.startswith("Expecting ',' delimiter"):
        where = "after object key:value pair" if _is_in_object(text[:at]) else "after array element"
    return f"invalid character {_quoted(text[at])} {where}"


def _is_in_object(before: str) -> bool:
    """Return whether the innermost bracket that is open at the end of a text is one of an object."""
    open_brackets: list[str] = []
    is_string = is_escaped = False
    for character in before:
        if is_string:
            is_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_string = True
        elif character in "[{":
            open_brackets.append(character)
        elif character in "]}" and open_brackets:
            open_brackets.pop()
    return open_brackets[-1:] == ["{"]


def _quoted(character: str) -> str:
    if character == "'":
        return r"'\''"
    return f"'{character}'" if character.isprintable() else f"'{character.encode('unicode_escape').decode()}'"


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return next((word for kind, word in _TYPES.items() if isinstance(value, kind)), "null")
