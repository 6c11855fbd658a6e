"""`explain`: shows the fields of a kind, from the server's OpenAPI."""

from __future__ import annotations

from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at
from modules.apimachinery.printing.terminal import print_text
from modules.cli.errors import KubectlError, StatusError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modules.cli.parser import VerbParser
    from modules.kubectl.discovery import ApiResource
    from modules.kubectl.session import Session

_PAGE: Final = "https://kubernetes.io/docs/reference/kubernetes-api/"
_REFERENCE: Final = "#/components/schemas/"
_DEEPEST: Final = 20
_WIDTH: Final = 76
"""Characters of a line of a description, without its indentation."""
_MOST_LINES: Final = 20_000


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument(
        "words", nargs="*", metavar="TYPE[.FIELD…]", help="a kind, or a field of it: pod.spec.containers"
    )
    parser.flag("--recursive", text="show the fields of the fields, too")
    parser.add_argument(
        "--api-version", default="", metavar="VERSION", help="version of the kind: v1, storage.k8s.io/v1"
    )
    parser.add_argument("-o", "--output", default="plaintext", choices=("plaintext",), help="plaintext")


def run(session: Session, chosen: Any) -> int:
    """Print the fields of a kind or of a field."""
    if len(chosen.words) != 1:
        raise KubectlError(
            "You must specify the type of resource to explain, and one only: `explain pod.spec`; `api-resources` lists "
            "them"
        )
    word, *path = chosen.words[0].split(".")
    resource = session.discovery.one(word)
    if chosen.api_version not in ("", resource.api_version):
        raise KubectlError(f"{resource.kind} is served in {resource.api_version} only, not in {chosen.api_version}")
    schemas = Schemas(_document(session, resource))
    lines = schemas.explained(resource, [name for name in path if name], recursive=chosen.recursive)
    print_text("\n".join([*_head(resource), *lines]))
    return 0


class Schemas:
    """The schemas of an OpenAPI v3 document.

    Args:
        document: the document.
    """

    def __init__(self, document: JsonObject) -> None:
        self._schemas = map_at(map_at(document, "components"), "schemas")

    def explained(self, resource: ApiResource, path: list[str], *, recursive: bool = False) -> list[str]:
        """Return the lines about a kind, or about the field at a path in it.

        Raises:
            KubectlError: there is no such field, or no schema of the kind.
        """
        schema = self._root(resource)
        lines = []
        for name in path:
            fields = self._fields(schema)
            if name not in fields:
                raise KubectlError(f'field "{name}" does not exist')
            schema = fields[name]
        if path:
            choices = [f"    {each}" for each in list_at(schema, "enum")]
            lines = [f"FIELD: {path[-1]} <{self.type_of(schema)}>", *(["ENUM:", *choices] if choices else []), ""]
        described = text_at(schema, "description") or text_at(self._resolved(schema), "description")
        lines += ["DESCRIPTION:", *_wrapped(described or f"What each field means: {_PAGE}"), ""]
        if self._fields(schema):
            rows = self._nested(schema, 1) if recursive else self._described(schema)
            lines += ["FIELDS:", *islice(rows, _MOST_LINES)]
        return lines

    def type_of(self, schema: JsonObject) -> str:
        """Return a type as kubectl shows it: `string`, `[]Container`, `map[string]string`, `Object`."""
        name = _reference(schema)
        if name:
            return name.rpartition(".")[2]
        kind = text_at(schema, "type") or "Object"
        if kind == "array":
            return f"[]{self.type_of(map_at(schema, 'items'))}"
        if map_at(schema, "additionalProperties"):
            return f"map[string]{self.type_of(map_at(schema, 'additionalProperties'))}"
        return "Object" if kind == "object" else kind

    def _root(self, resource: ApiResource) -> JsonObject:
        wanted = {"group": resource.group, "kind": resource.kind, "version": resource.version}
        for schema in self._schemas.values():
            if isinstance(schema, dict) and wanted in objects_at(schema, "x-kubernetes-group-version-kind"):
                return schema
        raise KubectlError(f"the server has no schema of {resource.kind}: {_PAGE}")

    def _resolved(self, schema: JsonObject) -> JsonObject:
        """Return the schema of an object, behind a reference, a list or a map."""
        for _ in range(_DEEPEST):
            name = _reference(schema)
            within = map_at(schema, "items") or map_at(schema, "additionalProperties")
            inner = self._schemas.get(name) if name else within
            if not isinstance(inner, dict) or not inner:
                break
            schema = inner
        return schema

    def _fields(self, schema: JsonObject) -> dict[str, JsonObject]:
        found = map_at(self._resolved(schema), "properties")
        return {name: field for name, field in sorted(found.items()) if isinstance(field, dict)}

    def _nested(self, schema: JsonObject, level: int) -> Iterator[str]:
        """Yield the fields of an object, and the fields of its fields."""
        for name, field in self._fields(schema).items():
            yield from self._rows(schema, name, field, "  " * level)
            if level < _DEEPEST:
                yield from self._nested(field, level + 1)

    def _described(self, schema: JsonObject) -> Iterator[str]:
        """Yield the fields of an object with the descriptions in their schemas."""
        for name, field in self._fields(schema).items():
            yield from self._rows(schema, name, field, "  ")
            if text := text_at(field, "description"):
                yield from (*_wrapped(text), "")

    def _rows(self, parent: JsonObject, name: str, field: JsonObject, indent: str) -> Iterator[str]:
        """Yield a field with its type, whether it is required, and its allowed values."""
        mark = " -required-" if name in list_at(self._resolved(parent), "required") else ""
        yield f"{indent}{name}\t<{self.type_of(field)}>{mark}"
        if choices := list_at(field, "enum"):
            yield f"{indent}enum: {', '.join(str(each) for each in choices)}"


def _wrapped(text: str) -> list[str]:
    """Return the paragraphs of a description, indented and in lines as kubectl breaks them."""
    return [
        f"    {line}".rstrip()
        for paragraph in text.splitlines()
        for line in wrap(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    ]


def _reference(schema: JsonObject) -> str:
    """Return the name of the type that a schema refers to; empty if it does not."""
    found = text_at(schema, "$ref") or next((text_at(each, "$ref") for each in objects_at(schema, "allOf")), "")
    return found.removeprefix(_REFERENCE)


def _document(session: Session, resource: ApiResource) -> JsonObject:
    prefix = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
    try:
        return session.client.get(f"/openapi/v3/{prefix}")
    except StatusError as error:
        raise KubectlError(f"the server has no schema of {resource.kind} ({error.message}): {_PAGE}") from error


def _head(resource: ApiResource) -> list[str]:
    group = [f"GROUP:      {resource.group}"] if resource.group else []
    return [*group, f"KIND:       {resource.kind}", f"VERSION:    {resource.version}", ""]
