"""JSONPath templates of kubectl's verbs; their errors are those of commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from modules.apimachinery import jsonpath
from modules.apimachinery.jsonpath_parser import JsonPathError as TemplateError
from modules.cli.errors import KubectlError


class JsonPathError(KubectlError):
    """A template cannot be read, or does not fit the object; the text is kubectl's, in one line."""


def relaxed(expression: str) -> str:
    """Return the template of a path as `--sort-by` and custom columns take it: braces and the first dot may be missing.

    Raises:
        JsonPathError: it has braces elsewhere than around it.
    """
    with _errors():
        return jsonpath.relaxed(expression)


class JsonPath:
    """One template, read once and run on any number of objects.

    Raises:
        JsonPathError: the template does not follow the grammar.
    """

    def __init__(self, template: str) -> None:
        with _errors():
            self._path = jsonpath.JsonPath(template)

    def render(self, obj: Any, *, as_json: bool = False) -> str:
        """Return the text for an object, as `jsonpath.JsonPath.render`. Raises JsonPathError."""
        with _errors():
            return self._path.render(obj, as_json=as_json)

    def values(self, obj: Any) -> list[Any]:
        """Return all results of the template for an object. Raises JsonPathError."""
        with _errors():
            return self._path.values(obj)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except TemplateError as error:
        raise JsonPathError(str(error)) from error
