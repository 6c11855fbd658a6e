"""The stub's control plane: the store, and the few things that API server, scheduler and kubectl do around
it.

Everything that changes objects goes through here, whether a manifest, a command or an edge wants it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from modules.edgecontroller.apply import applied, complete, from_manifest
from modules.edgecontroller.binder import bindings
from modules.edgecontroller.errors import BadRequestError, ConflictError
from modules.edgecontroller.kinds import (
    JsonObject,
    Kind,
    ObjectKey,
    is_being_deleted,
    key_of,
    kind_named,
    reporter_of,
    uid_of,
)
from modules.edgecontroller.merge_schema import schema_of
from modules.edgecontroller.object_rules import check_rules, check_shape
from modules.edgecontroller.pod_lifecycle import grace_for_deletion, is_deletion_complete, with_deletion_begun
from modules.edgecontroller.pod_updates import check_pod_update
from modules.edgecontroller.shapes import check_form
from modules.edgecontroller.store import ObjectStore
from modules.edgecontroller.strategic_merge import merge, merge_plain

if TYPE_CHECKING:
    from beehive.clock import Clock

Admission = Callable[[JsonObject | None, JsonObject | None], None]
"""What a change passes that somebody asks for: the object before (None: it is created) and after (None: deleted). It
raises an ApiError for what must not be."""

_POD = kind_named("Pod")
_NODE = kind_named("Node")
_EVENT = kind_named("Event")
_EVENTS_KEPT = 1000
_KEPT = ("name", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Of the metadata, what a patch of the status does not touch."""
_KEPT_OF_PODS = ("ownerReferences", "finalizers")
"""Likewise (Kubernetes' podStatusStrategy); a node's pod must not begin to belong to somebody by its status."""
_STORAGE = ("PersistentVolumeClaim", "PersistentVolume")


class Outcome(StrEnum):
    """What an apply did; the words are kubectl's."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


class Cluster:
    """The store and its rules. Called by one actor only.

    Args:
        clock: time and uids.
        default_node: where pods go that name no node; empty means: to the only node there is, if there is
        one.
        first_version: see `ObjectStore`.
    """

    def __init__(self, clock: "Clock", default_node: str = "", first_version: int = 1) -> None:
        self.clock = clock
        self.store = ObjectStore(clock, first_version)
        self._default_node = default_node
        self._admission: Admission | None = None

    @contextmanager
    def restricted(self, admission: Admission) -> Iterator[None]:
        """Meanwhile, all that is asked for passes an admission; what the control plane does of itself does not."""
        self._admission = admission
        try:
            yield
        finally:
            self._admission = None

    def apply(self, document: Any) -> tuple[JsonObject, Outcome]:
        """Makes the object as the manifest wants it.

        Raises:
            ApiError: the manifest is refused; nothing has changed.
        """
        manifest = from_manifest(document)
        live = self.store.find(key_of(manifest))
        if live is None:
            made = self._create(applied(manifest, None))
            return self._bound(made), Outcome.CREATED
        if is_being_deleted(live):
            why = "object is being deleted; it can be applied again when it is gone"
            raise ConflictError(kind_named(live["kind"]).plural, live["metadata"]["name"], why)
        new = self.store.replace(self._placed(applied(manifest, live)))
        return self._bound(new), Outcome.UNCHANGED if new is live else Outcome.CONFIGURED

    def _bound(self, obj: JsonObject) -> JsonObject:
        """Gives claims their volumes, as far as the object has changed that; the object as it is then."""
        if obj["kind"] not in _STORAGE:
            return obj
        claims, volumes = (self.store.list(kind_named(kind)) for kind in _STORAGE)
        for changed in bindings(claims, volumes):
            self.store.replace(changed)
        return self.store.get(key_of(obj))

    def create(self, obj: JsonObject) -> JsonObject:
        """Stores a new object that an edge or a person gives whole.

        Raises:
            AlreadyExistsError: there is one of that name.
            BadRequestError: it is not of its kind's form.
            InvalidError: it breaks a rule of its kind.
        """
        check_rules(check_shape(obj))
        self._admit(None, obj)
        return self._create(complete(obj))

    def update(self, obj: JsonObject) -> JsonObject:
        """Replaces an object by what a person gives whole; a pod's status stays, its spec changes where it may.

        Raises:
            NotFoundError: there is no such object.
            ConflictError: it stems from another version of the object than the stored one.
            BadRequestError, InvalidError: it is not of its kind's form, or breaks a rule.
        """
        check_rules(check_shape(obj))
        live, new = self.store.get(key_of(obj)), complete(obj)
        if new["kind"] == _POD.name:
            new = {**new, "status": live.get("status", {})}
            check_pod_update(live, new)
        self._admit(live, new)
        return self._bound(self.store.replace(new))

    def replace(self, obj: JsonObject) -> JsonObject:
        """Stores a new state of an object, which somebody asks for: see `ObjectStore.replace`.

        Raises:
            ApiError: as there, or it is not admitted.
        """
        self._admit(self.store.get(key_of(obj), uid_of(obj)), obj)
        return self.store.replace(obj)

    def patch(self, key: ObjectKey, patch: JsonObject, *, strategic: bool) -> JsonObject:
        """Merges a patch into an object: a strategic one, or a JSON merge patch.

        Raises:
            ApiError: as `update`, or the patch cannot be read.
        """
        live = self.store.get(key)
        merged = merge(live, patch, schema_of(key.kind)) if strategic else merge_plain(live, patch)
        return self.update({**merged, "kind": live["kind"], "apiVersion": live["apiVersion"]})

    def patch_status(self, key: ObjectKey, patch: JsonObject) -> JsonObject:
        """Merges a strategic patch into the object's status (and metadata); the spec stays, as with the
        subresource.

        Raises:
            NotFoundError: there is no such object.
            ConflictError: the patch is for an object of another uid or version.
            BadRequestError: the patch cannot be read.
        """
        live = self.store.get(key)
        merged = merge(live, patch, schema_of(key.kind))
        check_form(merged)
        if "metadata" not in merged:
            raise BadRequestError("the patch takes the object's metadata away")
        merged["spec"] = live.get("spec", {})
        for name in ("kind", "apiVersion"):
            merged[name] = live[name]
        kept = _KEPT if key.kind != _POD.name else (*_KEPT, *_KEPT_OF_PODS)
        merged["metadata"] = {
            **{name: value for name, value in merged["metadata"].items() if name not in kept},
            **{name: value for name, value in live["metadata"].items() if name in kept},
        }
        return self.replace(merged)

    def put_status(self, key: ObjectKey, status: JsonObject) -> JsonObject:
        """Replaces the object's status whole, as edges of 2019 report it.

        A pod that is being deleted and has now ended is gone afterwards.

        Raises:
            NotFoundError: there is no such object.
            BadRequestError: the status is not of the form it should be.
        """
        new = self.replace({**self.store.get(key), "status": status})
        if key.kind == _POD.name and is_deletion_complete(new):
            self.delete(key, grace=0)
        return new

    def delete(self, key: ObjectKey, grace: int | None = None, uid: str = "") -> JsonObject:
        """Deletes an object: a pod on a node when its node has ended it, everything else at once.

        A pod that goes at once is seen once more with no grace left before, also when its deletion had not begun, as an
        API server has it: its node then ends it within kubelet's shortest time, and not within the pod's own.

        Args:
            key: which.
            grace: seconds a pod is given; None means as its spec says, 0 at once.
            uid: when given, only an object of this uid is deleted.

        Raises:
            NotFoundError: there is none.
            ConflictError: its uid is another.
        """
        live = self.store.get(key, uid)
        self._admit(live, None)
        if key.kind != _POD.name:
            return self.store.remove(key)
        seconds = grace_for_deletion(live, grace)
        live = self.store.replace(with_deletion_begun(live, seconds, self.clock.now()))
        return live if seconds else self.store.remove(key)

    def record_event(self, event: JsonObject) -> None:
        """Keeps a Kubernetes Event. Of more than a thousand the oldest goes, of whoever has reported the most.

        Raises:
            ApiError: it is not one.
        """
        check_shape(event)
        key = key_of(event)
        live = self.store.find(key)
        self._admit(live, event)
        if live is None:
            self.store.create(event)
        else:
            self.store.replace(_without_version(event))
        kept = self.store.list(_EVENT)
        if len(kept) > _EVENTS_KEPT:
            self.store.remove(key_of(_oldest_of_the_most(kept)))

    def pods_on(self, node: str) -> list[JsonObject]:
        """The pods of a node."""
        return self.store.select(_POD, lambda pod: bool(pod["spec"].get("nodeName") == node))

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """The objects of a kind."""
        return self.store.list(kind, namespace)

    def _admit(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if self._admission is not None:
            self._admission(old, new)

    def _create(self, obj: JsonObject) -> JsonObject:
        new = self.store.create(self._placed(obj))
        if new["kind"] == _NODE.name:
            self._place_waiting_pods()
        return new

    def _placed(self, obj: JsonObject) -> JsonObject:
        """The object; a pod without a node has one if there is no choice."""
        if obj["kind"] != _POD.name or obj["spec"].get("nodeName"):
            return obj
        node = self._default_node or self._only_node()
        if not node:
            return obj
        placed = deepcopy(obj)
        placed["spec"]["nodeName"] = node
        return placed

    def _only_node(self) -> str:
        nodes = self.store.list(_NODE)
        return str(nodes[0]["metadata"]["name"]) if len(nodes) == 1 else ""

    def _place_waiting_pods(self) -> None:
        for pod in self.store.select(_POD, lambda pod: not pod["spec"].get("nodeName")):
            self.store.replace(self._placed(pod))


def _oldest_of_the_most(events: list[JsonObject]) -> JsonObject:
    reported = Counter(reporter_of(event) for event in events)
    most = max(reported, key=reported.__getitem__)
    of_most = (event for event in events if reporter_of(event) == most)
    return min(of_most, key=lambda event: int(event["metadata"]["resourceVersion"]))


def _without_version(obj: JsonObject) -> JsonObject:
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": meta}
