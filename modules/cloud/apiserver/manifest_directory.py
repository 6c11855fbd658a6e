"""The directory of manifests."""

import logging
import os
from pathlib import Path
from typing import Any

import msgspec

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

    def is_written(self, stamp: FileStamp) -> bool:
        """Return whether writing has ended: the stamp has not changed since the last sync, or the file is
        a new inode, as after a rename.
        """
        before, self.seen = self.seen, stamp
        return stamp == before or stamp.inode != self.stamp.inode


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
        self._refused: dict[ObjectKey, str] = {}
        """Why objects wait for others, which may be in other files: their namespace does not exist, for instance."""
        self._logged = set[str]()
        self.loaded = False
        """Whether the directory has been read once, so that a missing object is not to exist."""

    def reset(self) -> None:
        """Make the next sync apply all files, as earlier syncs may have been rolled back."""
        self._waiting = {key: obj for file in self._files.values() for key, obj in file.objects.items()}
        self.loaded = False

    def errors(self) -> list[str]:
        """Return the present errors of the files and of objects that wait for others."""
        return [file.error for file in self._files.values() if file.error] + [*self._refused.values()]

    def sync(self) -> None:
        """Read changed files and apply them; never raises for their contents."""
        found = self._stamps()
        if found is None:
            return
        for name, stamp in found.items():
            known = self._files.get(name)
            if known is None or (known.stamp != stamp and known.is_written(stamp)):
                self._read(name, stamp)
        for name in [name for name in self._files if name not in found]:
            self._remove(name)
        if not self.loaded:
            self._delete_leftovers()
            self.loaded = True
        for obj in list(self._waiting.values()):
            self._apply(obj)
        self._log_refusals()

    def _log_refusals(self) -> None:
        """Log each object that waits for another one, such as its namespace, once."""
        refused = set(self._refused.values())
        for why in sorted(refused - self._logged):
            _log.error("%s; it is tried again", why)
        self._logged = refused

    def _stamps(self) -> dict[str, FileStamp] | None:
        found, now = dict[str, FileStamp](), self._cluster.clock.now()
        try:
            for path in sorted(self._path.iterdir()):
                if path.suffix in _SUFFIXES and not path.name.startswith(".") and path.is_file():
                    found[path.name] = stamp_of(path.stat(), now)
        except OSError as error:
            if self.loaded or self._path.exists():
                _log.warning("cannot look into %s: %s", self._path, error)
            return None
        return found

    def _read(self, name: str, stamp: FileStamp) -> None:
        file = self._files.setdefault(name, _File(FileStamp(), {}))
        said = file.error if stamp.is_of_state(file.stamp) else ""
        file.stamp, file.error = stamp, ""
        try:
            wanted = self._objects_in(name)
        except BeehiveError as error:
            file.error = str(error)
            if file.error != said:
                _log.error("%s; its former state stays in force", error)
            return
        before, file.objects = file.objects, wanted
        for key in before:
            if key not in wanted:
                self._delete(key)
        for obj in wanted.values():
            self._apply(obj)

    def _objects_in(self, name: str) -> dict[ObjectKey, JsonObject]:
        """Return the objects in a file.

        Raises:
            ManifestError: the file cannot be read, or a document is invalid.
        """
        wanted: dict[ObjectKey, JsonObject] = {}
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
                other = self._file_with(key, besides=name)
                if key in wanted or other:
                    raise ManifestError(name, document.line, f"{key} is in {other or 'this file'} already")
                obj["metadata"].setdefault("annotations", {})[MANIFEST_ANNOTATION] = name
                wanted[key] = obj
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

    def _file_with(self, key: ObjectKey, besides: str) -> str:
        return next((name for name, file in self._files.items() if name != besides and key in file.objects), "")

    def _remove(self, name: str) -> None:
        file = self._files.pop(name)
        _log.info("manifest %s is gone, with %d objects", name, len(file.objects))
        for key in file.objects:
            self._delete(key)

    def _apply(self, obj: JsonObject) -> None:
        key = key_of(obj)
        self._waiting.pop(key, None)
        self._refused.pop(key, None)
        try:
            _, outcome = self._cluster.apply(obj)
            _log.info("%s %s", key, outcome)
        except ConflictError:
            self._waiting[key] = obj
        except (NotFoundError, ForbiddenError) as error:
            self._waiting[key] = obj
            self._refused[key] = f"{obj['metadata']['annotations'][MANIFEST_ANNOTATION]}: {error}"
        except ApiError as error:
            name = obj["metadata"]["annotations"][MANIFEST_ANNOTATION]
            self._files[name].error = f"{name}: {error}"
            _log.error("%s: %s", name, error)

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
