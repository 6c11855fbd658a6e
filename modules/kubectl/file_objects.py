"""The common parts of the verbs that read manifests: `apply`, `create`, `replace` and `diff`."""

from __future__ import annotations

from argparse import SUPPRESS
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.apimachinery.printing.fields import JsonObject, map_at
from modules.cli.errors import KubectlError, StatusError, UnreachableError
from modules.kubectl import arguments
from modules.kubectl.manifests import Manifest, read_each
from modules.kubectl.output import Found, print_result, printer_of
from modules.kubectl.resources import ObjectRef, ref
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from collections.abc import Callable

    from modules.cli.parser import VerbParser
    from modules.kubectl.discovery import ApiResource

    Work = Callable[["FileObject"], tuple[JsonObject, str] | None]
    """A verb's work on one object; it returns the object as it is now, and the result in one word."""

_VALIDATION: Final = {"strict": "Strict", "true": "Strict", "warn": "Warn", "ignore": "Ignore", "false": "Ignore"}


class FileObject(NamedTuple):
    """An object of a manifest, with its place in the API."""

    ref: ObjectRef
    object: JsonObject
    where: str
    """File and line."""


class PlacedError(KubectlError):
    """The error about one object of a file.

    Args:
        error: the error.
        doing: the failed action: `creating`.
        where: file and line.
    """

    def __init__(self, error: KubectlError, doing: str, where: str) -> None:
        super().__init__(str(error), status=error.status)
        self._error = error
        self._doing = doing
        self._where = where

    @property
    def line(self) -> str:
        """The line in kubectl's words, with the place."""
        error = self._error
        if isinstance(error, StatusError) and not (error.reason == "Invalid" and error.details.get("kind")):
            text = f'error when {self._doing} "{self._where}": {error.message}'
            return StatusError(error.code, error.reason, text, error.details).line
        if isinstance(error, StatusError):
            return f"{error.line} ({self._where})"
        return error.line if self._where in error.line else f"error: {self._where}: {error}"


def add_options(parser: VerbParser, *, outputs: bool = True) -> None:
    """Add the options of a verb that reads manifests and writes objects."""
    arguments.add_files(parser)
    arguments.add_namespace(parser, all_too=False)
    if outputs:
        arguments.add_output(parser)
        arguments.add_dry_run(parser)
        parser.add_argument(
            "--validate",
            nargs="?",
            const="strict",
            default="strict",
            choices=tuple(_VALIDATION),
            metavar="strict|warn|ignore",
            help="what an unknown field is: an error, a warning, or nothing (default: strict)",
        )
    parser.add_argument("--field-manager", default="", metavar="NAME", help="who writes it (default: the program)")
    parser.add_argument("-k", "--kustomize", default="", help=SUPPRESS)


def write_query(session: Session, chosen: Any) -> list[tuple[str, str]]:
    """Return the query of a request that writes: who, how strictly, and whether it is only a try."""
    query = [("fieldManager", chosen.field_manager or session.program)]
    query += [("fieldValidation", _VALIDATION[chosen.validate])]
    return [*query, ("dryRun", "All")] if chosen.dry_run == "server" else query


def for_each(session: Session, chosen: Any, verb: str, doing: str, work: Work) -> int:
    """Do a verb's work on each object of the files, and print the results; return 1 when one was refused.

    An object that is refused does not stop the others. A form of output that is one document has all objects in it.

    Args:
        session: the session.
        chosen: `filename`, `recursive` and `namespace`.
        verb: for errors: `apply`.
        doing: for errors: `applying`.
        work: the work; it may raise KubectlError.

    Raises:
        KubectlError: no file is named, or there is no object in them.
        UnreachableError: the server does not answer.
    """
    if chosen.kustomize:
        raise KubectlError(
            f"kustomize is not here: `kubectl kustomize {chosen.kustomize} | {session.program} {verb} -f -` does it"
        )
    if not chosen.filename:
        raise KubectlError("must specify one of -f and -k: `-f FILE|DIR|-` (kustomize is not here)")
    errors: list[KubectlError] = []
    found: list[Found] = []
    count = 0
    for each in read_each(chosen.filename, recursive=chosen.recursive):
        if isinstance(each, KubectlError):
            errors.append(each)
            continue
        count += 1
        try:
            placed = _placed(session, chosen, each, verb)
            result = work(placed)
        except UnreachableError:
            raise
        except KubectlError as error:
            errors.append(PlacedError(error, doing, each.where))
        else:
            found += _shown(chosen, placed.ref.resource, result)
    if found:
        printer_of(chosen).show(found, single=len(found) == 1)
    if not count and not errors:
        raise KubectlError(f"no objects passed to {verb}")
    return report(session, errors)


def _shown(chosen: Any, resource: ApiResource, result: tuple[JsonObject, str] | None) -> list[Found]:
    """Print the result; or return the object, if all objects are to be printed in one document."""
    if result is None:
        return []
    obj, done = result
    if chosen.output not in ("", "name"):
        return [Found(resource, [obj])]
    print_result(chosen, resource, obj, done)
    return []


def live_object(session: Session, wanted: ObjectRef) -> JsonObject | None:
    """Return the object as it is on the server; None without one. Raises KubectlError."""
    try:
        return session.client.get(wanted.path)
    except StatusError as error:
        if error.is_not_found:
            return None
        raise


def with_namespace(obj: JsonObject, namespace: str) -> JsonObject:
    """Return an object with its namespace set; an empty namespace means a cluster-scoped kind."""
    return obj | {"metadata": map_at(obj, "metadata") | {"namespace": namespace}} if namespace else obj


def _placed(session: Session, chosen: Any, manifest: Manifest, verb: str) -> FileObject:
    resource = session.discovery.of_manifest(manifest.api_version, manifest.kind)
    generated = map_at(manifest.object, "metadata").get("generateName")
    if not manifest.name and not (generated and verb == "create"):
        hint = " (generateName is for `create`)" if generated else ""
        raise KubectlError(f"{manifest.where}: resource name may not be empty: metadata.name is missing{hint}")
    if resource.namespaced and chosen.namespace and manifest.namespace not in ("", chosen.namespace):
        raise KubectlError(
            f'{manifest.where}: the namespace from the provided object "{manifest.namespace}" does not match the '
            f"namespace \"{chosen.namespace}\". You must pass '--namespace={manifest.namespace}' to perform this "
            "operation."
        )
    found = ref(session, resource, manifest.name, manifest.namespace)
    return FileObject(found, with_namespace(manifest.object, found.namespace), manifest.where)
