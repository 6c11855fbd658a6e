"""Expansion of `$(NAME)` in commands, arguments and values (Kubernetes' third_party/forked/golang/expansion).

A reference to a known variable becomes its value, which is not expanded again; a reference to an unknown variable stays
as it is; `$$` is one dollar sign, so `$$(NAME)` becomes the text `$(NAME)`. An unclosed reference is plain text.

Values refer to earlier values, so a pod of one kilobyte can ask for terabytes. The result is limited as Linux limits
the arguments of a process: beyond that no container could start anyway.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from edged.errors import TooLargeError

LARGEST_TEXT: Final = 128 * 1024 - 1
"""Largest size of one argument, or of one variable with its name and `=`, in bytes (Linux' MAX_ARG_STRLEN, less the
closing zero).
"""

LARGEST_START: Final = 2 * 1024 * 1024
"""Largest size of all arguments and variables of a container together, in bytes (Linux' ARG_MAX for the usual stack of
8 MiB).
"""


def expand(text: str, variables: Mapping[str, str], limit: int = LARGEST_TEXT) -> str:
    """Return the text with its references expanded, in time linear in the text and the result.

    Raises:
        TooLargeError: the result has more than `limit` bytes.
    """
    parts: list[str] = []
    size = 0
    for part in _parts(text, variables):
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    else:
        expanded = "".join(parts)
        if size * 4 <= limit or size_of(expanded) <= limit:
            return expanded
    raise TooLargeError("expand the references", text[:60], f"the result has more than {limit} bytes")


def expand_all(texts: Iterable[str], variables: Mapping[str, str], room: int = LARGEST_START) -> tuple[str, ...]:
    """Return the texts with their references expanded.

    Raises:
        TooLargeError: a result has more bytes than an argument may have, or all together, each with its closing zero,
            have more than `room`.
    """
    expanded = []
    for text in texts:
        expanded.append(expand(text, variables))
        room -= size_of(expanded[-1]) + 1
        if room < 0:
            hint = f"Linux takes {LARGEST_START} bytes of arguments and variables in all"
            raise TooLargeError("expand the command", text[:60], hint)
    return tuple(expanded)


def size_of(text: str) -> int:
    """Return the size of a text in UTF-8, in bytes; a secret's invalid bytes count as they came."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _parts(text: str, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the pieces of the result. After the last `)` only escapes are left to expand."""
    done = 0
    while (dollar := text.find("$", done)) >= 0:
        yield text[done:dollar]
        following = text[dollar + 1 : dollar + 2]
        if following == "(":
            end = text.find(")", dollar)
            if end < 0:
                yield text[dollar:].replace("$$", "$")
                return
            name = text[dollar + 2 : end]
            yield variables.get(name, text[dollar : end + 1])
            done = end + 1
        else:
            yield "$" if following == "$" else "$" + following
            done = dollar + 1 + len(following)
    yield text[done:]
