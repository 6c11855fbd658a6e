"""Writes objects as YAML in kubectl's form: texts of several lines as they are (`|`), numbers and the like in `"`."""

import re
from typing import Any, Final

import yaml

from beehive.printable import printable_lines

_TEXT: Final = "tag:yaml.org,2002:str"
_LIKE_OTHERS: Final = re.compile(
    r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|0[oxb][\da-fA-F_]+|[yYnN]|[-+]?\.(?:inf|Inf|INF)"
)
"""Texts that kubectl quotes and PyYAML would not."""


class _Dumper(yaml.CSafeDumper):
    """The safe dumper, with kubectl's styles and without anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as its base
        """Return that everything is written where it is."""
        return True


def _represented(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _LIKE_OTHERS.fullmatch(text) or dumper.resolve(yaml.ScalarNode, text, (True, False)) != _TEXT:  # type: ignore[no-untyped-call]
        style = '"'
    return dumper.represent_scalar(_TEXT, text, style=style)


_Dumper.add_representer(str, _represented)


def yaml_text(value: Any, width: int = 1000) -> str:
    """Return a value of JSON's types as YAML, with the members of objects in the order of their names.

    If a character is not printable, all other characters than ASCII are escaped.

    Args:
        value: the value.
        width: characters of a line, after which texts are folded.
    """
    text = _dumped(value, width, allow_unicode=True)
    return text if text == printable_lines(text) else _dumped(value, width, allow_unicode=False)


def _dumped(value: Any, width: int, *, allow_unicode: bool) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=allow_unicode, width=width)
    return text
