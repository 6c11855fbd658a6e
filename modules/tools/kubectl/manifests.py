"""Reads the manifests that `-f` names: files, directories, and standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.tools.kubectl.errors import KubectlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_BYTES: Final = 16 * 1024 * 1024
_ENDINGS: Final = (".json", ".yaml", ".yml")


class Manifest(NamedTuple):
    """One object of a file."""

    object: dict[str, Any]
    where: str
    """File and line, for errors: `pod.yaml:12`."""

    @property
    def api_version(self) -> str:
        """Its `apiVersion`."""
        return str(self.object["apiVersion"])

    @property
    def kind(self) -> str:
        """Its `kind`."""
        return str(self.object["kind"])

    @property
    def name(self) -> str:
        """Its `metadata.name`; empty if it has none."""
        return str(self._metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        """Its `metadata.namespace`; empty if it has none."""
        return str(self._metadata.get("namespace") or "")

    @property
    def _metadata(self) -> dict[str, Any]:
        found = self.object.get("metadata")
        return found if isinstance(found, dict) else {}


def read_all(names: Sequence[str], *, recursive: bool = False) -> list[Manifest]:
    """Return the objects of files, directories and standard input (`-`); lists are replaced by their items.

    Args:
        names: paths, or `-`.
        recursive: whether directories are read with all that is below them.

    Raises:
        KubectlError: a file cannot be read, is no manifest, or there is no object in all of them.
    """
    found = [manifest for name in names for manifest in _of_name(name, recursive=recursive)]
    if not found:
        raise KubectlError("no objects passed: there is no manifest in " + ", ".join(names))
    return found


def _of_name(name: str, *, recursive: bool) -> Iterator[Manifest]:
    if name == "-":
        yield from _of_data(sys.stdin.buffer.read(_MOST_BYTES + 1), "standard input")
        return
    if name.startswith(("http://", "https://")):
        raise KubectlError(f"{name} is not read: fetch it and look at it first, as by `curl {name} -o manifest.yaml`")
    path = Path(name)
    for file in _files_of(path, recursive=recursive) if path.is_dir() else [path]:
        try:
            with file.open("rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
        except OSError as error:
            raise KubectlError(f'the path "{file}" cannot be read: {error.strerror or error}') from error
        yield from _of_data(data, str(file))


def _files_of(directory: Path, *, recursive: bool) -> list[Path]:
    try:
        paths = directory.rglob("*") if recursive else directory.iterdir()
        files = sorted(path for path in paths if path.suffix in _ENDINGS and path.is_file())
    except OSError as error:
        raise KubectlError(f'the directory "{directory}" cannot be read: {error.strerror or error}') from error
    if not files:
        raise KubectlError(f"error reading [{directory}]: recognized file extensions are [{' '.join(_ENDINGS)}]")
    return files


def _of_data(data: bytes, where: str) -> Iterator[Manifest]:
    from edged.yaml_reader import YamlError, documents  # noqa: PLC0415 - PyYAML takes longer than most commands

    if len(data) > _MOST_BYTES:
        raise KubectlError(f"{where} is longer than {_MOST_BYTES >> 20} MiB")
    try:
        for content, line in documents(data.decode()):
            if content is not None:
                yield from _objects(_plain(content), f"{where}:{line}")
    except UnicodeDecodeError as error:
        raise KubectlError(f"{where} is not UTF-8 text") from error
    except YamlError as error:
        raise KubectlError(f"{where}:{error.line}: {error.why}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise KubectlError(f"{where}: not plain data: {error}") from error


def _objects(content: Any, where: str) -> Iterator[Manifest]:
    if not isinstance(content, dict):
        raise KubectlError(f"{where}: an object with apiVersion and kind is wanted, not {_kind_of(content)}")
    items = content.get("items")
    if isinstance(items, list) and str(content.get("kind", "")).endswith("List"):
        for item in items:
            yield from _objects(item, where)
        return
    missing = [name for name in ("apiVersion", "kind") if not isinstance(content.get(name), str)]
    if missing:
        raise KubectlError(f"{where}: {' and '.join(missing)} not set")
    yield Manifest(content, where)


def _kind_of(content: Any) -> str:
    return "a list" if isinstance(content, list) else f"the text {str(content)[:40]!r}"


def _plain(value: Any) -> Any:
    """Return the value in JSON's types. Raise TypeError for any other."""
    if isinstance(value, dict):
        return {_key(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"a {type(value).__name__} has no place in a manifest")


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise TypeError("a key must be a string")
