"""The directory of manifests."""

import logging
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from beehive.backoff import doubled
from beehive.errors import BeehiveError
from beehive.files.stamps import FileStamp, stamp_of
from modules.apimachinery.api_errors import ApiError, ConflictError, ForbiddenError, NotFoundError
from modules.apimachinery.kinds import KINDS, JsonObject, ObjectKey, key_kind, key_of
from modules.cloud.apiserver.apply import from_manifest
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.fields.validation import unknown_fields
from modules.cloud.apiserver.manifests import Document, ManifestError, items_of, line_of_field, read_manifests, text_of

_log = logging.getLogger(__name__)
_SUFFIXES = (".yaml", ".yml", ".json")
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
"""Seconds between two attempts to apply an object that is refused."""
MANIFEST_ANNOTATION = "cloudcore/manifest"
"""Annotation with the name of an object's file; an object that has it and is in no file is deleted."""


class _File(msgspec.Struct):
    """The last known state of a file."""

    stamp: FileStamp
    """The file is read again when it changes."""
    objects: dict[ObjectKey, JsonObject]
    """The objects in the file's last valid state."""
    error: str = ""
    seen: FileStamp = FileStamp()
    """The stamp at the last sync."""
    is_unread: bool = False
    """Whether it could not be read in this state: that is tried again, as no stamp tells of its mode."""
    twin: str = ""
    """The file that has an object of this state already: this one is read again when that one changes."""

    def is_written(self, stamp: FileStamp) -> bool:
        """Return whether writing has ended: the stamp has not changed since the last sync, or the file is
        a new inode, as after a rename.
        """
        before, self.seen = self.seen, stamp
        return stamp == before or stamp.inode != self.stamp.inode


class _Refusal(NamedTuple):
    """The last refusal of an object that waits for a change of others."""

    why: str
    failures: int
    """Before, in a row."""
    again: float
    """Monotonic seconds of the next attempt; each change in the directory makes one, too."""


class _Wanted(NamedTuple):
    """An object in a file."""

    object: JsonObject
    line: int


class ManifestDirectoryError(BeehiveError):
    """The directory of manifests is missing, or cannot be read."""


def check_directory(path: Path) -> None:
    """Check that a directory of manifests is there and can be read.

    Raises:
        ManifestDirectoryError: it is not, or cannot.
    """
    hint = "--manifests wants a directory of YAML and JSON files"
    try:
        with os.scandir(path):
            return
    except FileNotFoundError as error:
        raise ManifestDirectoryError("cannot read the manifests", str(path), f"there is none; {hint}") from error
    except NotADirectoryError as error:
        raise ManifestDirectoryError("cannot read the manifests", str(path), f"it is no directory; {hint}") from error
    except OSError as error:
        raise ManifestDirectoryError("cannot read the manifests", str(path), f"{error.strerror}; {hint}") from error


class ManifestDirectory:
    """A directory whose manifests are applied; it deletes objects that are removed from it.

    The directory is polled: unlike inotify, `stat` works on every file system (network mounts, configmap volumes with
    their symlinks), survives the replacement of the directory, needs no thread, runs on the virtual clock, and takes
    microseconds.

    A file is applied as a whole. If one document is invalid, the file's former state stays in force, and the error is
    logged once with file and line. A file that is rewritten in place is read when two syncs find the same stamp:
    half a file may be valid, and the pods of the other half would be deleted.

    Args:
        path: the directory; it may go and come back while cloudcore runs.
        cluster: the API server.
    """

    def __init__(self, path: Path, cluster: Cluster) -> None:
        self._path = path
        self._cluster = cluster
        self._files: dict[str, _File] = {}
        self._waiting: dict[ObjectKey, JsonObject] = {}
        self._refused: dict[ObjectKey, _Refusal] = {}
        """Objects that wait for a change of others: their namespace does not exist, another Service has their port."""
        self._logged = set[str]()
        self.loaded = False
        """Whether the directory has been read once, so that a missing object is not to exist."""

    def reset(self) -> None:
        """Make the next sync apply all files, as earlier syncs may have been rolled back."""
        self._waiting = {key: obj for file in self._files.values() for key, obj in file.objects.items()}
        self.loaded = False

    def errors(self) -> list[str]:
        """Return the present errors of the files and of objects that wait for others."""
        return [file.error for file in self._files.values() if file.error] + [*self._reasons()]

    def sync(self) -> None:
        """Read changed files and apply them; never raises for their contents."""
        found = self._stamps()
        if found is None:
            return
        gone = {name: self._files.pop(name) for name in list(self._files) if name not in found}
        for name, file in gone.items():
            _log.info("manifest %s is gone, with %d objects", name, len(file.objects))
        changed = {name for name, stamp in found.items() if self._has_changed(name, stamp)}
        freed = changed | gone.keys()
        is_due = bool(freed) or not self.loaded
        changed |= {name for name, file in self._files.items() if file.twin in freed}
        self._take_over({name: found[name] for name in sorted(changed)}, gone.values())
        if not self.loaded:
            self._delete_leftovers()
            self.loaded = True
        now = self._cluster.clock.monotonic()
        for key, obj in list(self._waiting.items()):
            if is_due or key not in self._refused or self._refused[key].again <= now:
                self._apply(obj)
        self._log_refusals()

    def _reasons(self) -> Iterator[str]:
        return (refusal.why for refusal in self._refused.values())

    def _log_refusals(self) -> None:
        """Log each object that waits for another one, such as its namespace, once."""
        refused = set(self._reasons())
        for why in sorted(refused - self._logged):
            _log.error("%s; it is tried again", why)
        self._logged = refused

    def _stamps(self) -> dict[str, FileStamp] | None:
        """Return the stamps of the files; None if the directory cannot be read. A file that cannot be looked up keeps
        its known stamp.
        """
        found, now = dict[str, FileStamp](), self._cluster.clock.now()
        try:
            paths = sorted(self._path.iterdir())
        except OSError as error:
            if self.loaded or self._path.exists():
                _log.warning("cannot look into %s: %s", self._path, error)
            return None
        for path in paths:
            if path.suffix not in _SUFFIXES or path.name.startswith("."):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            except OSError:
                known = self._files.get(path.name)
                found[path.name] = FileStamp() if known is None else known.stamp
            else:
                if stat.S_ISREG(status.st_mode):
                    found[path.name] = stamp_of(status, now)
        return found

    def _has_changed(self, name: str, stamp: FileStamp) -> bool:
        known = self._files.get(name)
        return known is None or known.is_unread or (known.stamp != stamp and known.is_written(stamp))

    def _take_over(self, changed: Mapping[str, FileStamp], gone: Iterable[_File]) -> None:
        """Apply changed files, and delete what is in no file any more; an object may be in another file now."""
        said, wanted = dict[str, str](), dict[str, dict[ObjectKey, _Wanted]]()
        for name, stamp in changed.items():
            file = self._files.setdefault(name, _File(FileStamp(), {}))
            said[name] = file.error if stamp.is_of_state(file.stamp) else ""
            file.stamp, file.error, file.is_unread, file.twin = stamp, "", False, ""
            try:
                wanted[name] = self._objects_in(name)
            except BeehiveError as error:
                file.error, file.is_unread = str(error), isinstance(error.__cause__, OSError)
        self._refuse_twins(wanted)
        for name in changed:
            why = self._files[name].error
            if why and why != said[name]:
                _log.error("%s; its former state stays in force", why)
        dropped = [key for file in gone for key in file.objects]
        for name, objects in wanted.items():
            dropped += self._files[name].objects
            self._files[name].objects = {key: each.object for key, each in objects.items()}
        kept = {key for file in self._files.values() for key in file.objects}
        for key in dropped:
            if key not in kept:
                self._delete(key)
        for name in wanted:
            for obj in self._files[name].objects.values():
                self._apply(obj)

    def _refuse_twins(self, wanted: dict[str, dict[ObjectKey, _Wanted]]) -> None:
        """Leave the files out that have an object of another file: of the one that had it before, else of the first."""
        while (found := self._twin(wanted)) is not None:
            name, key, other = found
            file, refused = self._files[name], wanted.pop(name)
            file.twin, file.error = other, str(ManifestError(name, refused[key].line, f"{key} is in {other} already"))

    def _twin(self, wanted: Mapping[str, Mapping[ObjectKey, _Wanted]]) -> tuple[str, ObjectKey, str] | None:
        """Return a file with an object of another file, the object, and the other file."""
        owners = dict[ObjectKey, str]()
        for name in sorted(self._files):
            for key in wanted.get(name, self._files[name].objects):
                other = owners.setdefault(key, name)
                if other == name:
                    continue
                is_others = other not in wanted or (key in self._files[other].objects)
                is_own = name not in wanted or (key in self._files[name].objects)
                return (other, key, name) if is_own and not is_others else (name, key, other)
        return None

    def _objects_in(self, name: str) -> dict[ObjectKey, _Wanted]:
        """Return the objects in a file.

        Raises:
            ManifestError: the file cannot be read, or a document is invalid.
        """
        wanted: dict[ObjectKey, _Wanted] = {}
        text = text_of(self._path / name, name)
        documents = read_manifests(text, name)
        if not documents:
            raise ManifestError(name, 1, "the file is empty: a manifest, or no file, is wanted")
        for document in documents:
            for content in items_of([document.content]):
                self._check_fields(name, document, content, text)
                try:
                    obj = from_manifest(content)
                except ApiError as error:
                    raise ManifestError(name, document.line, str(error)) from error
                key = key_of(obj)
                if key in wanted:
                    raise ManifestError(name, document.line, f"{key} is in this file already")
                obj["metadata"].setdefault("annotations", {})[MANIFEST_ANNOTATION] = name
                wanted[key] = _Wanted(obj, document.line)
        return wanted

    @staticmethod
    def _check_fields(name: str, document: Document, content: Any, text: str) -> None:
        """Refuse fields that the kind does not have, as `kubectl apply` does."""
        named = key_kind(content) if isinstance(content, dict) else ""
        kind = next((kind for kind in KINDS if kind.name == named), None)
        faults = unknown_fields(kind, content) if kind is not None else ()
        if faults:
            line = line_of_field(text, faults[0].rstrip('"').rpartition(".")[2], document.line)
            raise ManifestError(name, line, f"strict decoding error: {', '.join(faults)}")

    def _apply(self, obj: JsonObject) -> None:
        key = key_of(obj)
        self._waiting.pop(key, None)
        before = self._refused.pop(key, None)
        try:
            _, outcome = self._cluster.apply(obj)
            _log.info("%s %s", key, outcome)
        except ConflictError:
            self._waiting[key] = obj
        except ApiError as error:
            self._waiting[key] = obj
            failures = 0 if before is None else before.failures + 1
            again = self._cluster.clock.monotonic() + doubled(_FIRST_PAUSE, failures, _LONGEST_PAUSE)
            why = f"{obj['metadata']['annotations'][MANIFEST_ANNOTATION]}: {error}"
            self._refused[key] = _Refusal(why, failures, again)

    def _delete(self, key: ObjectKey) -> None:
        self._waiting.pop(key, None)
        self._refused.pop(key, None)
        try:
            self._cluster.delete(key)
        except NotFoundError:
            _log.debug("%s was gone already", key)
        except ForbiddenError as error:
            _log.warning("%s stays: %s", key, error)

    def _delete_leftovers(self) -> None:
        """Delete the objects of files that were removed while cloudcore was not running; objects of a file that cannot
        be read now stay.
        """
        wanted = {key for file in self._files.values() for key in file.objects}
        unread = {name for name, file in self._files.items() if file.error}
        for obj in (obj for kind in KINDS for obj in self._cluster.storage.list(kind)):
            annotations = obj["metadata"].get("annotations") or {}
            name = annotations.get(MANIFEST_ANNOTATION)
            if name is not None and name not in unread and key_of(obj) not in wanted:
                _log.info("%s is no longer in a manifest", key_of(obj))
                self._delete(key_of(obj))
