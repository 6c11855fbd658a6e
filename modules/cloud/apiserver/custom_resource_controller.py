"""CustomResourceDefinitions in the embedded API server: the effects of their changes on objects, and on each other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modules.apimachinery.computed import computed
from modules.apimachinery.kinds import JsonObject, key_of, kind_named
from modules.apimachinery.structural_schema.causes import MOST, InvalidFieldsError
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.validation.objects import validate_metadata
from modules.cloud.apiextensions.admission import CustomAdmission
from modules.cloud.apiextensions.definitions import prepared_definition, with_status
from modules.cloud.apiextensions.kinds import has_its_names, is_established
from modules.cloud.apiextensions.objects import prepared_object
from modules.cloud.apiserver.apply import with_server_fields_removed
from modules.cloud.storage.object_storage import Storage

if TYPE_CHECKING:
    from beehive.clock import Clock

_DEFINITION = kind_named("CustomResourceDefinition")


class CustomResources:
    """Prepares definitions and custom objects for the storage.

    Args:
        storage: all objects.
        clock: for the times of conditions.
        admissions: further rules for objects, by `ObjectKey.kind`.
    """

    def __init__(self, storage: Storage, clock: "Clock", admissions: Mapping[str, CustomAdmission]) -> None:
        self._storage = storage
        self._clock = clock
        self._admissions = admissions

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
            ApiError: it breaks a rule of its kind.
        """
        if obj["kind"] == _DEFINITION.name:
            return computed(prepared_definition, obj, live, self._definitions(), self._now())
        custom = self._storage.kinds.custom_of(obj)
        if custom is None:
            return obj
        made = computed(prepared_object, custom, obj, live)
        admission = self._admissions.get(key_of(made).kind)
        causes = admission(made, live, self._storage.find) if admission is not None else []
        if causes:
            kind = custom.kind
            raise InvalidFieldsError(kind.name, kind.api_group, made["metadata"]["name"], causes[:MOST])
        return made

    def deleting(self, obj: JsonObject) -> None:
        """Remove the custom objects of a definition that is about to be deleted."""
        if obj["kind"] != _DEFINITION.name or not is_established(obj):
            return
        kind = self._storage.kinds.named(f"{obj['spec']['names']['kind']}.{obj['spec']['group']}")
        for each in self._storage.list(kind):
            self._storage.remove(key_of(each))

    def changed(self, obj: JsonObject) -> None:
        """Look again at the definitions whose names were not accepted, after a change of one."""
        if obj["kind"] != _DEFINITION.name:
            return
        for each in self._definitions():
            if not has_its_names(each):
                self._storage.replace(with_status(each, each, self._definitions(), self._now()))

    def _definitions(self) -> list[JsonObject]:
        return self._storage.list(_DEFINITION)

    def _now(self) -> str:
        return format_rfc3339(computed(self._clock.now))
