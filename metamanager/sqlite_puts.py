"""Rows that are put into an SQLite file together, many by one statement.

A statement for each row costs half of what the row does, and lets other threads run, which give the interpreter back
late. Who puts a row wants to know at once whether it replaces what is stored: that follows from the stored state alone
(`Row.supersedes`), so the states of objects that change are remembered, and the row may be written a little later,
before anything is read and before the commit. The statement itself still lets no older state replace a newer one.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from metamanager import _sqlite_sql as sql
from metamanager.rows import Row

MOST_ROWS: Final = 64
"""Rows of one statement, a power of two."""

LONGEST: Final = 4096
"""Characters of a value that may wait: a longer one gains nothing by it, and SQLite keeps a copy with the statement."""

STATES: Final = 1024
"""Objects whose states are remembered."""

_INT64: Final = range(-(2**63), 2**63)

State = tuple[str | None, int | None]
"""Uid and resourceVersion as they are stored."""

Statement = tuple[str, list[str | int]]
"""With its parameters."""


class Puts:
    """Rows that wait to be written, and the states that objects have when they are."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def state(self, key: str) -> State | None:
        """The state of an object; None when it is not known."""
        return self._states.get(key)

    def learn(self, key: str, state: State) -> None:
        """An object has this state now."""
        if len(self._states) >= STATES:
            self._states.clear()
        self._states[key] = state

    def unlearn(self) -> None:
        """Somebody else may have changed what is stored."""
        self._states.clear()

    def add(self, row: Row) -> None:
        """Let a row wait; it has been found to supersede what is stored."""
        self._rows.append(row)
        self.learn(row.key, (row.uid, row.resource_version))

    @property
    def full(self) -> bool:
        """Whether no more shall wait."""
        return len(self._rows) >= MOST_ROWS

    def statements(self) -> Iterator[Statement]:
        """What writes those that wait, in their order."""
        for begin, number in _shares(len(self._rows)):
            yield statement(self._rows[begin : begin + number])

    def written(self) -> None:
        """None waits any more."""
        self._rows.clear()

    def forget(self) -> None:
        """The transaction was rolled back."""
        self.written()
        self.unlearn()


def can_wait(row: Row) -> bool:
    """Whether a row is short, and SQLite sure to take it: what it may refuse is written alone, to be refused alone."""
    try:
        for text in (row.key, row.type, row.value, row.uid, row.namespace, row.name):
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError:
        return False
    return len(row.value) <= LONGEST and row.resource_version in _INT64 and row.updated in _INT64


def statement(rows: list[Row]) -> Statement:
    """What puts some rows, as `_sqlite_sql.PUT` puts one."""
    parameters: list[str | int] = []
    for row in rows:
        parameters += (
            row.key, row.type, row.value, row.uid, row.resource_version, row.namespace, row.name, row.updated,
        )  # fmt: skip
    return _text(len(rows)), parameters


def _shares(number: int) -> Iterator[tuple[int, int]]:
    """Beginning and length of parts of as few lengths as possible, for each is a statement that SQLite prepares."""
    begin = 0
    while begin < number:
        length = min(MOST_ROWS, 1 << ((number - begin).bit_length() - 1))
        yield begin, length
        begin += length


@lru_cache(maxsize=MOST_ROWS.bit_length())
def _text(number: int) -> str:
    head, _, rest = sql.PUT.partition("VALUES (")
    names, _, tail = rest.partition(")")
    places = f"({', '.join('?' for _ in names.split(','))})"
    return f"{head}VALUES {', '.join([places] * number)}{tail}"
