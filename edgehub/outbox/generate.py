"""Prints `edgehub/outbox/_sql.py`: the statements of `edgehub.outbox.schema` as SQLite's text.

`python -m edgehub.outbox.generate` writes the file, with `--check` its exit status says whether it is up to date.
"""

import sys
import textwrap
from pathlib import Path

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.expression import ClauseElement

from edgehub.outbox import schema

TARGET = Path(__file__).with_name("_sql.py")

_HEAD = '"""Made by `python -m edgehub.outbox.generate` from `edgehub.outbox.schema`. Change that, not this."""\n'


def text() -> str:
    """The whole file."""
    statements: dict[str, ClauseElement] = {
        "CREATE": CreateTable(schema.OUTBOX, if_not_exists=True),
        "LOAD": schema.LOAD,
        "PUT": schema.PUT,
        "REMOVE": schema.REMOVE,
    }
    return "\n".join([_HEAD, *(_constant(name, one) for name, one in statements.items())])


def main() -> int:
    """Write or check."""
    wanted = text()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text() == wanted else 1
    TARGET.write_text(wanted)
    return 0


def _constant(name: str, statement: ClauseElement) -> str:
    lines = textwrap.wrap(_printed(statement), 100, drop_whitespace=False)
    quoted = "\n".join(f'    "{line}"' for line in lines)
    return f"{name} = (\n{quoted}\n)\n" if len(lines) > 1 else f'{name} = "{lines[0]}"\n'


def _printed(statement: ClauseElement) -> str:
    return " ".join(str(statement.compile(dialect=sqlite.dialect(paramstyle="named"))).split())


if __name__ == "__main__":
    raise SystemExit(main())
