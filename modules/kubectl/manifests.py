"""Reads the manifests that `-f` names: files, directories, and standard input."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

from modules.cli.errors import KubectlError

_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_DOCUMENTS: Final = 1000
_START: Final = re.compile(r"---(\s|$)")
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
        """Its `metadata.name`; empty without one."""
        return str(self._metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        """Its `metadata.namespace`; empty without one."""
        return str(self._metadata.get("namespace") or "")

    @property
    def _metadata(self) -> dict[str, Any]:
        found = self.object.get("metadata")
        return found if isinstance(found, dict) else {}


def read_all(names: Sequence[str], *, recursive: bool = False) -> list[Manifest]:
    """Return the objects of files, directories and standard input (`-`); lists are replaced by their items.

    Args:
        names: paths, or `-`.
        recursive: whether directories are read with their subdirectories.

    Raises:
        KubectlError: a file cannot be read, is no manifest, or there is no object in all of them.
    """
    found = []
    for each in read_each(names, recursive=recursive):
        if isinstance(each, KubectlError):
            raise each
        found.append(each)
    if not found:
        raise KubectlError("no objects passed: there is no manifest in " + ", ".join(names))
    return found


def read_each(names: Sequence[str], *, recursive: bool = False) -> Iterator[Manifest | KubectlError]:
    """Yield the objects as `read_all` does, and an error for each file or document that cannot be read."""
    for name in names:
        try:
            for file in _files_of_name(name, recursive=recursive):
                yield from _of_file(file)
        except KubectlError as error:
            yield error


def read_text(text: str, where: str) -> list[dict[str, Any]]:
    """Return the objects of a text; `where` names it in errors. Raises KubectlError."""
    found = []
    for each in _of_data(text.encode(), where):
        if isinstance(each, KubectlError):
            raise each
        found.append(each.object)
    return found


def _files_of_name(name: str, *, recursive: bool) -> list[Path | None]:
    """Return the files that a name means; None is standard input."""
    if name == "-":
        return [None]
    if name.startswith(("http://", "https://")):
        raise KubectlError(f"{name} is not read: fetch it and look at it first, as by `curl {name} -o manifest.yaml`")
    path = Path(name)
    return [*_files_of(path, recursive=recursive)] if path.is_dir() else [path]


def _of_file(file: Path | None) -> Iterator[Manifest | KubectlError]:
    where = "standard input" if file is None else str(file)
    try:
        with nullcontext(sys.stdin.buffer) if file is None else file.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        yield KubectlError(f'the path "{file}" does not exist')
    except OSError as error:
        yield KubectlError(f'the path "{file}" cannot be read: {error.strerror or error}')
    else:
        yield from _of_data(data, where)


def _files_of(directory: Path, *, recursive: bool) -> list[Path]:
    try:
        paths = directory.rglob("*") if recursive else directory.iterdir()
        files = sorted(path for path in paths if path.suffix in _ENDINGS and path.is_file())
    except OSError as error:
        raise KubectlError(f'the directory "{directory}" cannot be read: {error.strerror or error}') from error
    if not files:
        raise KubectlError(f"error reading [{directory}]: recognized file extensions are [{' '.join(_ENDINGS)}]")
    return files


def _of_data(data: bytes, where: str) -> Iterator[Manifest | KubectlError]:
    if len(data) > _MOST_BYTES:
        yield KubectlError(f"{where} is longer than {_MOST_BYTES >> 20} MiB")
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        yield KubectlError(f"{where} is not UTF-8 text")
        return
    try:
        yield from _of_text(text, where)
    except KubectlError as error:
        parts = _documents_in(text)
        if len(parts) == 1:
            yield error
        for part in parts if len(parts) > 1 else ():
            try:
                yield from _of_text(part, where)
            except KubectlError as error_of_part:
                yield error_of_part


def _documents_in(text: str) -> list[str]:
    """Return the documents of a text where one is wrong; each behind as many empty lines as are before it."""
    lines = text.splitlines(keepends=True)
    starts = [place for place, line in enumerate(lines) if place and _START.match(line)][:_MOST_DOCUMENTS]
    ends = [*starts, len(lines)]
    return ["\n" * start + "".join(lines[start:end]) for start, end in zip([0, *starts], ends, strict=True)]


def _of_text(text: str, where: str) -> list[Manifest | KubectlError]:
    """Return the objects of a text, and an error for each document that is no object.

    Raises:
        KubectlError: the text is not YAML, or an object has a key twice.
    """
    from modules.apimachinery.yaml_reader import YamlError, json_documents  # noqa: PLC0415 - PyYAML takes longer than most commands

    try:
        return [
            found
            for content, line in json_documents(text)
            if content is not None
            for found in _objects(content, f"{where}:{line}")
        ]
    except YamlError as error:
        lines = text.splitlines()[error.line - 1 : error.line]
        hint = " (a tab indents it; YAML wants spaces)" if lines and lines[0].lstrip(" ").startswith("\t") else ""
        raise KubectlError(f"error parsing {where}:{error.line}: {error.why}{hint}") from error
    except (TypeError, ValueError) as error:
        raise KubectlError(f"{where}: not plain data: {error}") from error


def _objects(content: Any, where: str) -> Iterator[Manifest | KubectlError]:
    if not isinstance(content, dict):
        yield KubectlError(f"{where}: an object with apiVersion and kind is wanted, not {_kind_of(content)}")
        return
    items = content.get("items")
    if isinstance(items, list) and str(content.get("kind", "")).endswith("List"):
        for item in items:
            yield from _objects(item, where)
        return
    missing = [name for name in ("apiVersion", "kind") if not isinstance(content.get(name), str)]
    if missing:
        yield KubectlError(f"{where}: {' and '.join(missing)} not set")
    else:
        yield Manifest(content, where)


def _kind_of(content: Any) -> str:
    return "a list" if isinstance(content, list) else "a text or number"
