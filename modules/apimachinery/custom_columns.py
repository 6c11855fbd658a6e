"""The columns of custom resources' tables (additionalPrinterColumns)."""

from typing import Any

import msgspec

from modules.apimachinery.resources import PrinterColumn
from modules.tools.printing.ages import ago
from modules.tools.printing.columns import Column
from modules.tools.printing.fields import JsonObject


def custom_column(column: PrinterColumn) -> Column:
    """Return the column that shows the value at a path; a date as an age."""

    def cell(obj: JsonObject, now: float) -> str | int:
        found = _value(obj, column.path)
        if column.type == "date":
            return ago(found, now) if isinstance(found, str) else "<unknown>" if found is None else "<invalid>"
        return _shown(found)

    return Column(column.name, cell, column.priority > 0)


def _value(obj: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, int):
            obj = obj[step] if isinstance(obj, list) and step < len(obj) else None
        else:
            obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _shown(value: Any) -> str | int:
    if value is None:
        return ""
    if isinstance(value, str) or type(value) is int:
        return value
    return msgspec.json.encode(value).decode()
