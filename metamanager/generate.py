"""Generates `metamanager/_sqlite_sql.py`: the statements of `metamanager.schema` as text for SQLite.

`python -m metamanager.generate` writes the file; with `--check` it exits with status 1 unless the file is up to date.
"""

import sys
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.expression import ClauseElement

from metamanager import schema

TARGET = Path(__file__).with_name("_sqlite_sql.py")

_HEAD = '''"""Made by `python -m metamanager.generate` from `metamanager.schema`. Change that, not this."""
'''


def text() -> str:
    """Return the whole file."""
    statements: dict[str, ClauseElement] = {
        "GET": schema.GET,
        "LIST": schema.LIST,
        "LIST_IN": schema.LIST_IN,
        "ROWS": schema.ROWS,
        "DELETE": schema.DELETE,
        "DELETE_OF_UID": schema.DELETE_OF_UID,
        "DELETE_OWNED": schema.DELETE_OWNED,
        "STATE": schema.STATE,
        "TRIM": schema.TRIM,
        "WEIGHTS": schema.WEIGHTS,
        "DROP": schema.DROP,
        "WEIGHT": schema.WEIGHT,
    }
    parts = [_HEAD, _constant("CREATE_META", _printed(CreateTable(schema.META, if_not_exists=True)))]
    (index,) = schema.META.indexes
    parts += [_constant("CREATE_INDEX", _printed(CreateIndex(index, if_not_exists=True)))]
    parts += [_added_columns()]
    (index,) = schema.HISTORY.indexes
    parts += [_constant("CREATE_HISTORY", _printed(CreateTable(schema.HISTORY, if_not_exists=True)))]
    parts += [_constant("CREATE_HISTORY_INDEX", _printed(CreateIndex(index, if_not_exists=True)))]
    parts += [_constant(name, _printed(statement)) for name, statement in statements.items()]
    parts += [_constant("PUT", _for_rows(schema.sqlite_put())), _constant("NOTE", _for_rows(schema.NOTE))]
    return "\n".join(parts)


def main() -> int:
    """Write or check the file."""
    wanted = text()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text() == wanted else 1
    TARGET.write_text(wanted)
    return 0


def _constant(name: str, statement: str) -> str:
    lines = _wrapped(statement)
    if len(lines) == 1:
        return f'{name} = "{lines[0]}"\n'
    return "\n".join([f"{name} = (", *(f'    "{line}"' for line in lines), ")", ""])


def _added_columns() -> str:
    """Return the statements that add this project's columns to KubeEdge's table."""
    lines = ["ADDED_COLUMNS = {"]
    for column in schema.META.c:
        if column.name not in ("key", "type", "value"):
            kind = column.type.compile(dialect=_dialect())
            lines.append(f'    "{column.name}": "ALTER TABLE meta ADD COLUMN {column.name} {kind}",')
    return "\n".join([*lines, "}", ""])


def _printed(statement: ClauseElement) -> str:
    return " ".join(str(statement.compile(dialect=_dialect())).split()).replace('"', "")


def _for_rows(insert: ClauseElement) -> str:
    """Return an INSERT with `{rows}` in the place of its one row of values."""
    names = insert.compile(dialect=_dialect()).params
    head, row, tail = _printed(insert).partition(f"({', '.join(f':{name}' for name in names)})")
    if not row:
        raise ValueError("the statement inserts no row of bound parameters")
    return f"{head}{{rows}}{tail}"


def _dialect() -> sa.Dialect:
    return sqlite.dialect(paramstyle="named")


def _wrapped(sql: str, width: int = 106) -> list[str]:
    lines, line = [], ""
    for word in sql.split(" "):
        if len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line += f"{word} "
    return [*lines, line.rstrip()]


if __name__ == "__main__":
    raise SystemExit(main())
