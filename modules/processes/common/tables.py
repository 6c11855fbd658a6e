"""Tables of commands: for people, and for programs as JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from beehive.printable import printable
from modules.apimachinery.printing.tables import aligned
from modules.apimachinery.printing.terminal import print_lines, print_text

if TYPE_CHECKING:
    import argparse

_FORMS: Final = ("table", "json", "csv")
_FORMULA: Final = ("=", "+", "-", "@", "\t")
"""Beginnings of a cell that a spreadsheet takes for a formula (OWASP, CSV injection)."""


class Table(NamedTuple):
    """A table of texts."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str
    """The line for people in place of a table without rows."""
    remarks: Sequence[str] = ()
    """Lines for people after the table."""


def add_form(parser: argparse.ArgumentParser, about: str = "") -> None:
    """Add `-o`; `about` says what the forms have."""
    said = f"; {about}" if about else ""
    parser.add_argument("-o", "--output", choices=_FORMS, default="table", help=f"default: table{said}")
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as -o json")


def print_table(form: str, table: Table, content: object = None) -> None:
    """Print a table.

    Args:
        form: `table`, `json` or `csv`.
        table: what people and CSV see.
        content: what JSON has; None for an object of each row, by the headings in lower case.
    """
    if form == "csv":
        print_text(csv_of(table).rstrip("\n"))
    elif form == "json":
        print_lines(json_lines(objects_of(table) if content is None else content))
    else:
        print_lines(lines_of(table))


def lines_of(table: Table) -> list[str]:
    """Return the lines of a table for people."""
    return [*(aligned([table.headings, *table.rows]) if table.rows else [table.empty]), *table.remarks]


def objects_of(table: Table) -> list[dict[str, str]]:
    """Return an object of each row, by the headings in lower case."""
    names = [heading.lower().replace("-", "_") for heading in table.headings]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def json_lines(content: object) -> list[str]:
    """Return the lines of a value as JSON."""
    import msgspec  # noqa: PLC0415 - the command line is quick

    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode().splitlines()


def csv_of(table: Table) -> str:
    """Return a table as CSV. What a spreadsheet would take for a formula gets an apostrophe before it."""
    import csv  # noqa: PLC0415 - as above
    import io  # noqa: PLC0415

    text = io.StringIO()
    writer: Any = csv.writer(text, lineterminator="\n")
    for row in (table.headings, *table.rows):
        writer.writerow([printable(f"'{cell}" if cell.startswith(_FORMULA) else cell) for cell in row])
    return text.getvalue()
