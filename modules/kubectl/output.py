"""The forms of output (`-o`)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from beehive.printable import printable_lines
from modules.apimachinery.printing.columns import columns_of
from modules.apimachinery.printing.fields import map_at, text_at
from modules.apimachinery.printing.tables import TableOptions, TableWriter, layout
from modules.apimachinery.printing.terminal import print_json, print_lines, print_text
from modules.cli.errors import KubectlError, UsageError
from modules.kubectl.custom_columns import CustomColumn, read_columns, read_columns_file, table_of
from modules.kubectl.jsonpath import JsonPath

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from modules.apimachinery.printing.columns import Column
    from modules.apimachinery.printing.fields import JsonObject
    from modules.kubectl.discovery import ApiResource

    ColumnsOf = Callable[[ApiResource], Sequence[Column]]
    """Returns the columns of a resource."""

_INDENT: Final = 4
_YAML_WIDTH: Final = 80
_LONGEST_TEMPLATE: Final = 1024 * 1024
_FORMS: Final = "json, yaml, wide, name, jsonpath=…, jsonpath-file=…, custom-columns=…, custom-columns-file=…"


class Found(NamedTuple):
    """Objects of one resource."""

    resource: ApiResource
    objects: list[JsonObject]


class ObjectPrinter(Protocol):
    """A printer of objects in one form."""

    def show(self, found: Sequence[Found], *, single: bool) -> None:
        """Print objects.

        Args:
            found: the objects of each resource.
            single: whether the command names one object, which is then not put into a list.
        """


def _own_columns(resource: ApiResource) -> Sequence[Column]:
    return columns_of(resource.key_kind)


class TablePrinter:
    """A printer of tables; a blank line and a head of its own for each resource.

    Args:
        options: which columns there are.
        writer: prints the rows.
        columns_for: is asked once for each resource.
        headers: whether there is a head.
    """

    def __init__(
        self,
        options: TableOptions,
        writer: TableWriter,
        columns_for: ColumnsOf,
        *,
        headers: bool = True,
    ) -> None:
        self._options = options
        self._writer = writer
        self._headers = headers
        self._last: ApiResource | None = None
        self._columns: dict[ApiResource, Sequence[Column]] = {}
        self._columns_for = columns_for

    def show(self, found: Sequence[Found], *, single: bool) -> None:  # noqa: ARG002 - as the other forms
        """Print a table for each resource; a further call goes on with the same table."""
        for resource, objects in found:
            if objects:
                self._show(resource, objects, "")

    def show_changes(self, resource: ApiResource, objects: list[JsonObject], event: str = "") -> None:
        """Print the rows of changed objects, aligned with each other; with `event`, the kind of the change comes
        first.
        """
        if objects:
            self._show(resource, objects, event)

    def _show(self, resource: ApiResource, objects: list[JsonObject], event: str) -> None:
        options = self._options._replace(namespaces=self._options.namespaces and resource.namespaced)
        if resource not in self._columns:
            self._columns[resource] = self._columns_for(resource)
        head, rows = layout(self._columns[resource], objects, time.time(), options, resource.shown(""))
        if event:
            head, rows = ["EVENT", *head], [[event, *row] for row in rows]
        new = resource != self._last
        if new and self._last is not None:
            print_lines([""])
            self._writer.start_over()
        self._last = resource
        self._writer.write(head, rows, with_head=new and self._headers)


class _Names:
    def show(self, found: Sequence[Found], *, single: bool) -> None:  # noqa: ARG002
        print_lines(resource.shown(_name(obj)) for resource, objects in found for obj in objects)


class _Documents:
    """JSON, YAML, and other formats that print one document: the object, or a list."""

    def __init__(self, show_document: Callable[[JsonObject], None], *, managed_fields: bool) -> None:
        self._show_document = show_document
        self._managed_fields = managed_fields

    def show(self, found: Sequence[Found], *, single: bool) -> None:
        objects = [self._shown(obj) for each in found for obj in each.objects]
        if single and objects:
            self._show_document(objects[0])
        elif not single:
            self._show_document(
                {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
            )

    def _shown(self, obj: JsonObject) -> JsonObject:
        metadata = map_at(obj, "metadata")
        if self._managed_fields or "managedFields" not in metadata:
            return obj
        return obj | {"metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


class _CustomColumns:
    """Tables of one's own columns; the rows of a watch follow without a head."""

    def __init__(self, columns: Sequence[CustomColumn], *, headers: bool) -> None:
        self._columns = columns
        self._headers = headers

    def show(self, found: Sequence[Found], *, single: bool) -> None:  # noqa: ARG002
        objects = [obj for each in found for obj in each.objects]
        print_lines(table_of(self._columns, objects, headers=self._headers))
        self._headers = False


def printer_of(chosen: Any, columns_for: ColumnsOf = _own_columns) -> ObjectPrinter:
    """Return the printer of `-o`, a table where no form is chosen.

    Args:
        chosen: `output`, and where the verb has them `no_headers`, `template` and the options of tables.
        columns_for: of the table.

    Raises:
        UsageError: an unknown form, or a wrong template.
    """
    form, equals, template = str(chosen.output).partition("=")
    if form in ("", "wide"):
        return _table_printer(chosen, columns_for)
    headers = not getattr(chosen, "no_headers", False)
    if form == "name":
        return _Names()
    if form in ("custom-columns", "custom-columns-file"):
        spec = _template(form, template, equals)
        return _CustomColumns(read_columns_file(spec) if form.endswith("file") else read_columns(spec), headers=headers)
    show = _document_printer(form, template, equals, getattr(chosen, "template", ""))
    return _Documents(show, managed_fields=getattr(chosen, "show_managed_fields", False))


def _table_printer(chosen: Any, columns_for: ColumnsOf) -> TablePrinter:
    """Return the printer of the table that the options describe."""
    labels = [name for text in getattr(chosen, "label_columns", ()) for name in text.split(",") if name]
    options = TableOptions(
        wide=chosen.output == "wide",
        namespaces=getattr(chosen, "all_namespaces", False),
        labels=getattr(chosen, "show_labels", False),
        label_columns=tuple(labels),
        kinds=getattr(chosen, "show_kind", False),
    )
    cut = chosen.output != "wide" and not getattr(chosen, "no_trunc", False)
    writer = TableWriter(getattr(chosen, "color", "auto"), cut=cut)
    return TablePrinter(options, writer, columns_for, headers=not getattr(chosen, "no_headers", False))


def print_result(chosen: Any, resource: ApiResource, obj: JsonObject, done: str) -> None:
    """Print the result of a verb for an object: `pod/web labeled`, or the object in the form of `-o`.

    Args:
        chosen: `output`, and where the verb has it `dry_run`.
        resource: the object's resource.
        obj: the object as it is now.
        done: one word: `labeled`.
    """
    if chosen.output:
        printer_of(chosen).show([Found(resource, [obj])], single=True)
    else:
        print_text(f"{resource.shown(_name(obj))} {done}{DRY_RUN[getattr(chosen, 'dry_run', 'none')]}")


DRY_RUN: Final = {"none": "", "client": " (dry run)", "server": " (server dry run)"}
"""The text that is appended to a result for each value of `--dry-run`."""


def _document_printer(form: str, template: str, equals: str, given: str) -> Callable[[JsonObject], None]:
    match form:
        case "json":
            return lambda obj: print_json(msgspec.json.encode(obj, order="sorted"), indent=_INDENT)
        case "yaml":
            return _show_yaml
        case "jsonpath" | "jsonpath-file" | "jsonpath-as-json":
            text = _template(form, template or given, equals or given)
            path, as_json = JsonPath(text), form == "jsonpath-as-json"
            return _writing(lambda obj: path.render(obj, as_json=as_json))
        case "go-template" | "go-template-file" | "template" | "templatefile":
            raise UsageError("there are no Go templates here; -o jsonpath=… and -o custom-columns=… say the same")
    raise UsageError(
        f'unable to match a printer suitable for the output format "{form}", allowed formats are: {_FORMS}'
    )


def _writing(text_of: Callable[[JsonObject], str]) -> Callable[[JsonObject], None]:
    """Return a function that writes a text unchanged, like kubectl; on a terminal the prompt gets its own line."""

    def write(obj: JsonObject) -> None:
        text = printable_lines(text_of(obj))
        sys.stdout.write(f"{text}\n" if text and not text.endswith("\n") and sys.stdout.isatty() else text)

    return write


def _template(form: str, template: str, equals: str) -> str:
    """Return the template, read from the file that it names for the forms that end in `file`."""
    if not (equals and template):
        raise UsageError(f"{form} format specified but no template given: -o {form}=…")
    if not form.endswith("file"):
        return template
    try:
        with Path(template).open("rb") as stream:
            return stream.read(_LONGEST_TEMPLATE).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise KubectlError(f"error reading {template}: {error}") from error


def _show_yaml(obj: JsonObject) -> None:
    from modules.kubectl.yaml_text import yaml_text  # noqa: PLC0415 - PyYAML takes longer than most commands

    sys.stdout.write(yaml_text(obj, _YAML_WIDTH))


def _name(obj: JsonObject) -> str:
    return text_at(obj, "metadata.name")
