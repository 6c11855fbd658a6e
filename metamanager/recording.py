"""Records the store's commits for a trace. The process passes a wrapping `open_store` to `MetaManager`."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from beehive.decoding import decode_json
from beehive.names import ResourceType
from beehive.trace.entries import EntrySink
from beehive.trace.format import Change, StoreCommit
from beehive.trace.redact import Redactor
from beehive.trace_context import current_context
from metamanager.errors import StoreError, StoreWriteError
from metamanager.rows import UNNOTED, Cause, Row
from metamanager.store import Store

OPENED: Final = "opened"
"""Operation of the first records: the rows of earlier runs. With an error, further rows could not be read."""

OPENED_BYTES: Final = 256 * 1024
"""Bytes of rows above which another such record begins."""

REFUSED: Final = "refused"
"""Operation of the record of one refused change; the other changes of its transaction remain."""

_SECRET: Final = (ResourceType.SECRET, ResourceType.SERVICE_ACCOUNT_TOKEN)

NumberT = TypeVar("NumberT", bound=int)


class _Written(msgspec.Struct, frozen=True, gc=False):
    """A change before redaction; without a value it is a deletion."""

    key: str
    kind: str
    value: str | None
    uid: str = ""

    def change(self, redactor: Redactor) -> Change:
        if self.value is None:
            return Change("delete", self.key, self.kind, b"")
        value = self.value.encode()
        redacted = redactor.secret(value) if self.kind in _SECRET else redactor.content(self.key, "", _as_json(value))
        return Change("put", self.key, self.kind, redacted, self.uid)

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 300 + len(self.value or "")


class CommitEntry(msgspec.Struct, frozen=True):
    """The result of a commit, a rollback or a refused change (`beehive.trace.entries.Entry`)."""

    time: float
    span: int
    cause: int
    trace: int
    operation: str
    seconds: float
    error: str
    changes: tuple[_Written, ...]

    @property
    def size(self) -> int:
        """Rough size in memory, in bytes."""
        return 500 + sum(change.size for change in self.changes)

    def record(self, time: float, redactor: Redactor) -> StoreCommit:
        """Return the redacted record for the file."""
        changes = tuple(change.change(redactor) for change in self.changes)
        return StoreCommit(
            time, self.span, self.cause, self.trace, self.operation, self.seconds, redactor.text(self.error), changes
        )


class RecordingStore:
    """A `Store` that passes calls on to another, and reports every commit, rollback and refused change, and its
    contents at the opening.

    Rows are kept unredacted in memory and written without secrets. Stored secrets, also of earlier runs, go
    to the redactor.

    Args:
        store: the wrapped store.
        sink: takes a `CommitEntry` for each of these.
    """

    def __init__(self, store: Store, sink: EntrySink) -> None:
        self._store = store
        self._sink = sink
        self._monotonic = sink.monotonic
        self._learn = sink.redactor.learn
        self._changes: list[_Written] = []
        self.get = store.get
        self.get_all = store.get_all
        self.rows = store.rows
        self._opened()

    def put(self, row: Row) -> bool:
        """See `Store`."""
        if row.type in _SECRET:
            self._learn(row.value.encode())
        return self._written(_Written(row.key, row.type, row.value), self._store.put, row)

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """See `Store`."""
        return self._written(_Written(key, "", None), self._store.delete, key, uid, cause, now_ms)

    def delete_owned(self, kind: str, uid: str) -> int:
        """See `Store`."""
        return self._written(_Written(f"{uid}/*", kind, None), self._store.delete_owned, kind, uid)

    def commit(self) -> None:
        """See `Store`."""
        begin, span = self._monotonic(), self._sink.next_span()
        try:
            self._store.commit()
        except StoreWriteError as error:
            self._report("commit", begin, str(error), span)
            raise
        self._report("commit", begin, span=span)

    def make_room(self) -> bool:
        """See `Store`."""
        return self._store.make_room()

    def rollback(self) -> None:
        """See `Store`."""
        begin = self._monotonic()
        self._store.rollback()
        self._report("rollback", begin)

    def close(self) -> None:
        """See `Store`."""
        self._store.close()

    def _opened(self) -> None:
        """Report the rows of earlier runs, some hundred kilobytes at a time; all secrets are learnt before."""
        begin, size = self._monotonic(), 0
        try:
            for kind in _SECRET:
                for value in self._store.get_all(kind):
                    self._learn(value.encode())
            for row in self._store.rows():
                self._changes.append(_Written(row.key, row.type, row.value, row.uid))
                size += self._changes[-1].size
                if size > OPENED_BYTES:
                    self._report(OPENED, begin)
                    size = 0
        except StoreError as error:
            self._report(OPENED, begin, str(error))
        self._report(OPENED, begin)

    def _written(self, change: _Written, write: Callable[..., NumberT], *arguments: Any) -> NumberT:
        """Let the store write. Report a refused change; the commit reports the others, or the loss of them all."""
        begin = self._monotonic()
        try:
            number = write(*arguments)
        except StoreWriteError as error:
            self._add_entry(REFUSED, begin, str(error), (change,))
            raise
        if number:
            self._changes.append(change)
        return number

    def _report(self, operation: str, begin: float, error: str = "", span: int = 0) -> None:
        changes, self._changes = tuple(self._changes), []
        if changes or error:
            self._add_entry(operation, begin, error, changes, span)

    def _add_entry(
        self, operation: str, begin: float, error: str, changes: tuple[_Written, ...], span: int = 0
    ) -> None:
        """Add an entry; `span` is its number if one was drawn when it began."""
        context, span, now = current_context(), span or self._sink.next_span(), self._monotonic()
        trace = context.trace or span
        self._sink.add(CommitEntry(now, span, context.span, trace, operation, now - begin, error, changes))


def _as_json(value: bytes) -> bytes:
    """Return a row's value as JSON: a string, if the value is plain text."""
    try:
        decode_json(value, msgspec.Raw)
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.json.encode(value.decode("utf-8", "replace"))
    return value
