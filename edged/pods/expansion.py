"""`$(NAME)` in commands, arguments and values (Kubernetes' third_party/forked/golang/expansion).

A reference to a known variable is replaced by its value, which is not looked at again; one to an unknown
variable stays as it is; `$$` is one dollar sign, so that `$$(NAME)` becomes the text `$(NAME)`. A reference that is not
closed is plain text.

Values refer to earlier values, so that a pod of one kilobyte can ask for terabytes. What comes of expansion is bounded
as Linux bounds what a process is started with: beyond that no container could start anyway.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from edged.pods.errors import TooLargeError

LARGEST_TEXT: Final = 128 * 1024 - 1
"""Bytes of one argument, or of one variable with its name and `=` (Linux' MAX_ARG_STRLEN, less the closing zero)."""

LARGEST_START: Final = 2 * 1024 * 1024
"""Bytes of all arguments and variables of a container together (Linux' ARG_MAX for the usual stack of 8 MiB)."""


def expand(text: str, variables: Mapping[str, str], limit: int = LARGEST_TEXT) -> str:
    """The text with its references replaced, in time that grows with the text and the result only.

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
    """Each text with its references replaced.

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
    """Bytes of a text in UTF-8; those of a secret that are none count as they came."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _parts(text: str, variables: Mapping[str, str]) -> Iterator[str]:
    """The pieces of the result. Once no `)` follows, no reference does, and only escapes are left."""
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
