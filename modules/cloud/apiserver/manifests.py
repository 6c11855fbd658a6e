"""Reading manifests in YAML or JSON.

YAML is read as Kubernetes reads it: without timestamps (a date stays a string) and tags, with several documents in a
text.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from beehive.errors import BeehiveError
from beehive.nesting import NestingError, read_json
from modules.apimachinery.yaml_reader import DEPTH, RepeatedKey, YamlError, json_documents

_MAX_BYTES = 16 * 1024 * 1024


class ManifestError(BeehiveError):
    """A text cannot be read as manifests; with file and line."""

    def __init__(self, where: str, line: int, why: str) -> None:
        self.line = line
        self.why = why
        super().__init__("cannot read a manifest", f"{where}:{line}", why)


class Document(msgspec.Struct, frozen=True):
    """One document of a text."""

    content: Any
    line: int
    """Its first line, counted from 1."""


def text_of(source: Path | BinaryIO, where: str) -> str:
    """Return the text of a file, or of a stream such as standard input.

    Raises:
        ManifestError: the text cannot be read, is longer than 16 MiB, or is not UTF-8.
    """
    try:
        with source.open("rb") if isinstance(source, Path) else nullcontext(source) as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ManifestError(where, 1, str(error)) from error
    if len(data) > _MAX_BYTES:
        raise ManifestError(where, 1, f"longer than {_MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ManifestError(where, line, "not UTF-8 text") from error


def read_manifests(text: str, where: str, repeated: list[RepeatedKey] | None = None) -> list[Document]:
    """Return the non-empty documents in a text.

    Args:
        text: YAML, or JSON when `where` ends in `.json`.
        where: the text's name in errors.
        repeated: takes the keys that a map of YAML has twice; None: such a text is refused.

    Raises:
        ManifestError: the text cannot be read.
    """
    found = _read_json(text, where) if where.endswith(".json") else _read_yaml(text, where, repeated)
    return [document for document in found if document.content is not None]


def line_of_field(text: str, field: str, first: int) -> int:
    """Return the first line, from `first` on, that sets a field; else `first`."""
    pattern = re.compile(rf"""^[\s{{,-]*["']?{re.escape(field)}["']?\s*:|[{{,]\s*["']?{re.escape(field)}["']?\s*:""")
    for number, line in enumerate(text.splitlines()[first - 1 :], first):
        if pattern.search(line):
            return number
    return first


def items_of(contents: Iterable[Any]) -> Iterator[Any]:
    """Yield the documents, with lists (`kind: List`, `PodList` and others) replaced by their items."""
    for content in contents:
        items = content.get("items") if isinstance(content, dict) else None
        if isinstance(items, list) and str(content.get("kind", "")).endswith("List"):
            yield from items_of(items)
        else:
            yield content


def _read_json(text: str, where: str) -> list[Document]:
    try:
        content = read_json(text, object_pairs_hook=_without_duplicates) if text.strip() else None
    except json.JSONDecodeError as error:
        raise ManifestError(where, error.lineno, error.msg) from error
    except NestingError as error:
        raise ManifestError(where, 1, "nested too deeply") from error
    except _DuplicateError as error:
        raise ManifestError(where, 1, str(error)) from error
    if _depth_of(content) > DEPTH:
        raise ManifestError(where, 1, f"nested more than {DEPTH} levels deep")
    return [Document(content, 1)]


class _DuplicateError(Exception):
    """An object of JSON has a key twice."""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise _DuplicateError(f'key "{name[:100]}" already set in map')
        made[name] = value
    return made


def _depth_of(value: Any) -> int:
    depth, level = 0, [value]
    while level := [part for part in level if isinstance(part, dict | list)]:
        depth += 1
        level = [inner for part in level for inner in (part.values() if isinstance(part, dict) else part)]
    return depth


def _read_yaml(text: str, where: str, repeated: list[RepeatedKey] | None) -> list[Document]:
    found: list[Document] = []
    try:
        for content, line in json_documents(text, repeated):
            found.append(Document(content, line))
    except YamlError as error:
        raise ManifestError(where, error.line, error.why) from error
    except (TypeError, ValueError) as error:
        line = found[-1].line + 1 if found else 1
        raise ManifestError(where, line, f"not plain data: {error}") from error
    return found
