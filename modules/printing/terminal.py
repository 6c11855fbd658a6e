"""The one way by which commands print what a node, a pod, an image or a cloud has chosen.

A table, a story or an error is shown with nothing in it that a terminal obeys: kubectl does the same since
CVE-2021-25743. JSON and YAML have escapes of their own, so they stay what they say. What a container has written itself
(`logs`, `exec`) goes out as it is, as with kubectl, and not through here.
"""

import re
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

import msgspec

from beehive.text import UNSAFE, printable, printable_lines

_COLOUR: Final = re.compile("(\x1b\\[(?:0|1|2|3[0-6](?:;1)?)m)")
"""The sequences that these commands paint with."""
_UNSAFE_IN_JSON: Final = re.compile(UNSAFE.pattern.replace("\x00-\x1f", ""))


def say(text: str, *, to: TextIO | None = None) -> None:
    """Prints a text of one or more lines."""
    stream = sys.stdout if to is None else to
    stream.write(f"{printable_lines(text)}\n")
    stream.flush()


def say_lines(lines: Iterable[str], *, colours: bool = False, flush: bool = True) -> None:
    """Prints lines, each of which stays one; with `colours`, their own colours stay too."""
    for line in lines:
        sys.stdout.write(f"{_painted(line) if colours else printable(line)}\n")
    if flush:
        sys.stdout.flush()


def complain(program: str, text: str) -> None:
    """Prints an error of a program."""
    say(f"{program}: {text}", to=sys.stderr)


def say_json(value: Any, *, indent: int | None = None) -> None:
    """Prints a value, or bytes or a `Raw` that are JSON already, as JSON."""
    data = bytes(value) if isinstance(value, bytes | msgspec.Raw) else msgspec.json.encode(value)
    text = (msgspec.json.format(data, indent=indent) if indent is not None else data).decode()
    sys.stdout.write(f"{_UNSAFE_IN_JSON.sub(_json_escape, text)}\n")


def say_yaml(value: Any, *, width: int | None = None) -> None:
    """Prints a value as YAML; characters other than ASCII are escaped where one of them is not fit to be shown."""
    import yaml  # noqa: PLC0415 - most commands do without it

    def dumped(*, allow_unicode: bool) -> str:
        text: str = yaml.dump(
            value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=allow_unicode, width=width or 80
        )
        return text

    text = dumped(allow_unicode=True)
    sys.stdout.write(text if text == printable_lines(text) else dumped(allow_unicode=False))


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _painted(line: str) -> str:
    return "".join(part if place % 2 else printable(part) for place, part in enumerate(_COLOUR.split(line)))
