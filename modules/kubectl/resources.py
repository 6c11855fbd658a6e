"""The objects that the words of a command mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.cli.errors import KubectlError, StatusError, UsageError
from modules.cli.list_parts import list_parts
from modules.kubectl.manifests import read_all
from modules.kubectl.session import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from modules.kubectl.discovery import ApiResource
    from modules.kubectl.session import Session

CHUNK: Final = 500
"""Objects that a list asks for at a time."""


class Words(NamedTuple):
    """The words of a command, before the server has resolved them."""

    types: str
    """Types, with commas between them."""
    names: tuple[str, ...] = ()
    """Names; none for all objects of the types."""


class ObjectRef(NamedTuple):
    """An object that a command names."""

    resource: ApiResource
    namespace: str
    """Empty for an object without a namespace."""
    name: str

    def __str__(self) -> str:
        return self.resource.shown(self.name)

    @property
    def path(self) -> str:
        """Its path in the API."""
        return self.resource.path(self.namespace, self.name)


class Listing(NamedTuple):
    """All objects of a resource that a command means."""

    resource: ApiResource
    namespace: str
    """Empty for all namespaces."""
    query: tuple[tuple[str, str], ...] = ()
    """Selectors."""


def parse_words(words: Sequence[str], command: str = "get") -> list[Words]:
    """Return the types and names in the words of a command.

    Args:
        words: `TYPE`, `TYPE NAME…`, `TYPE1,TYPE2 NAME…` or `TYPE/NAME…`.
        command: the command, for errors: `cloudcore get`.

    Raises:
        UsageError: types and names are mixed.
    """
    if not any("/" in word for word in words):
        return [Words(words[0], tuple(words[1:]))] if words else []
    if any("/" not in word for word in words):
        raise UsageError(
            "there is no need to specify a resource type as a separate argument when passing arguments in "
            f"resource/name form (e.g. '{command} resource/<resource_name>' instead of "
            f"'{command} resource resource/<resource_name>'"
        )
    found = []
    for word in words:
        kind, _, name = word.partition("/")
        if "/" in name:
            raise UsageError("arguments in resource/name form may not have more than one slash")
        if not kind or not name or "," in kind:
            raise UsageError("arguments in resource/name form must have a single resource and name")
        found.append(Words(kind, (name,)))
    return found


def find(session: Session, chosen: Any, *, verb: str = "get") -> list[ObjectRef | Listing]:
    """Return the objects that the arguments mean, by name, or lists of all or selected objects.

    Args:
        session: the session.
        chosen: `words`, and where the verb has them `filename`, `recursive`, `selector`, `field_selector` and `all`.
        verb: the verb, for errors.

    Raises:
        UsageError: the arguments do not fit together.
        KubectlError: an unknown resource, or an unreadable file.
    """
    selector, fields = getattr(chosen, "selector", ""), getattr(chosen, "field_selector", "")
    files = getattr(chosen, "filename", [])
    if files:
        if chosen.words:
            raise UsageError("with -f, no resources are named: leave out " + " ".join(chosen.words))
        if selector or fields:
            raise UsageError("with -f, there is no selector")
        return list(refs_of_files(session, files, recursive=chosen.recursive))
    command = f"{session.program} {verb}"
    words = parse_words(chosen.words, command)
    if not words:
        raise UsageError(
            f"the type of resource to {verb} is missing, such as `{command} pods`; `{session.program} api-resources` "
            "lists them"
        )
    named = any(each.names for each in words)
    _check(session, named=named, selected=bool(selector or fields), everything=getattr(chosen, "all", False))
    query = tuple((key, text) for key, text in (("labelSelector", selector), ("fieldSelector", fields)) if text)
    return [item for each in words for item in _meant(session, each, query)]


def refs_of_files(session: Session, names: Sequence[str], *, recursive: bool) -> Iterator[ObjectRef]:
    """Yield the objects that manifests describe. Raises KubectlError."""
    for manifest in read_all(names, recursive=recursive):
        resource = session.discovery.of_manifest(manifest.api_version, manifest.kind)
        if not manifest.name:
            raise KubectlError(f"{manifest.where}: metadata.name not set")
        yield ref(session, resource, manifest.name, manifest.namespace)


def ref(session: Session, resource: ApiResource, name: str, namespace: str = "") -> ObjectRef:
    """Return an object's reference, in the session's namespace if it names none."""
    return ObjectRef(resource, (namespace or session.namespace) if resource.namespaced else "", name)


def objects_of(session: Session, listing: Listing, chunk: int = CHUNK) -> tuple[list[dict[str, Any]], str]:
    """Return the objects of a list, asked for in parts, and the list's resourceVersion.

    Args:
        session: the session.
        listing: the list to read.
        chunk: objects of one request; 0 asks for all together.
    """
    path = listing.resource.path(listing.namespace)
    kind = {"apiVersion": listing.resource.api_version, "kind": listing.resource.kind}
    items: list[dict[str, Any]] = []
    version = ""
    for page in list_parts(lambda query: session.client.get(path, [*listing.query, *query]), chunk):
        items += [kind | item for item in objects_at(page, "items")]
        version = text_at(page, "metadata.resourceVersion")
    return items, version


def fetch_refs(
    session: Session, wanted: Sequence[ObjectRef | Listing], *, ignore_not_found: bool = False
) -> tuple[list[tuple[ObjectRef, dict[str, Any]]], list[KubectlError]]:
    """Return all objects that exist, each with its reference, and the errors for missing ones.

    Raises:
        UnreachableError: the server does not answer.
    """
    found: list[tuple[ObjectRef, dict[str, Any]]] = []
    errors: list[KubectlError] = []
    for each in wanted:
        try:
            if isinstance(each, ObjectRef):
                found.append((each, session.client.get(each.path)))
            else:
                found += [(ref_of(each.resource, obj), obj) for obj in objects_of(session, each)[0]]
        except StatusError as error:
            if not (ignore_not_found and error.is_not_found):
                errors.append(error)
    return found, errors


def change_each(
    session: Session, refs: Sequence[ObjectRef | Listing], change: Callable[[ObjectRef, JsonObject], object]
) -> int:
    """Change each of some objects, and go on after an error; print the errors, and return the exit status."""
    found, errors = fetch_refs(session, refs)
    for ref, obj in found:
        try:
            change(ref, obj)
        except KubectlError as error:
            errors.append(error)
    return report(session, errors)


def ref_of(resource: ApiResource, obj: dict[str, Any]) -> ObjectRef:
    """Return the reference of an object."""
    return ObjectRef(resource, text_at(obj, "metadata.namespace"), text_at(obj, "metadata.name"))


def _check(session: Session, *, named: bool, selected: bool, everything: bool) -> None:
    if named and selected:
        raise UsageError("name cannot be provided when a selector is specified")
    if named and session.all_namespaces:
        raise UsageError("a resource cannot be retrieved by name across all namespaces")
    if named and everything:
        raise UsageError("name cannot be provided when --all is specified")
    if everything and selected:
        raise UsageError("setting 'all' parameter but found a non empty selector")


def _meant(session: Session, words: Words, query: tuple[tuple[str, str], ...]) -> Iterator[ObjectRef | Listing]:
    for resource in session.discovery.named(words.types):
        if words.names:
            yield from (ref(session, resource, name) for name in words.names)
        else:
            yield Listing(resource, session.list_namespace if resource.namespaced else "", query)
