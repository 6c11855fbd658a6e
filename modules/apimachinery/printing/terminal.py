"""Prints texts that come from a node, a pod, an image or a cloud, for all commands.

Control sequences in tables, stories and errors are made harmless, as in kubectl since CVE-2021-25743. JSON and YAML
have escapes of their own. The output of containers (`logs`, `exec`) is printed unchanged, as by kubectl, and not by
this module.
"""

import re
import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

import msgspec

from beehive.printable import UNSAFE, printable, printable_lines

_COLOUR: Final = re.compile("(\x1b\\[(?:0|1|2|3[0-6](?:;1)?)m)")
"""Colour sequences that these commands use."""
_UNSAFE_IN_JSON: Final = re.compile(UNSAFE.pattern.replace("\x00-\x1f", ""))


def print_text(text: str, *, to: TextIO | None = None) -> None:
    """Print a text of one or more lines."""
    stream = sys.stdout if to is None else to
    stream.write(f"{printable_lines(text)}\n")
    stream.flush()


def print_lines(lines: Iterable[str], *, colours: bool = False, flush: bool = True) -> None:
    """Print each text on one line; with `colours`, colour sequences are kept."""
    for line in lines:
        sys.stdout.write(f"{_painted(line) if colours else printable(line)}\n")
    if flush:
        sys.stdout.flush()


def print_error(program: str, text: str) -> None:
    """Print an error of a program on standard error."""
    print_text(f"{program}: {text}", to=sys.stderr)


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON; bytes and `Raw` are JSON already."""
    data = bytes(value) if isinstance(value, bytes | msgspec.Raw) else msgspec.json.encode(value)
    text = (msgspec.json.format(data, indent=indent) if indent is not None else data).decode()
    sys.stdout.write(f"{_UNSAFE_IN_JSON.sub(_json_escape, text)}\n")


def print_yaml(value: Any, *, width: int | None = None) -> None:
    """Print a value as YAML; other characters than ASCII are escaped if one of them is not printable."""
    import yaml  # noqa: PLC0415 - most commands do without it

    def dumped(*, allow_unicode: bool) -> str:
        text: str = yaml.dump(
            value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=allow_unicode, width=width or 80
        )
        return text

    text = dumped(allow_unicode=True)
    sys.stdout.write(text if text == printable_lines(text) else dumped(allow_unicode=False))


def _json_escape(match: re.Match[str]) -> str:
    """Return a character as JSON's escapes, two of them beyond U+FFFF (RFC 8259 §7)."""
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _painted(line: str) -> str:
    return "".join(part if place % 2 else printable(part) for place, part in enumerate(_COLOUR.split(line)))
