"""The embedded API server, with small parts of the scheduler, kubectl and the volume controller."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from modules.apimachinery.api_errors import BadRequestError, ConflictError
from modules.apimachinery.computed import computed
from modules.apimachinery.conversion import validate_schema
from modules.apimachinery.graceful_deletion import (
    check_finalizers,
    content_finalizers_of,
    finalizers_for_deletion,
    finalizers_of,
    grace_for_deletion,
    is_deletion_over,
    with_deletion_begun,
)
from modules.apimachinery.kinds import (
    JsonObject,
    Kind,
    ObjectKey,
    is_being_deleted,
    key_for,
    key_kind,
    key_of,
    kind_named,
    metadata_of,
    uid_of,
    version_of,
)
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.validation.causes import Causes
from modules.apimachinery.validation.classes import check_class_deletion
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.kinds import Creation, Update
from modules.apimachinery.validation.metadata import content_finalizers, deletion_faults
from modules.apimachinery.validation.objects import (
    check_shape,
    validate_metadata,
    validate_object,
    validate_status,
    validate_update,
)
from modules.apimachinery.validation.statuses import certificate_approval
from modules.cloud.apiextensions.admission import CustomAdmission
from modules.cloud.apiextensions.calls import subresources_of
from modules.cloud.apiextensions.objects import with_new_status
from modules.cloud.apiserver import volume_binder
from modules.cloud.apiserver.admission.chain import AdmissionChain, Plugin
from modules.cloud.apiserver.admission.namespace_room import check_room
from modules.cloud.apiserver.apply import applied, from_manifest, shaped, with_distinct_owners
from modules.cloud.apiserver.custom_resource_controller import CustomResources
from modules.cloud.apiserver.event_registry import EventRegistry, event_about
from modules.cloud.apiserver.field_manager.last_applied import with_last_applied
from modules.cloud.apiserver.field_manager.managed_fields import Manager, with_entries, with_kept_times
from modules.cloud.apiserver.field_manager.shapes import SchemaShape, shape_of
from modules.cloud.apiserver.field_manager.tracking import Tracking
from modules.cloud.apiserver.fields.types import with_read_embedded, with_stored_quantities
from modules.cloud.apiserver.kind_defaults import as_created, as_updated, with_decoded_defaults
from modules.cloud.apiserver.namespaces import (
    being_terminated,
    check_deletion,
    finalized,
    terminating,
    with_stored_state,
)
from modules.cloud.apiserver.node_lifecycle import NodeLifecycle
from modules.cloud.apiserver.pod_scheduler import PodScheduler, Scheduling
from modules.cloud.apiserver.quotas.ledger import QuotaLedger
from modules.cloud.apiserver.reconciler import OneOfMany
from modules.cloud.apiserver.service_addresses import ServiceRanges, with_addresses, with_kept_addresses
from modules.cloud.apiserver.service_addresses import service_ranges as default_ranges
from modules.cloud.apiserver.strategies import with_approval, with_changed_status, with_kept_fields
from modules.cloud.apiserver.tokens.issuer import TokenIssuer
from modules.cloud.apiserver.workload_defaults import with_job_selector
from modules.cloud.storage.object_meta import prepared_for_update
from modules.cloud.storage.object_storage import Storage, check_version
from modules.cloud.storage.preview import StoragePreview

if TYPE_CHECKING:
    from beehive.clock import Clock


Admission = Callable[[JsonObject | None, JsonObject | None], None]
"""Checks a requested change: the object before (None: it is created) and after (None: it is deleted). Raises an
ApiError to refuse it."""

_Track = Callable[[JsonObject | None, JsonObject], JsonObject]

_POD = kind_named("Pod")
_NODE = kind_named("Node")
_EVENT = kind_named("Event")
_NAMESPACE = kind_named("Namespace")
_SERVICE = kind_named("Service")
_CLAIM = kind_named(volume_binder.CLAIM)
_JOB = "Job"
_OF_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")


class ApplyOutcome(StrEnum):
    """The outcome of an apply, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


class Cluster:
    """The embedded API server: the storage with validation, admission, defaults, and binding of pods and volumes.

    All changes of objects go through it, whether by manifests, commands or nodes. For one actor only.

    Args:
        clock: time and uids.
        scheduling: of pods without a node.
        storage: has the objects; None for an empty one.
        admissions: of custom kinds, by `ObjectKey.kind`.
        plugins: the admission plug-ins that are asked about created and updated objects.
        service_ranges: of the addresses and node ports of Services; None: Kubernetes' own.
        tokens: issues the tokens of service accounts; None: with keys in memory.
        room: bytes of memory that the objects of a namespace may take; None: any number.
        takes_validations: whether definitions with rules in CEL are stored, though nothing evaluates them.
    """

    def __init__(
        self,
        clock: "Clock",
        scheduling: Scheduling = Scheduling(),  # noqa: B008 - immutable
        storage: Storage | None = None,
        admissions: Mapping[str, CustomAdmission] | None = None,
        *,
        plugins: Sequence[Plugin] = (),
        service_ranges: ServiceRanges | None = None,
        tokens: TokenIssuer | None = None,
        room: int | None = None,
        takes_validations: bool = False,
    ) -> None:
        self.clock = clock
        self._room = room
        self._has_quotas = False
        """Whether the objects of the present request count for quotas."""
        self.tokens = tokens or TokenIssuer()
        self._service_ranges = service_ranges or default_ranges()
        self._admissions = admissions or {}
        self._plugins = plugins
        self.storage = Storage(clock) if storage is None else storage
        self._chain = AdmissionChain(self.storage, plugins)
        self.quotas = QuotaLedger(self.storage, clock)
        """What objects count for in their namespaces' ResourceQuotas; handles all changes."""
        self._takes_validations = takes_validations
        self._custom = CustomResources(self.storage, clock, self._admissions, takes_validations=takes_validations)
        self._events = EventRegistry(self.storage)
        self.scheduler = PodScheduler(self.storage, self._events, clock, scheduling, self.delete)
        self.node_lifecycle = NodeLifecycle(self.storage, self._events, clock)
        """Marks silent nodes, and taints those under pressure."""
        self.one_of_many = OneOfMany()
        self.admission: Admission | None = None
        """Checks the changes of the present request; None: of the control plane, or an administrator."""
        self._track: _Track = _with_stored_managers
        """Notes the field managers of an object, before it is stored."""

    def preview(self) -> "Cluster":
        """Return a cluster with the present objects for another thread, whose first write ends with a PreviewError."""
        return Cluster(
            self.clock, Scheduling(is_enabled=False), StoragePreview(self.storage), self._admissions,
            plugins=self._plugins, service_ranges=self._service_ranges, tokens=self.tokens,
            takes_validations=self._takes_validations,
        )  # fmt: skip

    @contextmanager
    def with_admission(self, admission: Admission) -> Iterator[None]:
        """Apply an admission to the requests made in the context; not to the control plane's own changes."""
        self.admission = admission
        try:
            yield
        finally:
            self.admission = None

    @contextmanager
    def within_quotas(self) -> Iterator[None]:
        """Refuse what exceeds a quota in the context. What the control plane makes itself is not refused, and nodes
        have accounts of their own.
        """
        self._has_quotas = True
        try:
            yield
        finally:
            self._has_quotas = False

    def _check_admitted(self, key: ObjectKey, new: JsonObject, live: JsonObject | None = None) -> None:
        """Ask the plug-ins about an object that keeps the rules of its kind, and then the quotas.

        Raises:
            ApiError: it is refused.
        """
        self._chain.validate(key.kind, new, live)
        if self._has_quotas and self._room is not None:
            check_room(self.storage, self._room, key, new, live)
        if self._has_quotas:
            self.quotas.check(key, new, live)

    @contextmanager
    def managed_by(self, manager: Manager) -> Iterator[None]:
        """Note a manager's fields in the objects that are changed in the context; other changes leave them as they
        are.
        """
        self._track = lambda live, new: computed(_updated, self._tracked(new), live, new, manager)
        try:
            yield
        finally:
            self._track = _with_stored_managers

    def _tracked(self, obj: JsonObject) -> "_Tracked":
        custom, kind = self.storage.kinds.custom_of(obj), self.storage.kinds.of_object(obj)
        has_status = "status" in subresources_of(self.storage.kinds, kind)
        now = format_rfc3339(computed(self.clock.now))
        return _Tracked(kind.name, None if custom is None else custom.schema, now, has_status)

    def apply_as(
        self, manager: Manager, config: JsonObject, given: JsonObject | None = None, *, force: bool
    ) -> tuple[JsonObject, ApplyOutcome]:
        """Carry out a server-side apply of an object, or of its status, and return the object with the outcome.

        Args:
            manager: who applies it.
            config: the object, decoded, with what its manager can set.
            given: the object as the manager has sent it; None: as `config`.
            force: whether other managers' values are replaced.

        Raises:
            ApplyConflictError: other managers have set fields to other values, and it is not forced.
            ApiError: it is refused; nothing has changed.
        """
        key = key_of(config)
        live = self.storage.find(key) if manager.subresource == "" else self.storage.get(key)
        if live is not None:
            self._admit(live, live)
        new = computed(_applied, self._tracked(config), live, config, manager, force=force)
        new = computed(with_last_applied, new, given or config, manager)
        self._track = _as_given
        try:
            if live is None:
                return self.create(new), ApplyOutcome.CREATED
            stored = self.update_status(key, new) if manager.subresource else self.update(new)
        finally:
            self._track = _with_stored_managers
        return stored, ApplyOutcome.UNCHANGED if stored is live else ApplyOutcome.CONFIGURED

    def apply(self, document: Any) -> tuple[JsonObject, ApplyOutcome]:
        """Create or updates an object by its manifest, and return it with the outcome.

        Raises:
            ApiError: the manifest is refused; nothing has changed.
        """
        manifest = self._custom.from_manifest(document) or computed(from_manifest, document)
        key = key_of(manifest)
        live = self.storage.find(key)
        wanted = computed(applied, manifest, live)
        if live is None:
            self._check_namespace(key, wanted)
            wanted = self._chain.admitted(key.kind, self._custom.prepared(wanted, None))
            if self.storage.kinds.custom_of(wanted) is None:
                computed(validate_object, wanted)
            self._check_admitted(key, wanted)
            return self._bound(key, self._create(key, wanted), is_new=True), ApplyOutcome.CREATED
        if is_being_deleted(live):
            why = "object is being deleted; it can be applied again when it is gone"
            raise ConflictError(self.storage.kinds.of_object(live).plural, live["metadata"]["name"], why)
        wanted = _with_kept(self._custom.prepared(wanted, live), live)
        wanted = self._chain.admitted(key.kind, wanted, live)
        if self.storage.kinds.custom_of(wanted) is None:
            computed(validate_update, wanted, live)
        self._check_admitted(key, wanted, live)
        wanted = self._addressed(key, wanted, live)
        new = self.storage.replace(self.scheduler.placed(wanted))
        self._custom.changed(new)
        self.scheduler.record_placement(wanted, live, new)
        return self._bound(key, new), ApplyOutcome.UNCHANGED if new is live else ApplyOutcome.CONFIGURED

    def _bound(self, key: ObjectKey, obj: JsonObject, *, is_new: bool = False) -> JsonObject:
        """Bind volumes after a change of a claim or volume, and return the object. An Event says why a new claim
        waits.
        """
        if key.kind not in volume_binder.KINDS:
            return obj
        self._change_volumes(partial(volume_binder.bind_volumes, find=self.storage.find))
        found = self.storage.get(key)
        if is_new and key.kind == volume_binder.CLAIM:
            why = volume_binder.why_unbound(found, self.storage.find, format_rfc3339(self.clock.now()))
            if why is not None:
                self._events.keep(why)
        return found

    def report(self, obj: JsonObject, what: tuple[str, str, str], component: str) -> None:
        """Store an Event about a state of an object (`event_about`)."""
        self._events.keep(event_about(obj, what, component, format_rfc3339(self.clock.now())))

    def update_volume_phases(self) -> None:
        """Note which claims and volumes are available, bound, released or lost, and ask provisioners for volumes."""
        for each in self._change_volumes(volume_binder.changed_phases):
            why = volume_binder.why_lost(each, format_rfc3339(self.clock.now()))
            if why is not None:
                self._events.keep(why)
        self._replace_each(volume_binder.with_provisioners(self.storage.list(_CLAIM), self.storage.find))

    def _change_volumes(
        self, changed: Callable[[list[JsonObject], list[JsonObject]], list[JsonObject]]
    ) -> list[JsonObject]:
        claims, volumes = (self.storage.list(kind_named(kind)) for kind in volume_binder.KINDS)
        return self._replace_each(changed(claims, volumes))

    def _replace_each(self, objects: Iterable[JsonObject]) -> list[JsonObject]:
        """Store new states of objects, and return those that were not refused."""
        stored = []
        for each in objects:
            with self.one_of_many(key_of(each)):
                stored.append(self.storage.replace(each))
        return stored

    def create(
        self, obj: JsonObject, creation: Creation | None = None, uid: str = "", *, is_decoded: bool = False
    ) -> JsonObject:
        """Store a new object with its kind's defaults, and return it.

        Args:
            obj: the object.
            creation: the rules of its creation; None: the rules of its kind.
            uid: its uid; "" is one of the clock's.
            is_decoded: whether `decoded` has returned it, but for its names.

        Raises:
            AlreadyExistsError: an object of that name exists.
            BadRequestError: the object does not have its kind's schema.
            InvalidError: the object breaks a rule of its kind.
        """
        obj = self._shaped(obj, None, is_decoded=is_decoded)
        self._admit(None, obj)
        key = key_of(obj)
        self._check_namespace(key, obj)
        new = as_created(self._track(None, computed(with_decoded_defaults, obj)))
        new = self._chain.admitted(key.kind, new)
        if self.storage.kinds.custom_of(new) is None:
            computed(validate_object, new, creation)
        self._check_admitted(key, new)
        return self._bound(key, self._create(key, new, uid), is_new=True)

    def update(self, obj: JsonObject, changes: Update | None = None, *, is_decoded: bool = False) -> JsonObject:
        """Replace an object, and return it. A status that is a subresource stays. A deletion that has begun goes on,
        and none begins.

        Args:
            obj: the new state.
            changes: the rules of the change; None: the rules of its kind.
            is_decoded: as for `create`.

        Raises:
            NotFoundError: no such object.
            ConflictError: the stored object has another uid or resourceVersion.
            BadRequestError, InvalidError: the object does not have its kind's schema, or breaks a rule.
        """
        key = key_of(obj)
        live = self.storage.get(key, uid_of(obj))
        kind = self.storage.kinds.of_key(key)
        check_version(kind, live, obj)
        obj = self._shaped(obj, live, is_decoded=is_decoded)
        new = computed(with_decoded_defaults, obj)
        new = with_stored_state(new, live) if key.kind == _NAMESPACE.name else _with_kept(new, live)
        new = _with_deletion_of(live, new, kind)
        new = as_updated(self._track(live, with_kept_fields(new, live)))
        self._admit(live, new)
        new = self._chain.admitted(key.kind, new, live)
        if self.storage.kinds.custom_of(new) is None:
            computed(validate_update, new, live, changes)
        check_finalizers(live, new)
        self._check_admitted(key, new, live)
        stored = self.storage.replace(_with_kept_times(self._addressed(key, new, live), live))
        self._custom.changed(stored)
        return self._without_finalizers(self._bound(key, stored))

    def _addressed(self, key: ObjectKey, obj: JsonObject, live: JsonObject | None, uid: str = "") -> JsonObject:
        """Return an object; a Service has its addresses and node ports."""
        if key.kind != _SERVICE.name:
            return obj
        return with_addresses(obj, live, self.storage.service_numbers, self._service_ranges, uid or uid_of(obj))

    def address_services(self) -> None:
        """Give addresses to Services that have none: an older cloudcore has stored them."""
        for service in self.storage.list(_SERVICE):
            with self.one_of_many(key_of(service)):
                self.storage.replace(self._addressed(key_of(service), service, service))

    def _shaped(self, obj: JsonObject, live: JsonObject | None, *, is_decoded: bool = False) -> JsonObject:
        """Return a requested object that has its kind's schema; one of a custom kind as its schema has it."""
        if self.storage.kinds.custom_of(obj) is None:
            obj = computed(check_shape if is_decoded else shaped, obj)
        return with_distinct_owners(self._custom.prepared(obj, live))

    def replace(self, obj: JsonObject, *, is_checked: bool = False) -> JsonObject:
        """Store a new state of an object without validation; see `Storage.replace`.

        Raises:
            ApiError: as there, or the change is not admitted.
        """
        key = key_of(obj)
        return self._replace(key, self.storage.get(key, uid_of(obj)), obj, is_checked=is_checked)

    def _replace(self, key: ObjectKey, live: JsonObject, obj: JsonObject, *, is_checked: bool = False) -> JsonObject:
        """Store a new state of a stored object, as `replace` does. Nothing is asked about metadata that are the stored
        object's own.
        """
        if self.admission is not None:
            self.admission(live, obj)
        if obj["metadata"] is not live["metadata"]:
            check_finalizers(live, obj)
        new = self._track(live, obj)
        if new["metadata"] is not live["metadata"]:
            new = _with_kept_times(new, live)
        stored = self.storage.change(key, live, new, is_checked=is_checked)
        return self._without_finalizers(stored) if "deletionTimestamp" in stored["metadata"] else stored

    def _without_finalizers(self, stored: JsonObject) -> JsonObject:
        """Remove an object that is being deleted and has lost its last finalizer; return its state."""
        return self._removed(stored) if is_deletion_over(stored) else stored

    def _removed(self, obj: JsonObject) -> JsonObject:
        for each in self._custom.objects_of(obj):
            self.storage.remove(key_of(each))
        gone = self.storage.remove(key_of(obj))
        self._custom.changed(gone)
        if (definition := self._custom.emptied(gone)) is not None:
            self._without_finalizers(self.storage.replace(definition))
        return gone

    def update_status(self, key: ObjectKey, new: JsonObject, live: JsonObject | None = None) -> JsonObject:
        """Store status and metadata of a new state of an object; the spec stays, as with the subresource.

        Args:
            key: the object.
            new: its new state.
            live: its present state, if that is known.

        Raises:
            NotFoundError: no such object.
            ConflictError: the new state has another uid or resourceVersion.
            BadRequestError: it does not have its kind's schema, or no metadata.
        """
        live = self.storage.get(key) if live is None else live
        merged = dict(new)
        if (custom := self.storage.kinds.custom_of(live)) is not None:
            managers = metadata_of(new).get("managedFields")
            check_version(custom.kind, live, new)
            if custom.has_embedded:
                live, new = (computed(with_read_embedded, custom.kind, custom.schema, each) for each in (live, new))
            changed = with_entries(computed(with_new_status, custom, live, new), managers)
            self._check_room_of_user(key, changed, live)
            return self.replace(changed)
        validate_schema(merged, live)
        if "metadata" not in merged:
            raise BadRequestError("the patch takes the object's metadata away")
        if metadata_of(merged) is not live["metadata"]:
            check_version(self.storage.kinds.of_key(key), live, merged)
        changed = with_changed_status(merged, live)
        computed(validate_status, changed, live)
        if self._room is not None:
            self._check_room_of_user(key, changed, live)
        if changed["metadata"] is not live["metadata"] and uid_of(changed) != uid_of(live):
            return self.replace(changed)  # a conflict
        stored = self._replace(key, live, changed, is_checked=True)
        self._custom.changed(stored)
        return stored

    def _check_room_of_user(self, key: ObjectKey, new: JsonObject, live: JsonObject) -> None:
        """Check that a namespace has room for a user's status. Others' are written: of the control plane, which cannot
        go on without them, and of nodes, which have accounts of their own.
        """
        if self._room is not None and self._has_quotas and self.admission is not None:
            check_room(self.storage, self._room, key, new, live)

    def update_approval(self, key: ObjectKey, new: JsonObject) -> JsonObject:
        """Store the conditions of a certificate request, as its subresource `approval` sets them.

        Raises:
            NotFoundError: no such request.
            ConflictError: the new state has another uid or resourceVersion.
            InvalidFieldsError: the conditions break a rule.
        """
        live = self.storage.get(key)
        check_version(self.storage.kinds.of_key(key), live, new)
        changed = with_approval(new, live, format_rfc3339(self.clock.now()))
        validate_status(changed, live, certificate_approval)
        return self.replace(changed)

    def replace_status(self, key: ObjectKey, status: JsonObject) -> JsonObject:
        """Replace the object's status.

        Raises:
            NotFoundError: no such object.
            BadRequestError: the status does not have its schema.
        """
        return self.replace({**self.storage.get(key), "status": status})

    def delete(self, key: ObjectKey, grace: int | None = None, uid: str = "", policy: str | None = None) -> JsonObject:
        """Delete an object, and return its last state: a pod on a node gracefully, any other object immediately. One
        with finalizers is marked, and removed when they are gone; a namespace, when its contents are deleted; a
        CustomResourceDefinition, with its last custom object.

        As in an API server, a pod that is removed at once is first updated to a grace period of 0: its node then ends
        it within kubelet's shortest time, and not within the pod's own.

        Args:
            key: the object.
            grace: a pod's grace period in seconds; None: its spec's; 0: immediately; below 0: one second.
            uid: precondition, or "".
            policy: of its dependents (`propagationPolicy`); None: as its finalizers say, or the default of its kind.

        Raises:
            ForbiddenError: it is a namespace or a PriorityClass that stays for ever.
            NotFoundError: no such object.
            ConflictError: the object has another uid.
        """
        check_deletion(key)
        check_class_deletion(key)
        live = self.storage.get(key, uid)
        self._admit(live, None)
        if key.kind == _POD.name:
            return self._delete_pod(live, grace, policy)
        held = _with_finalizers(live, finalizers_for_deletion(live, policy))
        if content_finalizers_of(live):
            return self.storage.replace(terminating(held, format_rfc3339(self.clock.now())))
        for each in self._custom.objects_of(live):
            self._end_custom(each)
        held = self._custom.held(held)
        if not finalizers_of(held):
            return self._removed(live)
        return self.storage.replace(with_deletion_begun(held, 0, self.clock.now()))

    def _end_custom(self, live: JsonObject) -> None:
        """Delete a custom object with its definition; one with finalizers is marked."""
        if is_being_deleted(live):
            return
        if finalizers_of(live):
            self.storage.replace(with_deletion_begun(live, 0, self.clock.now()))
        else:
            self.storage.remove(key_of(live))

    def _delete_pod(self, live: JsonObject, grace: int | None, policy: str | None) -> JsonObject:
        seconds = grace_for_deletion(live, grace)
        begun = with_deletion_begun(live, seconds, self.clock.now())
        if begun is not live:  # an object that stays as it was keeps its finalizers
            begun = _with_finalizers(begun, finalizers_for_deletion(live, policy))
        new = self.storage.replace(begun)
        return new if seconds or finalizers_of(new) else self.storage.remove(key_of(new))

    def finalize_namespace(self, namespace: JsonObject) -> JsonObject:
        """Set the finalizers in a namespace's spec, and nothing else of it; remove it if it was waiting for them.

        Raises:
            NotFoundError: no such namespace.
            ConflictError: the stored one has another uid or resourceVersion.
            InvalidFieldsError: a finalizer is neither Kubernetes' own nor has a domain.
        """
        live = self.storage.get(key_of(namespace), uid_of(namespace))
        content_finalizers(content_finalizers_of(namespace), found := Causes())
        if found:
            raise InvalidFieldsError(_NAMESPACE.name, "", live["metadata"]["name"], found)
        metadata = {**live["metadata"], "resourceVersion": version_of(namespace) or version_of(live)}
        return self.replace({**finalized(live, content_finalizers_of(namespace)), "metadata": metadata})

    def record_event(self, event: JsonObject) -> None:
        """Store a Kubernetes Event. Above a thousand, the oldest of the node that has reported the most is removed.

        Raises:
            ApiError: it is not an Event.
        """
        validate_metadata(event)
        key = key_of(event)
        live = self.storage.find(key)
        self._admit(live, event)
        self._events.keep(event)

    def to_change(self, key: ObjectKey) -> JsonObject:
        """Return an object that the requester may change. Any other requester could learn the object's content from
        whether a patch or a condition fits it.

        Raises:
            NotFoundError: no such object.
            ApiError: a change is not admitted.
        """
        live = self.storage.get(key)
        if self.admission is not None:
            self.admission(live, live)
        return live

    def _admit(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if self.admission is not None:
            self.admission(old, new)

    def _check_namespace(self, key: ObjectKey, obj: JsonObject) -> None:
        """Check that a new object is not in a namespace that is being deleted."""
        namespace = self.storage.find(key_for(_NAMESPACE, "", key.namespace)) if key.namespace else None
        if namespace is not None and is_being_deleted(namespace):
            raise being_terminated(self.storage.kinds.of_object(obj), key)

    def _create(self, key: ObjectKey, obj: JsonObject, uid: str = "") -> JsonObject:
        uid = uid or computed(self.clock.new_id)
        obj = with_job_selector(obj, uid) if key.kind == _JOB else self._addressed(key, obj, None, uid)
        new = self.storage.create(self.scheduler.placed(obj), uid)
        self.scheduler.record_placement(obj, None, new)
        self._custom.changed(new)
        if key.kind == _NODE.name:
            self.scheduler.place_waiting_pods()
        elif key.kind == _EVENT.name:
            self._events.remove_surplus()
        return new


class _Tracked(NamedTuple):
    """Facts of an object that `Tracking` needs."""

    kind: str
    schema: JsonObject | None
    """Of a custom kind."""
    now: str
    has_status: bool

    @property
    def tracking(self) -> Tracking:
        """Its managers."""
        shape = shape_of(self.kind) if self.schema is None else SchemaShape(self.schema, is_root=True)
        return Tracking("" if self.schema is not None else self.kind, shape, self.now, has_status=self.has_status)


def _updated(tracked: _Tracked, live: JsonObject | None, new: JsonObject, manager: Manager) -> JsonObject:
    return tracked.tracking.updated(live, new, manager)


def _applied(
    tracked: _Tracked, live: JsonObject | None, config: JsonObject, manager: Manager, *, force: bool
) -> JsonObject:
    return tracked.tracking.applied(live, config, manager, force=force)


def _with_kept(new: JsonObject, live: JsonObject) -> JsonObject:
    kept = computed(with_stored_quantities, new, live)
    return with_kept_addresses(kept, live) if key_kind(new) == _SERVICE.name else kept


def _with_kept_times(new: JsonObject, live: JsonObject) -> JsonObject:
    """Return a new state of an object with the stored managers if only their times are new: nothing is written."""
    kept = computed(with_kept_times, new, live)
    return kept if kept is not new and prepared_for_update(kept, live) == live else new


def _with_finalizers(obj: JsonObject, finalizers: list[str]) -> JsonObject:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "finalizers"}
    return {**obj, "metadata": {**metadata, "finalizers": finalizers} if finalizers else metadata}


def _with_stored_managers(live: JsonObject | None, new: JsonObject) -> JsonObject:
    """Return a new state of an object with the managers that are stored."""
    stored = None if live is None else live["metadata"].get("managedFields")
    return new if new["metadata"].get("managedFields") is stored else with_entries(new, stored)


def _as_given(_live: JsonObject | None, new: JsonObject) -> JsonObject:
    return new


def _with_deletion_of(live: JsonObject, obj: JsonObject, kind: Kind) -> JsonObject:
    """Return an object that is as far deleted as the stored one, as in an API server.

    Raises:
        InvalidFieldsError: it begins a deletion, or changes its grace period.
    """
    begun = {name: value for name, value in live["metadata"].items() if name in _OF_DELETION}
    others = {name: value for name, value in obj["metadata"].items() if name not in _OF_DELETION}
    causes = deletion_faults(obj["metadata"], live["metadata"])
    if causes:
        raise InvalidFieldsError(kind.name, kind.api_group, live["metadata"]["name"], causes)
    return {**obj, "metadata": {**others, **begun}}
