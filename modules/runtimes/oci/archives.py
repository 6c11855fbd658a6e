"""Archives of images that the node gets as files, for machines without a registry.

The archives in the directory are imported when edgecore starts, and when a client asks for images. A new or changed
archive is imported immediately; an unchanged one again when a client asks for one of its images that was removed. An
archive that cannot be imported is logged, and not tried again until it changes or edgecore starts again; if the machine
was the reason, such as a full disk, it is tried again when a client asks for an image that is missing.
"""

import logging
import os
import threading
from pathlib import Path
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.durable import replace_file
from beehive.files.reading import read_file
from modules.runtimes.engine.errors import BadRequestError, RequestRefusedError
from modules.runtimes.oci.images import ImageStore
from modules.runtimes.oci.images.names import name_of

_log = logging.getLogger(__name__)

_ENDINGS: Final = (".tar", ".tar.gz", ".tgz", ".tar.zst")
_RECORD: Final = "archives.json"
_LONGEST: Final = 16 * 1024 * 1024
"""Bytes of the record."""


class ImportedArchive(msgspec.Struct, frozen=True):
    """An archive as it was imported; `changed` in nanoseconds since the epoch."""

    changed: int
    size: int
    names: tuple[str, ...] = ()
    """Names and ids of its images."""
    may_work: bool = False
    """Whether it failed for a reason that may pass."""
    problem: str = ""
    """Why it failed."""


class ImageArchives:
    """The archives (`*.tar`, also compressed by gzip or zstd) of a directory, which need not exist.

    Args:
        directory: of the archives.
        images: where they are imported to.
    """

    def __init__(self, directory: Path, images: ImageStore) -> None:
        self._directory = directory
        self._images = images
        self._record = images.layout.root / _RECORD
        self._lock = threading.Lock()
        self._known = {name: each for name, each in _read(self._record).items() if each.names}

    def refresh(self, wanted: str = "") -> None:
        """Import the archives that are new or have changed, and the archive of a wanted image that is missing."""
        name = "" if not wanted or self._images.find(wanted) else name_of(wanted) or wanted
        with self._lock:
            now = {each: self._imported(each, self._known.get(each), name) for each in self._names()}
            if now == self._known:
                return
            self._known = now
            try:
                replace_file(self._record, msgspec.json.encode(now))
            except OSError as error:
                _log.warning("archives of images are imported again at the next start: %s", error)

    def problem(self) -> str:
        """Return which archive could not be imported, the first of several, and why; empty if there is none."""
        with self._lock:
            return next((each.problem for each in self._known.values() if each.problem), "")

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._directory) if name.endswith(_ENDINGS))  # noqa: PTH208 - strings
        except OSError:
            return []

    def _imported(self, name: str, before: ImportedArchive | None, wanted: str) -> ImportedArchive:
        path = self._directory / name
        try:
            status = path.stat()
        except OSError:
            return ImportedArchive(0, 0)
        before = before or ImportedArchive(0, 0)
        found = msgspec.structs.replace(before, changed=status.st_mtime_ns, size=status.st_size)
        if found == before and wanted not in found.names and not (wanted and found.may_work):
            return found
        try:
            imported = self._images.import_archive(path)
        except (OSError, RequestRefusedError) as error:
            _log.error("%s", error)
            may_work = not isinstance(error, BadRequestError)
            return msgspec.structs.replace(found, names=(), may_work=may_work, problem=str(error))
        _log.info("imported the images of %s", path)
        names = tuple(name for each in imported for name in (each.id, *each.names))
        return msgspec.structs.replace(found, names=names, may_work=False, problem="")


def last_import(archive: Path, store: Path) -> ImportedArchive | None:
    """Return the last import of an archive by a runtime with a store of images; None: it has not looked at this one.

    Raises:
        OSError: the archive has gone.
    """
    status, found = archive.stat(), _read(store / _RECORD).get(archive.name)
    is_present = found is not None and (found.changed, found.size) == (status.st_mtime_ns, status.st_size)
    return found if is_present else None


def _read(record: Path) -> dict[str, ImportedArchive]:
    try:
        return decode_json(read_file(record, _LONGEST), dict[str, ImportedArchive])
    except (OSError, msgspec.MsgspecError):
        return {}
