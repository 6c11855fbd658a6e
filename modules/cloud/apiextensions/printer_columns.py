"""The paths of additionalPrinterColumns: JSONPath without ranges, recursion, unions and slices.

`.spec.list[0].name`, `.spec.list[*].name` and `.status.conditions[?(@.type=="Ready")].status` are such paths.
"""

import re
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.resources import Elements

_NAME: Final = r"(?:[A-Za-z0-9_/-]|\\\.)+"
_STEP: Final = re.compile(
    rf"\.({_NAME})|\[([0-9]{{1,6}})\]|\['([^'\[\]]{{1,253}})'\]|(\[\*\])"
    rf"|\[\?\(\s*@((?:\.{_NAME})+)\s*==\s*(\"[^\"\\]{{0,253}}\"|'[^'\\]{{0,253}}'|-?[0-9.]{{1,20}}|true|false)\s*\)\]"
)
_MOST: Final = 20


def parse_path(text: str) -> tuple[str | int | Elements, ...]:
    """Return the steps of a path: names of members, indexes of elements, and elements with a value.

    Raises:
        BadRequestError: it is another JSONPath.
    """
    steps: list[str | int | Elements] = []
    if not text.startswith("."):
        raise BadRequestError("must be a simple json path starting with .")
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == _MOST:
            raise BadRequestError('only names, indexes, [*] and [?(@.name=="value")] are supported in a path')
        name, index, quoted, every, condition, value = found.groups()
        if every:
            steps.append(Elements())
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
