"""additionalPrinterColumns, whose paths are JSONPath, and what is shown of a definition without them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from modules.apimachinery.jsonpath import column_path
from modules.apimachinery.jsonpath_parser import JsonPathError
from modules.apimachinery.resources import PrinterColumn

_AGE: Final = PrinterColumn("Age", ".metadata.creationTimestamp", "date")
_LONGEST: Final = 1000


def path_faults(path: str) -> Iterator[str]:
    """Yield why a path is refused. As by kube-apiserver, one that cannot be read is not."""
    if not path.startswith("."):
        yield "must be a simple json path starting with ."
    elif len(path) > _LONGEST:
        yield f"must have at most {_LONGEST} characters"


def columns_of(version: Mapping[str, Any]) -> tuple[PrinterColumn, ...]:
    """Return the columns of a version of a definition; the age only, if there are none, or one cannot be read."""
    found = version.get("additionalPrinterColumns")
    if not found or not all(_is_readable(one["jsonPath"]) for one in found):
        return (_AGE,)
    return tuple(
        PrinterColumn(one["name"], one["jsonPath"], one["type"], one.get("priority") or 0, one.get("description") or "")
        for one in found
    )


def _is_readable(path: str) -> bool:
    try:
        column_path(path)
    except JsonPathError:
        return False
    return True
