"""Prints `metamanager/_sqlite_sql.py`: the statements of `metamanager.schema` as SQLite's text.

`python -m metamanager.generate` writes the file, with `--check` its exit status says whether it is up to date.
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
    """The whole file."""
    statements: dict[str, ClauseElement] = {
        "GET": schema.GET,
        "LIST": schema.LIST,
        "LIST_IN": schema.LIST_IN,
        "PUT": schema.sqlite_put(),
        "DELETE": schema.DELETE,
        "DELETE_OF_UID": schema.DELETE_OF_UID,
        "DELETE_OWNED": schema.DELETE_OWNED,
        "STATE": schema.STATE,
        "NOTE": schema.NOTE,
        "TRIM": schema.TRIM,
        "WEIGHTS": schema.WEIGHTS,
        "DROP": schema.DROP,
        "WEIGHT": schema.WEIGHT,
    }
    parts = [_HEAD, _constant("CREATE_META", CreateTable(schema.META, if_not_exists=True))]
    (index,) = schema.META.indexes
    parts += [_constant("CREATE_INDEX", CreateIndex(index, if_not_exists=True))]
    parts += [_added_columns()]
    (index,) = schema.HISTORY.indexes
    parts += [_constant("CREATE_HISTORY", CreateTable(schema.HISTORY, if_not_exists=True))]
    parts += [_constant("CREATE_HISTORY_INDEX", CreateIndex(index, if_not_exists=True))]
    parts += [_constant(name, statement) for name, statement in statements.items()]
    return "\n".join(parts)


def main() -> int:
    """Write or check."""
    wanted = text()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text() == wanted else 1
    TARGET.write_text(wanted)
    return 0


def _constant(name: str, statement: ClauseElement) -> str:
    lines = _wrapped(_printed(statement))
    if len(lines) == 1:
        return f'{name} = "{lines[0]}"\n'
    return "\n".join([f"{name} = (", *(f'    "{line}"' for line in lines), ")", ""])


def _added_columns() -> str:
    """What makes KubeEdge's table ours."""
    lines = ["ADDED_COLUMNS = {"]
    for column in schema.META.c:
        if column.name not in ("key", "type", "value"):
            kind = column.type.compile(dialect=_dialect())
            lines.append(f'    "{column.name}": "ALTER TABLE meta ADD COLUMN {column.name} {kind}",')
    return "\n".join([*lines, "}", ""])


def _printed(statement: ClauseElement) -> str:
    return " ".join(str(statement.compile(dialect=_dialect())).split()).replace('"', "")


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
