"""`describe`: shows objects with their related objects."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.pods.objects import ENDED
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.apimachinery.printing.terminal import print_text
from modules.cli.errors import KubectlError, StatusError, UnreachableError
from modules.kubectl import arguments
from modules.kubectl.resources import Listing, ObjectRef, find, objects_of
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modules.cli.parser import VerbParser
    from modules.kubectl.describers.common import Related

_WITHOUT_EVENTS: Final = ("Secret",)
_LEASES: Final = "kube-node-lease"


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser, "TYPE, TYPE NAME-PREFIX…, TYPE/NAME…, TYPE1,TYPE2")
    arguments.add_namespace(parser)
    arguments.add_selectors(parser, fields=False)
    arguments.add_files(parser)
    parser.flag("--show-events", default=True, text="show the events about each object (default: true)")


def run(session: Session, chosen: Any) -> int:
    """Describe the objects; return 1 when one is not there."""
    from modules.kubectl.describers.kinds import describe_object  # noqa: PLC0415 - `add` imports nothing heavy

    wanted = find(session, chosen, verb="describe")
    found, errors = _found(session, wanted)
    related = _RelatedObjects(session, events=chosen.show_events)
    between = ""
    for obj in found:
        print_text(between + describe_object(obj, related.of(obj), time.time()).removesuffix("\n"))
        between = "\n\n"
    if not found and not errors:
        where = "" if session.all_namespaces else f" in {session.namespace} namespace."
        session.print_remark(f"No resources found{where if any(each.resource.namespaced for each in wanted) else ''}")
    return report(session, errors)


def _found(session: Session, wanted: Sequence[ObjectRef | Listing]) -> tuple[list[JsonObject], list[KubectlError]]:
    """Return the objects; a name that no object has is taken as the beginning of names."""
    found: list[JsonObject] = []
    errors: list[KubectlError] = []
    for each in wanted:
        try:
            found += objects_of(session, each)[0] if isinstance(each, Listing) else _named(session, each)
        except StatusError as error:
            errors.append(error)
    return found, errors


def _named(session: Session, ref: ObjectRef) -> list[JsonObject]:
    try:
        return [session.client.get(ref.path)]
    except StatusError as error:
        if not error.is_not_found:
            raise
        objects, _ = objects_of(session, Listing(ref.resource, ref.namespace))
        found = [obj for obj in objects if text_at(obj, "metadata.name").startswith(ref.name)]
        if not found:
            raise
        return found


class _RelatedObjects:
    """The related objects of an object; those that the server does not have or refuses are left out."""

    def __init__(self, session: Session, *, events: bool) -> None:
        self._session = session
        self._events = events

    def of(self, obj: JsonObject) -> Related:
        """Return the related objects that the description of an object shows."""
        from modules.apimachinery.kinds import key_kind  # noqa: PLC0415 - as in `run`
        from modules.kubectl.describers.common import Related, events_about  # noqa: PLC0415

        kind, name, namespace = key_kind(obj), *(text_at(obj, f"metadata.{field}") for field in ("name", "namespace"))
        related = Related()
        if self._events and kind not in _WITHOUT_EVENTS:
            events = self._list("events", namespace, f"involvedObject.name={name}")
            if events is not None:
                related = related._replace(events=events_about(events, obj))
        if kind == "Node":
            pods = self._list("pods", "", f"spec.nodeName={name}") or []
            running = [pod for pod in pods if _runs_on(pod, name)]
            return related._replace(pods=running, lease=self._get("leases", _LEASES, name))
        if kind == "PersistentVolumeClaim":
            return related._replace(pods=self._list("pods", namespace, "") or [])
        if kind == "Namespace":
            quotas, limits = (self._list(each, name, "") or [] for each in ("resourcequotas", "limitranges"))
            return related._replace(quotas=quotas, limits=limits)
        if kind == "Service":
            return related._replace(endpoints=self._get("endpoints", namespace, name))
        return related

    def _list(self, word: str, namespace: str, selector: str) -> list[JsonObject] | None:
        try:
            resource = self._session.discovery.one(word)
            query = (("fieldSelector", selector),) if selector else ()
            return objects_of(self._session, Listing(resource, namespace, query))[0]
        except UnreachableError:
            raise
        except KubectlError:
            return None

    def _get(self, word: str, namespace: str, name: str) -> JsonObject | None:
        try:
            return self._session.client.get(self._session.discovery.one(word).path(namespace, name))
        except UnreachableError:
            raise
        except KubectlError:
            return None


def _runs_on(pod: JsonObject, node: str) -> bool:
    return text_at(pod, "spec.nodeName") == node and text_at(pod, "status.phase") not in ENDED
