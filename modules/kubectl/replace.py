"""`replace`: writes objects as manifests have them, without the fields of the live ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.fields import JsonObject, map_at, text_at
from modules.apimachinery.printing.terminal import print_lines
from modules.cli.errors import KubectlError, StatusError, TimedOutError
from modules.kubectl import file_objects
from modules.kubectl.durations import end_of
from modules.kubectl.watching import states

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser
    from modules.kubectl.file_objects import FileObject
    from modules.kubectl.session import Session

_LONGEST_WAIT: Final = "5m"


def add(parser: VerbParser) -> None:
    """Add the options."""
    file_objects.add_options(parser)
    parser.flag("--force", text="delete the object immediately and create it again, where a field cannot be changed")
    parser.flag("--cascade")


def run(session: Session, chosen: Any) -> int:
    """Replace every object; return 1 when one was refused."""
    work = _recreate if chosen.force and chosen.dry_run == "none" else _replace
    return file_objects.for_each(session, chosen, "replace", "replacing", partial(work, session, chosen))


def _replace(session: Session, chosen: Any, wanted: FileObject) -> tuple[JsonObject, str]:
    live = session.client.get(wanted.ref.path)
    after = wanted.object
    if chosen.dry_run != "client":
        body = _with_version(after, text_at(live, "metadata.resourceVersion"))
        after = session.client.request("PUT", wanted.ref.path, file_objects.write_query(session, chosen), body)
    return after, "replaced"


def _recreate(session: Session, chosen: Any, wanted: FileObject) -> tuple[JsonObject, str]:
    live = file_objects.live_object(session, wanted.ref)
    if live is not None:
        _delete(session, wanted, text_at(live, "metadata.uid"))
    metadata = {
        key: value for key, value in map_at(wanted.object, "metadata").items() if key not in ("uid", "resourceVersion")
    }
    query = file_objects.write_query(session, chosen)
    path = wanted.ref.resource.path(wanted.ref.namespace)
    after = session.client.request("POST", path, query, wanted.object | {"metadata": metadata})
    return after, "replaced"


def _delete(session: Session, wanted: FileObject, uid: str) -> None:
    """Delete the object with this UID, and wait until it is deleted."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
    try:
        session.client.request("DELETE", wanted.ref.path, (), options)
    except StatusError as error:
        if not error.is_not_found:
            raise
    print_lines([f'{wanted.ref.resource.singular} "{wanted.ref.name}" deleted'])
    try:
        for obj in states(session, wanted.ref, ends=end_of(_LONGEST_WAIT)):
            if obj is None or text_at(obj, "metadata.uid") != uid:
                return
    except TimedOutError as error:
        raise KubectlError(f"{wanted.ref} is not gone after {_LONGEST_WAIT}: the node has not ended it yet") from error


def _with_version(obj: JsonObject, version: str) -> JsonObject:
    metadata = map_at(obj, "metadata")
    return obj | {"metadata": {"resourceVersion": version} | metadata}
