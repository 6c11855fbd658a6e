"""The paths of additionalPrinterColumns: JSONPath without recursion, unions and steps of slices.

`.spec.list[0].name`, `.spec.list[*].name`, `.status.conditions[-1:].type` and
`.status.conditions[?(@.type=="Ready")].status` are such paths.
"""

import re
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.resources import Elements, Range

_NAME: Final = r"(?:[A-Za-z0-9_/-]|\\\.)+"
_STEP: Final = re.compile(
    rf"\.({_NAME})|\[([0-9]{{1,6}})\]|\['([^'\[\]]{{1,253}})'\]|(\[\*\])"
    r"|\[(-?[0-9]{1,6})?(:)(-?[0-9]{1,6})?\]"
    rf"|\[\?\(\s*@((?:\.{_NAME})+)\s*==\s*(\"[^\"\\]{{0,253}}\"|'[^'\\]{{0,253}}'|-?[0-9.]{{1,20}}|true|false)\s*\)\]"
)
_MOST: Final = 20


def parse_path(text: str) -> tuple[str | int | Elements | Range, ...]:
    """Return the steps of a path: names of members, indexes and ranges of elements, and elements with a
    value.

    Raises:
        BadRequestError: it is another JSONPath.
    """
    steps: list[str | int | Elements | Range] = []
    if not text.startswith("."):
        raise BadRequestError("must be a simple json path starting with .")
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == _MOST:
            raise BadRequestError('only names, indexes, slices, [*] and [?(@.name=="value")] are supported in a path')
        name, index, quoted, every, first, is_range, last, condition, value = found.groups()
        if every:
            steps.append(Elements())
        elif is_range:
            steps.append(Range(int(first) if first else None, int(last) if last else None))
        elif condition:
            steps.append(Elements(tuple(_plain(each) for each in _names(condition)), _literal(value)))
        else:
            steps.append(int(index) if index else _plain(quoted or name))
        at = found.end()
    return tuple(steps)


def _names(path: str) -> list[str]:
    return re.findall(rf"\.({_NAME})", path)


def _plain(name: str) -> str:
    return name.replace("\\.", ".")


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return decode_json(text)
    except msgspec.DecodeError as error:
        raise BadRequestError(f"{text[:40]} is no number") from error
