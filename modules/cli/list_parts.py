"""Lists of the Kubernetes API, asked for in parts."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from modules.apimachinery.printing.fields import text_at
from modules.cli.errors import KubectlError

MOST_PARTS: Final = 4000
"""Parts of a list: a server that names a next one for ever holds nobody."""


def list_parts(ask: Callable[[list[tuple[str, str]]], dict[str, Any]], limit: int) -> Iterator[dict[str, Any]]:
    """Yield the parts of a list, each asked for when it is needed.

    Args:
        ask: returns the part that a query selects, beside the list's own query.
        limit: objects of a part; 0 asks for all together.

    Raises:
        KubectlError: there are too many parts.
    """
    token = ""
    for _ in range(MOST_PARTS):
        part = ask([*([("limit", str(limit))] if limit else []), *([("continue", token)] if token else [])])
        yield part
        token = text_at(part, "metadata.continue")
        if not token:
            return
    raise KubectlError(f"the list has more than {MOST_PARTS} parts")
