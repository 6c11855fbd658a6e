"""Writes many rows to an SQLite file by one statement."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from metamanager import statements as sql
from metamanager.rows import Row

MOST_ROWS: Final = 64
"""Largest number of rows of one statement, a power of two."""

LONGEST: Final = 4096
"""Largest value in characters that waits: longer ones gain nothing, and SQLite keeps a copy with the statement."""

STATES: Final = 1024
"""Number of objects whose states are remembered."""

_ROW: Final = "(?, ?, ?, ?, ?, ?, ?, ?)"
_INT64: Final = range(-(2**63), 2**63)

State = tuple[str | None, int | None]
"""Stored uid and resourceVersion."""

Statement = tuple[str, list[str | int]]
"""SQL and its parameters."""


class Puts:
    """Collects rows to write, and remembers the states of objects.

    A statement for each row would cost half as much as the row itself, and release the interpreter to other threads,
    which return it late. `Store.put` has to return immediately whether the row replaces the stored one. The stored
    state determines that (`Row.supersedes`), so with remembered states the row can be written later: before the next
    read, or before the commit. The statement itself still replaces no newer state by an older one.
    """

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def state(self, key: str) -> State | None:
        """Return the state of an object; None if it is unknown."""
        return self._states.get(key)

    def remember_state(self, key: str, state: State) -> None:
        """Remember the present state of an object."""
        if len(self._states) >= STATES:
            self._states.clear()
        self._states[key] = state

    def forget_states(self) -> None:
        """Forget all states, because another connection may have changed rows."""
        self._states.clear()

    def add(self, row: Row) -> None:
        """Add a row that supersedes the stored one."""
        self._rows.append(row)
        self.remember_state(row.key, (row.uid, row.resource_version))

    @property
    def full(self) -> bool:
        """Whether the rows have to be written now."""
        return len(self._rows) >= MOST_ROWS

    def statements(self) -> Iterator[Statement]:
        """Yield the statements that write the waiting rows, in their order."""
        for begin, number in _shares(len(self._rows)):
            yield statement(self._rows[begin : begin + number])

    def written(self) -> None:
        """Remove the written rows."""
        self._rows.clear()

    def forget(self) -> None:
        """Remove the rows of a transaction that was rolled back, and forget all states."""
        self.written()
        self.forget_states()


def can_wait(row: Row) -> bool:
    """Return whether a row may wait: it is short, and SQLite will not refuse it. Others are written alone."""
    try:
        for text in (row.key, row.type, row.value, row.uid, row.namespace, row.name):
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError:
        return False
    return len(row.value) <= LONGEST and row.resource_version in _INT64 and row.updated in _INT64


def statement(rows: list[Row]) -> Statement:
    """Return the statement that puts some rows."""
    parameters: list[str | int] = []
    for row in rows:
        parameters += (
            row.key, row.type, row.value, row.uid, row.resource_version, row.namespace, row.name, row.updated,
        )  # fmt: skip
    return _text(len(rows)), parameters


def _shares(number: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of parts. The lengths are powers of two: SQLite prepares a statement for each length."""
    begin = 0
    while begin < number:
        length = min(MOST_ROWS, 1 << ((number - begin).bit_length() - 1))
        yield begin, length
        begin += length


@lru_cache(maxsize=MOST_ROWS.bit_length())
def _text(number: int) -> str:
    return sql.PUT.format(rows=", ".join([_ROW] * number))
