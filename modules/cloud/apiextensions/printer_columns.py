"""The paths of additionalPrinterColumns: the JSONPath of one value, `.spec.properties[0].name`."""

import re
from typing import Final

from modules.apimachinery.api_errors import BadRequestError

_STEP: Final = re.compile(r"\.((?:[A-Za-z0-9_/-]|\\\.)+)|\[([0-9]{1,6})\]|\['([^'\[\]]{1,253})'\]")
_MOST: Final = 20


def parse_path(text: str) -> tuple[str | int, ...]:
    """Return the steps of a path: names of members, and indexes of elements.

    Raises:
        BadRequestError: it is another JSONPath.
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == _MOST:
            raise BadRequestError("only a path of names and indexes is supported, such as .spec.list[0].name")
        name, index, quoted = found.groups()
        steps.append(int(index) if index else (quoted or name).replace("\\.", "."))
        at = found.end()
    if not steps:
        raise BadRequestError("it must not be empty")
    return tuple(steps)
