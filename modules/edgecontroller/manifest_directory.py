"""A directory of manifests as the wanted state: what is in its files exists, what leaves them goes.

The directory is looked at once a second. Polling `stat` is preferred over inotify: it works on every file
system (network mounts, configmap volumes with their symlinks), survives the directory being replaced, needs
no thread, runs on the virtual clock, and costs microseconds for as many files as a person writes.

A file counts as a whole: if one of its documents cannot be accepted, the file's former state stays in force
and the error is reported once, with file and line. One that is rewritten in its place is read when it is the same at
two looks: half of it may be a manifest too, in which the other half's pods are not wanted.
"""

import logging
from pathlib import Path

import msgspec

from beehive.errors import BeehiveError
from modules.edgecontroller.apply import from_manifest
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.errors import ApiError, ConflictError, NotFoundError
from modules.edgecontroller.kinds import KINDS, JsonObject, ObjectKey, key_of
from modules.edgecontroller.manifests import ManifestError, items_of, read_manifests, text_of

_log = logging.getLogger(__name__)
_SUFFIXES = (".yaml", ".yml", ".json")
MANIFEST_ANNOTATION = "cloudcore/manifest"
"""On each object from a file: the file's name. What has it and is in no file any more is deleted."""


class _File(msgspec.Struct):
    """What is known of one file."""

    signature: tuple[int, int, int]
    """Inode, size and modification time: when it changes the file is read again."""
    objects: dict[ObjectKey, JsonObject]
    """What the file wanted when it was last good."""
    error: str = ""
    seen: tuple[int, int, int] = (0, 0, 0)
    """The signature at the last look."""

    def is_settled(self, signature: tuple[int, int, int]) -> bool:
        """Whether nobody writes in it any more; what was put in its place by renaming is whole."""
        before, self.seen = self.seen, signature
        return signature == before or signature[0] != self.signature[0]


class ManifestDirectory:
    """Brings the cluster into the state that a directory describes.

    Args:
        path: the directory; it may come into being later.
        cluster: what is changed.
    """

    def __init__(self, path: Path, cluster: Cluster) -> None:
        self._path = path
        self._cluster = cluster
        self._files: dict[str, _File] = {}
        self._waiting: dict[ObjectKey, JsonObject] = {}
        self.loaded = False
        """The directory has been read once: an object that is not in the store is not wanted."""

    def begin_anew(self) -> None:
        """What was done at the looks before may have been given up: all of it is done again at the next."""
        self._waiting = {key: obj for file in self._files.values() for key, obj in file.objects.items()}
        self.loaded = False

    def errors(self) -> list[str]:
        """What is wrong with the files now."""
        return [file.error for file in self._files.values() if file.error]

    def look(self) -> None:
        """Reads what has changed and applies it; never raises for what a person wrote."""
        found = self._signatures()
        if found is None:
            return
        for name, signature in found.items():
            known = self._files.get(name)
            if known is None or (known.signature != signature and known.is_settled(signature)):
                self._read(name, signature)
        for name in [name for name in self._files if name not in found]:
            self._remove(name)
        if not self.loaded:
            self._delete_leftovers()
            self.loaded = True
        for obj in list(self._waiting.values()):
            self._apply(obj)

    def _signatures(self) -> dict[str, tuple[int, int, int]] | None:
        found = {}
        try:
            for path in sorted(self._path.iterdir()):
                if path.suffix in _SUFFIXES and not path.name.startswith(".") and path.is_file():
                    stat = path.stat()
                    found[path.name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        except OSError as error:
            if self.loaded or self._path.exists():
                _log.warning("cannot look into %s: %s", self._path, error)
            return None
        return found

    def _read(self, name: str, signature: tuple[int, int, int]) -> None:
        file = self._files.setdefault(name, _File(signature, {}))
        file.signature, file.error = signature, ""
        try:
            wanted = self._objects_in(name)
        except BeehiveError as error:
            file.error = str(error)
            _log.error("%s; its former state stays in force", error)
            return
        before, file.objects = file.objects, wanted
        for key in before:
            if key not in wanted:
                self._delete(key)
        for obj in wanted.values():
            self._apply(obj)

    def _objects_in(self, name: str) -> dict[ObjectKey, JsonObject]:
        """What a file wants.

        Raises:
            ManifestError: the file cannot be read or a document in it cannot be accepted.
        """
        wanted: dict[ObjectKey, JsonObject] = {}
        for document in read_manifests(text_of(self._path / name, name), name):
            for content in items_of([document.content]):
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
        try:
            _, outcome = self._cluster.apply(obj)
            _log.info("%s %s", key, outcome)
        except ConflictError:
            self._waiting[key] = obj
        except ApiError as error:
            name = obj["metadata"]["annotations"][MANIFEST_ANNOTATION]
            self._files[name].error = f"{name}: {error}"
            _log.error("%s: %s", name, error)

    def _delete(self, key: ObjectKey) -> None:
        self._waiting.pop(key, None)
        try:
            self._cluster.delete(key)
        except NotFoundError:
            _log.debug("%s was gone already", key)

    def _delete_leftovers(self) -> None:
        """Objects of files that disappeared while nobody looked (the stub was not running)."""
        wanted = {key for file in self._files.values() for key in file.objects}
        for obj in (obj for kind in KINDS for obj in self._cluster.list(kind)):
            annotations = obj["metadata"].get("annotations") or {}
            if MANIFEST_ANNOTATION in annotations and key_of(obj) not in wanted:
                _log.info("%s is in no manifest any more", key_of(obj))
                self._delete(key_of(obj))
