"""CustomResourceDefinitions in the embedded API server: the effects of their changes on objects, and on each other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.api_errors import MethodNotAllowedError
from modules.apimachinery.computed import computed
from modules.apimachinery.conditions import with_condition
from modules.apimachinery.graceful_deletion import finalizers_of, without_finalizer
from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_for, key_kind, key_of, kind_named
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.validation.invalid_fields import MOST, InvalidFieldsError
from modules.apimachinery.validation.objects import validate_metadata
from modules.cloud.apiextensions.admission import CustomAdmission
from modules.cloud.apiextensions.definitions import prepared_definition, with_status
from modules.cloud.apiextensions.kinds import has_its_names, is_established
from modules.cloud.apiextensions.objects import prepared_object
from modules.cloud.apiserver.apply import with_server_fields_removed
from modules.cloud.apiserver.fields.types import with_read_embedded
from modules.cloud.storage.object_storage import Storage

if TYPE_CHECKING:
    from beehive.clock import Clock

_DEFINITION = kind_named("CustomResourceDefinition")
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that holds a deleted definition until its last custom object is gone (apiextensions-apiserver)."""


class CustomResources:
    """Definitions and custom objects, prepared for the storage.

    Args:
        storage: all objects.
        clock: for the times of conditions.
        admissions: further rules for objects, by `ObjectKey.kind`.
        takes_validations: whether definitions with rules in CEL are stored, though nothing evaluates them.
    """

    def __init__(
        self,
        storage: Storage,
        clock: "Clock",
        admissions: Mapping[str, CustomAdmission],
        *,
        takes_validations: bool = False,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._admissions = admissions
        self._takes = takes_validations

    def from_manifest(self, document: Any) -> JsonObject | None:
        """Return a custom object's manifest, as `apply.from_manifest` does; None for another kind.

        Raises:
            ApiError: it is refused.
        """
        custom = self._storage.kinds.custom_of(document)
        if custom is None:
            return None
        obj = with_server_fields_removed(validate_metadata(document, custom.kind))
        if custom.has_status:
            obj.pop("status", None)
        if custom.kind.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        else:
            obj["metadata"].pop("namespace", None)
        return obj

    def prepared(self, obj: JsonObject, live: JsonObject | None) -> JsonObject:
        """Return a requested object as it is stored; one of another kind unchanged.

        Raises:
            ApiError: it breaks a rule of its kind, or is new and its definition is being deleted.
        """
        if key_kind(obj) == _DEFINITION.name:
            return computed(
                prepared_definition, obj, live, self._definitions(), self._now(), takes_validations=self._takes
            )
        custom = self._storage.kinds.custom_of(obj)
        if custom is None:
            return obj
        if live is None and (definition := self._definition_of(obj)) is not None and is_being_deleted(definition):
            raise MethodNotAllowedError("create not allowed while custom resource definition is terminating")
        if custom.has_embedded:
            obj = computed(with_read_embedded, custom.kind, custom.schema, obj)
        made = computed(prepared_object, custom, obj, live)
        admission = self._admissions.get(key_of(made).kind)
        causes = admission(made, live, self._storage.find) if admission is not None else []
        if causes:
            kind = custom.kind
            raise InvalidFieldsError(kind.name, kind.api_group, made["metadata"]["name"], causes[:MOST])
        return made

    def objects_of(self, obj: JsonObject) -> list[JsonObject]:
        """Return the custom objects of a definition; none of another object."""
        if key_kind(obj) != _DEFINITION.name or not is_established(obj):
            return []
        return self._storage.list(self._storage.kinds.named(f"{obj['spec']['names']['kind']}.{obj['spec']['group']}"))

    def held(self, definition: JsonObject) -> JsonObject:
        """Return a definition that is being deleted, held while it has custom objects; another object unchanged."""
        if key_kind(definition) != _DEFINITION.name:
            return definition
        if not self.objects_of(definition):
            return without_finalizer(definition, CLEANUP)
        if CLEANUP in finalizers_of(definition):
            return definition
        condition = {
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress", "lastTransitionTime": self._now(),
        }  # fmt: skip
        metadata = {**definition["metadata"], "finalizers": [*finalizers_of(definition), CLEANUP]}
        return with_condition({**definition, "metadata": metadata}, condition)

    def emptied(self, gone: JsonObject) -> JsonObject | None:
        """Return the definition that waited for the removal of its last custom object, ready to be removed itself."""
        definition = self._definition_of(gone)
        if definition is None or CLEANUP not in finalizers_of(definition) or self.objects_of(definition):
            return None
        return without_finalizer(definition, CLEANUP) if is_being_deleted(definition) else None

    def _definition_of(self, obj: JsonObject) -> JsonObject | None:
        """Return the definition of a custom object; None for another object."""
        custom = self._storage.kinds.custom_of(obj)
        if custom is None:
            return None
        return self._storage.find(key_for(_DEFINITION, "", f"{custom.kind.plural}.{custom.kind.api_group}"))

    def changed(self, obj: JsonObject) -> None:
        """Look again at the definitions whose names were not accepted, after a change of one."""
        if obj["kind"] != _DEFINITION.name or key_kind(obj) != _DEFINITION.name:
            return
        for each in self._definitions():
            if not has_its_names(each):
                self._storage.replace(with_status(each, each, self._definitions(), self._now()))

    def _definitions(self) -> list[JsonObject]:
        return self._storage.list(_DEFINITION)

    def _now(self) -> str:
        return format_rfc3339(computed(self._clock.now))
