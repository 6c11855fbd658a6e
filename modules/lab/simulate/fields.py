"""The fields where two JSON values differ."""

from collections.abc import Iterator
from typing import Any, Final

_LONGEST: Final = 200
"""Characters of each value that are shown."""


def unlike(has: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield each field that differs as a line, with both values: objects and lists are compared member by member."""
    if isinstance(has, dict) and isinstance(wanted, dict):
        for name in sorted(has.keys() | wanted.keys()):
            yield from unlike(has.get(name), wanted.get(name), f"{path}.{name}" if path else name)
    elif isinstance(has, list) and isinstance(wanted, list) and len(has) == len(wanted):
        for number, (one, other) in enumerate(zip(has, wanted, strict=True)):
            yield from unlike(one, other, f"{path}[{number}]")
    elif has != wanted:
        yield f"{path} is {_brief(has)}, not {_brief(wanted)}"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
