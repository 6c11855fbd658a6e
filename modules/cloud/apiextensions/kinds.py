"""The kinds that one API server serves: its own ones, and the kinds of its accepted CustomResourceDefinitions."""

import logging
from collections.abc import Mapping, Sequence
from operator import is_not
from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.api_errors import ApiError, UnknownKindError
from modules.apimachinery.conditions import is_true
from modules.apimachinery.kinds import KINDS, JsonObject, Kind, ObjectKey, is_custom, kind_named
from modules.apimachinery.resources import READ_VERBS, SCALE, WRITE_VERBS, Resource
from modules.apimachinery.structural_schema.embedded import has_embedded
from modules.apimachinery.structural_schema.rules import schema_faults
from modules.apimachinery.structural_schema.values import has_defaults
from modules.apimachinery.version_order import preferred_first
from modules.cloud.apiextensions.printer_columns import columns_of
from modules.cloud.apiextensions.scale import ScalePaths, scale_paths
from modules.cloud.apiextensions.selectable_fields import selectable_fields

_log = logging.getLogger(__name__)

_CORE: Final = "v1"
_BY_PATH: Final = {(kind.api_version, kind.plural): kind for kind in KINDS}


class CustomKind(msgspec.Struct, frozen=True):
    """One version of a custom kind."""

    kind: Kind
    resource: Resource
    schema: JsonObject
    stored_version: str
    """The apiVersion of its stored objects."""
    definition: str
    """The name of its CustomResourceDefinition."""
    scale: ScalePaths | None = None
    """Where its replicas are; None without the subresource `scale`."""
    has_embedded: bool = False
    """Whether other objects are inside its own."""

    @property
    def has_status(self) -> bool:
        """Whether the status is a subresource."""
        return "status" in self.resource.subresources


def is_established(definition: JsonObject) -> bool:
    """Return whether the kinds of a CustomResourceDefinition are served."""
    return is_true(definition, "Established")


def has_its_names(definition: JsonObject) -> bool:
    """Return whether the names that a CustomResourceDefinition asks for are its own."""
    return is_true(definition, "NamesAccepted")


def accepted_names(definition: JsonObject) -> JsonObject:
    """Return the names of an established CustomResourceDefinition."""
    names: JsonObject = definition["status"].get("acceptedNames") or definition["spec"]["names"]
    return names


def kinds_of(definition: JsonObject) -> list[CustomKind]:
    """Return the served versions of a valid CustomResourceDefinition, the storage version first."""
    versions = definition["spec"]["versions"]
    stored = next(one["name"] for one in versions if one["storage"])
    served = sorted((one for one in versions if one["served"]), key=lambda one: not one["storage"])
    return [_custom_kind(definition, one, stored) for one in served]


def _custom_kind(definition: JsonObject, version: JsonObject, stored: str) -> CustomKind:
    spec = definition["spec"]
    names, group = accepted_names(definition), spec["group"]
    kind = Kind(
        names["kind"], f"{group}/{version['name']}", names["plural"], spec["scope"] == "Namespaced",
        tuple(names.get("shortNames") or ()), counts_generations=True, is_custom=True,
    )  # fmt: skip
    schema = version["schema"]["openAPIV3Schema"]
    resource = Resource(
        kind=kind.name,
        plural=kind.plural,
        token=names.get("singular") or kind.singular,
        group=group,
        version=version["name"],
        namespaced=kind.namespaced,
        short_names=kind.short_names,
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(
            name for name in (SCALE, "status") if (version.get("subresources") or {}).get(name) is not None
        ),
        verbs=(*READ_VERBS, *WRITE_VERBS, "deletecollection"),
        columns=columns_of(version),
        selectable_fields=selectable_fields(version),
        schema=schema,
        has_defaults=has_defaults(schema),
        watched_as=kind.key_name,
        stored_version=f"{group}/{stored}",
        deprecation=_deprecation(kind, version, spec["versions"]),
    )
    return CustomKind(
        kind,
        resource,
        schema,
        f"{group}/{stored}",
        definition["metadata"]["name"],
        scale_paths(version),
        has_embedded(schema),
    )


def _deprecation(kind: Kind, version: JsonObject, versions: Sequence[JsonObject]) -> str:
    """Return the warning about a deprecated version; of a preferred one that is served and not deprecated, its name."""
    if not version.get("deprecated"):
        return ""
    served = {one["name"] for one in versions if one["served"] and not one.get("deprecated")}
    best = preferred_first({*served, version["name"]})[0]
    better = f"; use {kind.api_group}/{best} {kind.name}" if best in served else ""
    return version.get("deprecationWarning") or f"{kind.api_version} {kind.name} is deprecated{better}"


class _Custom(NamedTuple):
    definitions: list[JsonObject]
    kinds: list[list[CustomKind]]
    """Of each definition; reading them takes as long as to validate it."""
    by_path: dict[tuple[str, str], CustomKind]


class ServedKinds:
    """The kinds of one API server. They follow its stored CustomResourceDefinitions, also after a restart.

    Args:
        definitions: the stored CustomResourceDefinitions by key; changed by the storage.
    """

    def __init__(self, definitions: Mapping[ObjectKey, JsonObject]) -> None:
        self._definitions = definitions
        self._custom = _Custom([], [], {})
        """In one, because several threads read it."""

    def custom(self) -> Mapping[tuple[str, str], CustomKind]:
        """Return the custom kinds by apiVersion and plural."""
        present, found = list(self._definitions.values()), self._custom
        if len(present) != len(found.definitions) or any(map(is_not, present, found.definitions)):
            read = {id(each): kinds for each, kinds in zip(found.definitions, found.kinds, strict=True)}
            kinds = [read[id(each)] if id(each) in read else readable_kinds_of(each) for each in present]
            by_path = {(one.kind.api_version, one.kind.plural): one for each in kinds for one in each}
            found = self._custom = _Custom(present, kinds, by_path)
        return found.by_path

    def custom_at(self, api_version: str, plural: str) -> CustomKind | None:
        """Return the custom kind of a path; None for another one."""
        return None if (api_version, plural) in _BY_PATH else self.custom().get((api_version, plural))

    def at(self, api_version: str, plural: str) -> Kind:
        """Return a kind by its path.

        Raises:
            UnknownKindError: the API server stores no such objects.
        """
        if (kind := _BY_PATH.get((api_version, plural))) is not None:
            return kind
        if (found := self.custom().get((api_version, plural))) is not None:
            return found.kind
        raise UnknownKindError(plural, [*(kind.plural for kind in KINDS), *(of for _, of in self.custom())])

    def custom_of(self, obj: Any) -> CustomKind | None:
        """Return the custom kind of an object; None for another kind."""
        if not isinstance(obj, dict) or obj.get("apiVersion") == _CORE or not isinstance(obj.get("kind"), str):
            return None
        if not is_custom(obj):
            return None
        wanted = (obj["apiVersion"], obj["kind"])
        found = self.custom().values()
        return next((one for one in found if (one.kind.api_version, one.kind.name) == wanted), None)

    def of_object(self, obj: JsonObject) -> Kind:
        """Return the kind of an object.

        Raises:
            UnknownKindError: the API server stores no such objects.
        """
        if not is_custom(obj):
            return kind_named(obj["kind"])
        found = self.custom_of(obj)
        if found is None:
            raise UnknownKindError(str(obj["kind"]), [kind.name for kind in KINDS])
        return found.kind

    def named(self, key_name: str) -> Kind:
        """Return the kind of a key name. A custom kind without a definition has only its name.

        Raises:
            UnknownKindError: the API server stores no such objects.
        """
        name, dot, group = key_name.partition(".")
        if not dot:
            return kind_named(name)
        found = next((one.kind for one in self.custom().values() if one.kind.key_name == key_name), None)
        return found or Kind(name, f"{group}/", name.lower(), is_custom=True)

    def selectable_fields_of(self, key_name: str) -> frozenset[str]:
        """Return the selectable fields of all versions of a custom kind."""
        found = (one for one in self.custom().values() if one.kind.key_name == key_name)
        return frozenset(field for one in found for field in one.resource.selectable_fields)

    def of_key(self, key: ObjectKey) -> Kind:
        """Return the kind of a key."""
        return self.named(key.kind)


def readable_kinds_of(definition: JsonObject) -> list[CustomKind]:
    """Return the kinds of a stored definition; none if it cannot be read: it must not stop a start."""
    try:
        if not is_established(definition):
            return []
        kinds = kinds_of(definition)
        wrong = [cause for kind in kinds for cause in schema_faults(kind.schema, "openAPIV3Schema")]
        why = wrong[0].message if wrong else ""
    except (ApiError, AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError) as error:
        kinds, why = [], f"{type(error).__name__}: {error}"
    if why:
        name = str((definition.get("metadata") or {}).get("name"))[:253]
        _log.warning("the CustomResourceDefinition %s is not served: %s; apply it again", name, why)
        return []
    return kinds
