"""Objects of CRI as documents for people: JSON with CRI's names, and the values of variables hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from google.protobuf.json_format import MessageToDict

from beehive.decoding import decode_json

if TYPE_CHECKING:
    from google.protobuf.message import Message

HIDDEN: Final = "<hidden>"

_VARIABLES: Final = ("env", "environment", "envs")
"""Keys, in lower case, of lists of `NAME=VALUE` (OCI, Docker) or of `{key, value}` (CRI)."""
_COPIES: Final = ("args", "command", "cmd", "entrypoint", "test", "created_by", "annotations")
"""Keys, in lower case, of texts into which a value may have been copied: `$(NAME)` in a pod's arguments, `ENV` in the
history of an image.
"""
_MANIFEST: Final = "last-applied-configuration"
"""End of the annotation where kubectl keeps a whole manifest."""
_SHORTEST: Final = 4
"""Letters of a value that is hidden inside of a longer text; a shorter one is hidden by itself only."""


def plain(message: Message) -> dict[str, Any]:
    """Return a message as crictl prints it."""
    return MessageToDict(message)


def information_of(info: Mapping[str, str]) -> dict[str, Any]:
    """Return the object `info` of a verbose answer, by default an empty one."""
    try:
        return decode_json(info.get("info", ""), dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        return {}


def without_values(document: Any) -> Any:
    """Return a copy of a document without values of variables, also where they were copied into arguments, and without
    the manifest that kubectl has added.
    """
    values = {each for each in _values(document) if each}
    return _hidden(document, sorted(values, key=len, reverse=True), "", copies=False)


def _values(document: Any, key: str = "") -> Iterator[str]:
    """Yield all values of variables."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _values(value, name.lower())
    elif isinstance(document, list):
        for each in document:
            if key not in _VARIABLES:
                yield from _values(each)
            elif isinstance(each, str):
                yield each.partition("=")[2]
            elif isinstance(each, dict):
                yield str(each.get("value", ""))


def _hidden(document: Any, values: list[str], key: str, *, copies: bool) -> Any:
    """Return a document without the values; `copies`: its texts may have copies of them."""
    if key in _VARIABLES:
        return _variables(document)
    if isinstance(document, dict):
        return {
            name: _hidden(value, values, name.lower(), copies=copies or name.lower() in _COPIES)
            for name, value in document.items()
        }
    if isinstance(document, list):
        return [_hidden(each, values, "", copies=copies) for each in document]
    if not isinstance(document, str):
        return document
    if key.endswith(_MANIFEST):
        return HIDDEN
    return _cleaned(document, values) if copies else document


def _variables(variables: Any) -> Any:
    """Return variables without their values; all of it is hidden if the form is not a known one."""
    if isinstance(variables, list):
        return [_variable(each) for each in variables]
    return HIDDEN if variables else variables


def _variable(variable: Any) -> Any:
    if isinstance(variable, dict):
        return {name: value if name == "key" else HIDDEN for name, value in variable.items()}
    name, equals, _ = str(variable).partition("=")
    return f"{name}={HIDDEN}" if equals else name


def _cleaned(text: str, values: list[str]) -> str:
    for value in values:
        if text == value:
            return HIDDEN
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
    return text
