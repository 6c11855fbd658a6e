"""`$(NAME)` in commands, arguments and values (Kubernetes' third_party/forked/golang/expansion).

A reference to a known variable is replaced by its value, which is not looked at again; one to an unknown
variable stays as it is; `$$` is one dollar sign, so that `$$(NAME)` becomes the text `$(NAME)`.
"""

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with its references replaced."""
    return _TOKEN.sub(lambda match: _value_of(match, variables), text)


def expand_all(texts: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Each text with its references replaced."""
    return tuple(expand(text, variables) for text in texts)


def _value_of(match: re.Match[str], variables: Mapping[str, str]) -> str:
    name = match[1]
    return "$" if name is None else variables.get(name, match[0])
