"""The store's changes on disk, so that a restarted stub has the same objects with the same uids.

Without it a restarted stub makes its objects anew from the manifests, with new uids, and every pod on every
node is replaced. One JSON line for each change; at the start the file is read, and written anew with what is
left.
"""

import logging
from pathlib import Path

import msgspec

from beehive.errors import BeehiveError
from modules.edgecontroller.kinds import JsonObject, ObjectKey, key_of
from modules.edgecontroller.store import Change, ObjectEvent, ObjectStore

_log = logging.getLogger(__name__)
_NOT_KEPT = ("Event", "Lease")
"""Kinds that change all the time and are worth nothing after a restart."""
_COMPACT_AFTER = 10_000
"""Lines after which the file is written anew."""


class JournalError(BeehiveError):
    """The journal cannot be read or written."""


class _Line(msgspec.Struct):
    change: Change
    object: JsonObject


class Journal:
    """See the module's docstring.

    Args:
        path: the file; made with mode 0600, because secrets are in it.
        store: what is restored at once and written down from then on.

    Raises:
        JournalError: the file cannot be read or written.
    """

    def __init__(self, path: Path, store: ObjectStore) -> None:
        self._path = path
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._read()
        store.restore(self._objects.values())
        self._write_anew()

    def write(self, event: ObjectEvent) -> None:
        """Writes one change down.

        Raises:
            JournalError: it could not be written.
        """
        if event.key.kind in _NOT_KEPT:
            return
        self._note(event.change, event.new)
        self._lines += 1
        try:
            self._file.write(msgspec.json.encode(_Line(event.change, event.new)) + b"\n")
            self._file.flush()
        except OSError as error:
            raise JournalError("cannot write the journal", str(self._path), str(error)) from error
        if self._lines > _COMPACT_AFTER + len(self._objects):
            self._file.close()
            self._write_anew()

    def close(self) -> None:
        """Writes nothing more."""
        self._file.close()

    def _read(self) -> None:
        try:
            data = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise JournalError("cannot read the journal", str(self._path), str(error)) from error
        lines = data.splitlines()
        for number, text in enumerate(lines, start=1):
            try:
                line = msgspec.json.decode(text, type=_Line)
            except msgspec.DecodeError as error:
                if number == len(lines):
                    _log.warning("the journal's last line is not whole (a crash?) and is left out")
                    return
                raise JournalError("cannot read the journal", f"{self._path}:{number}", str(error)) from error
            self._note(line.change, line.object)

    def _note(self, change: Change, obj: JsonObject) -> None:
        if change is Change.DELETED:
            self._objects.pop(key_of(obj), None)
        else:
            self._objects[key_of(obj)] = obj

    def _write_anew(self) -> None:
        new = self._path.with_name(self._path.name + ".new")
        try:
            new.unlink(missing_ok=True)
            new.touch(mode=0o600)
            with new.open("wb") as file:
                for obj in self._objects.values():
                    file.write(msgspec.json.encode(_Line(Change.ADDED, obj)) + b"\n")
            new.replace(self._path)
            self._file = self._path.open("ab")
        except OSError as error:
            raise JournalError("cannot write the journal", str(self._path), str(error)) from error
        self._lines = len(self._objects)
