"""Validation of CustomResourceDefinitions, and their status (apiextensions-apiserver)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from modules.apimachinery.conditions import condition_of, timed
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.apimachinery.served_resources import BUILT_IN, REVIEWS
from modules.apimachinery.structural_schema.rules import has_validations, schema_faults
from modules.apimachinery.structural_schema.values import Steps
from modules.apimachinery.validation.causes import Cause, invalid, required, unsupported
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.names import faults_of_dns_1035_label
from modules.cloud.apiextensions.kinds import accepted_names, is_established
from modules.cloud.apiextensions.printer_columns import path_faults
from modules.cloud.apiextensions.scale import scale_faults
from modules.cloud.apiextensions.selectable_fields import selectable_faults

_KIND: Final = kind_named("CustomResourceDefinition")
_APPROVED: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]")
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_COLUMN_TYPES: Final = ["boolean", "date", "integer", "number", "string"]
_SCOPES: Final = ["Cluster", "Namespaced"]
_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_OF_ONLY_VERSION: Final = (
    ("spec.versions[0].schema.openAPIV3Schema.", "spec.validation.openAPIV3Schema."),
    ("spec.versions[0].subresources.", "spec.subresources."),
    ("spec.versions[0].additionalPrinterColumns[", "spec.additionalPrinterColumns["),
    ("spec.versions[0].selectableFields", "spec.selectableFields"),
)
_NO_NAMES: Final = {"plural": "", "kind": ""}
_MOST_VERSIONS: Final = 20
_MOST_COLUMNS: Final = 40


def prepared_definition(
    obj: JsonObject, live: JsonObject | None, others: Iterable[JsonObject], now: str, *, takes_validations: bool = False
) -> JsonObject:
    """Return a CustomResourceDefinition to store: with its defaults and the status that the server gives it.

    Args:
        obj: the requested definition.
        live: the stored one.
        others: all stored ones.
        now: RFC 3339 time, of changed conditions.
        takes_validations: whether its rules in CEL are stored, though they are not evaluated; those of a stored
            definition that has some are.

    Raises:
        InvalidFieldsError: it breaks rules; the error lists all.
    """
    name = obj["metadata"]["name"]
    takes_validations = takes_validations or (live is not None and has_validations(live))
    try:
        causes = list(_spec_faults(obj, takes_validations=takes_validations)) or list(_change_faults(obj, live))
    except (AttributeError, KeyError, TypeError) as error:
        causes = [invalid("spec", type(error).__name__, "a part of it has the wrong type")]
    if causes:
        raise InvalidFieldsError(_KIND.name, _KIND.api_group, name, list(_at_their_places(causes, obj)))
    spec = obj["spec"]
    names = {"listKind": f"{spec['names']['kind']}List", "singular": spec["names"]["kind"].lower()} | {
        name: word for name, word in spec["names"].items() if word
    }
    made = {**obj, "spec": {"conversion": {"strategy": "None"}, **spec, "names": names}}
    return with_status(made, live, others, now)


def _at_their_places(causes: Iterable[Cause], obj: JsonObject) -> Iterator[Cause]:
    """Yield causes with Kubernetes' paths: what the only version has belongs to the definition itself."""
    spec = obj.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    is_only = isinstance(versions, list) and len(versions) == 1
    for cause in causes:
        field = cause.field
        for before, after in _OF_ONLY_VERSION if is_only else ():
            field = field.replace(before, after, 1) if field.startswith(before) else field
        if ".additionalPrinterColumns[" in field:
            field = field.replace(".jsonPath", ".JSONPath")
        yield msgspec.structs.replace(cause, field=field)


def with_status(obj: JsonObject, live: JsonObject | None, others: Iterable[JsonObject], now: str) -> JsonObject:
    """Return a valid definition with its conditions, accepted names and stored versions. An established one stays so,
    with its former names, when it asks for names that are in use.
    """
    before = (live or {}).get("status") or {}
    reason, why = _conflict(obj, [one for one in others if one["metadata"]["name"] != obj["metadata"]["name"]])
    accepted = not reason
    established = accepted or is_established({"status": before})
    wanted = [
        ("NamesAccepted", accepted, reason or "NoConflicts", why or "no conflicts found"),
        ("Established", established, "InitialNamesAccepted" if established else "NotAccepted",
         "the initial names have been accepted" if established else "not all names are accepted"),
    ]  # fmt: skip
    stored = next(one["name"] for one in obj["spec"]["versions"] if one["storage"])
    status = {
        "conditions": [
            *(_condition({"status": before}, *one, now) for one in wanted),
            *_others(before, [one[0] for one in wanted]),
        ],
        "acceptedNames": obj["spec"]["names"] if accepted else before.get("acceptedNames") or _NO_NAMES,
        "storedVersions": list(dict.fromkeys((*(before.get("storedVersions") or ()), stored))),
    }
    return {**obj, "status": status}


def _others(before: JsonObject, own: list[str]) -> list[JsonObject]:
    """Return the conditions that others have written."""
    return [one for one in before.get("conditions") or () if one.get("type") not in own]


def _condition(live: JsonObject, kind: str, holds: bool, reason: str, message: str, now: str) -> JsonObject:
    made = {"type": kind, "status": str(holds), "reason": reason, "message": message}
    return timed(made, condition_of(live, kind), now)


def _conflict(obj: JsonObject, others: list[JsonObject]) -> tuple[str, str]:
    """Return the reason and the message of a collision of names; both empty without one."""
    spec = obj["spec"]
    names = spec["names"]
    own = [one for one in (*BUILT_IN, *REVIEWS) if one.group == spec["group"]]
    if names["kind"] in {one.kind for one in own}:
        return "KindConflict", f'"{names["kind"]}" is a kind of this API server'
    if names["plural"] in {one.plural for one in own}:
        return "PluralConflict", f'"{names["plural"]}" is a resource of this API server'
    used: dict[str, str] = {}
    for other in others:
        if is_established(other) and other["spec"].get("group") == spec["group"]:
            theirs = accepted_names(other)
            words = (theirs["plural"], theirs.get("singular"), *(theirs.get("shortNames") or ()))
            used |= {word: other["metadata"]["name"] for word in words if word}
            used |= {
                f"kind {word}": other["metadata"]["name"] for word in (theirs["kind"], theirs.get("listKind")) if word
            }
    words = (("PluralConflict", names["plural"]), ("SingularConflict", names.get("singular")),
             ("KindConflict", f"kind {names['kind']}"), ("ListKindConflict", f"kind {names.get('listKind')}"),
             *(("ShortNamesConflict", word) for word in names.get("shortNames") or ()))  # fmt: skip
    for reason, word in words:
        if word in used:
            return reason, f'"{word.removeprefix("kind ")}" is already in use by {used[word]}'
    return "", ""


def _spec_faults(obj: JsonObject, *, takes_validations: bool) -> Iterator[Cause]:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield required("spec")
        return
    group, names, versions = spec.get("group"), spec.get("names"), spec.get("versions")
    if isinstance(names, dict) and obj["metadata"]["name"] != f"{names.get('plural')}.{group}":
        yield invalid("metadata.name", obj["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
    if not isinstance(group, str) or len(group) > 253 or not _GROUP.fullmatch(group):
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield required("spec.scope")
    elif spec["scope"] not in _SCOPES:
        yield unsupported("spec.scope", spec.get("scope"), _SCOPES)
    if not isinstance(names, dict):
        yield required("spec.names")
        return
    yield from _approval_faults(obj, str(group))
    yield from _name_faults(names)
    yield from _option_faults(spec)
    if not isinstance(versions, list) or not versions or len(versions) > _MOST_VERSIONS:
        yield invalid("spec.versions", None, f"must have one version at least and {_MOST_VERSIONS} at most")
        return
    steps = Steps()
    for at, version in enumerate(versions):
        yield from _version_faults(version, f"spec.versions[{at}]", steps, takes_validations=takes_validations)
    if sum(version.get("storage") is True for version in versions) != 1:
        yield invalid("spec.versions", [one.get("name") for one in versions],
                      "must have exactly one version marked as storage version")  # fmt: skip
    if len({version.get("name") for version in versions}) != len(versions):
        yield invalid("spec.versions", [one.get("name") for one in versions], "must contain unique version names")


def _approval_faults(obj: JsonObject, group: str) -> Iterator[Cause]:
    """Yield the fault of a group of Kubernetes' own without the annotation of who has approved it (KEP-1111)."""
    if not _PROTECTED.search(group):
        return
    field, approval = f"metadata.annotations[{_APPROVED}]", (obj["metadata"].get("annotations") or {}).get(_APPROVED)
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not approval:
        yield required(field, f'protected groups must have approval annotation "{_APPROVED}", {see}')
    elif not approval.startswith("unapproved") and not _URL.match(approval):
        why = 'with either a URL or a reason starting with "unapproved"'
        yield invalid(field, approval, f'protected groups must have approval annotation "{_APPROVED}" {why}, {see}')


def _option_faults(spec: dict[str, Any]) -> Iterator[Cause]:
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", spec["preserveUnknownFields"], why)
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        yield unsupported("spec.conversion.strategy", spec["conversion"]["strategy"], ["None"])


def _name_faults(names: dict[str, Any]) -> Iterator[Cause]:
    for field in ("plural", "singular"):
        yield from _label_faults(names.get(field), f"spec.names.{field}", is_needed=field == "plural")
    for field in ("kind", "listKind"):
        word = names.get(field)
        mixed = "may have mixed case, but should otherwise match: "
        yield from _label_faults(word, f"spec.names.{field}", is_needed=field == "kind", before=mixed)
    if names.get("listKind") and names["listKind"] == names.get("kind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for at, word in enumerate(names.get(field) or ()):
            yield from _label_faults(word, f"spec.names.{field}[{at}]", is_needed=True)


def _label_faults(word: Any, path: str, *, is_needed: bool, before: str = "") -> Iterator[Cause]:
    """Yield the faults of a label of RFC 1035; `before` begins the message of a label that may have capitals."""
    if not word:
        if is_needed:
            yield required(path)
    elif not isinstance(word, str):
        yield invalid(path, word, "must be a string")
    else:
        for why in faults_of_dns_1035_label(word.lower() if before else word):
            yield invalid(path, word, f"{before}{why}")


def _version_faults(version: Any, path: str, steps: Steps, *, takes_validations: bool) -> Iterator[Cause]:
    yield from _label_faults(version.get("name"), f"{path}.name", is_needed=True)
    warning = version.get("deprecationWarning")
    if warning is not None and not version.get("deprecated"):
        yield invalid(f"{path}.deprecationWarning", warning, "can only be set for deprecated versions")
    elif warning == "":
        yield invalid(f"{path}.deprecationWarning", warning, "must not be an empty string")
    for flag in ("served", "storage"):
        if not isinstance(version.get(flag), bool):
            yield required(f"{path}.{flag}")
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    else:
        place = f"{path}.schema.openAPIV3Schema"
        yield from schema_faults(schema, place, steps, takes_validations=takes_validations)
    if (scale := (version.get("subresources") or {}).get("scale")) is not None:
        yield from scale_faults(scale, f"{path}.subresources.scale")
    if version.get("selectableFields"):
        yield from selectable_faults(version["selectableFields"], schema, f"{path}.selectableFields")
    columns = version.get("additionalPrinterColumns") or []
    if len(columns) > _MOST_COLUMNS:
        yield invalid(f"{path}.additionalPrinterColumns", len(columns), f"at most {_MOST_COLUMNS} are possible")
    for at, column in enumerate(columns[:_MOST_COLUMNS]):
        yield from _column_faults(column, f"{path}.additionalPrinterColumns[{at}]")


def _column_faults(column: Any, path: str) -> Iterator[Cause]:
    if not isinstance(column.get("name"), str) or not column["name"]:
        yield required(f"{path}.name")
    why = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("type"):
        yield required(f"{path}.type", why)
    elif column["type"] not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", column["type"], why)
    if column.get("format") and column["format"] not in _FORMATS:
        yield invalid(f"{path}.format", column["format"], f"must be one of {','.join(_FORMATS)}")
    if type(column.get("priority", 0)) is not int or not isinstance(column.get("description", ""), str):
        yield invalid(path, column, "priority is a whole number and description is text")
    if not column.get("jsonPath"):
        yield required(f"{path}.jsonPath")
        return
    for why in path_faults(str(column["jsonPath"])):
        yield invalid(f"{path}.jsonPath", column["jsonPath"], why)


def _change_faults(obj: JsonObject, live: JsonObject | None) -> Iterator[Cause]:
    if live is None:
        return
    new, old = obj["spec"], live["spec"]
    for field in ("group", "scope"):
        if new[field] != old[field]:
            yield invalid(f"spec.{field}", new[field], "field is immutable")
    if new["names"]["kind"] != old["names"]["kind"]:
        yield invalid("spec.names.kind", new["names"]["kind"], "field is immutable")
    known = {version["name"] for version in new["versions"]}
    for at, version in enumerate((live.get("status") or {}).get("storedVersions") or ()):
        if version not in known:
            why = f"missing from spec.versions; {version} was previously a storage version, and must remain in it"
            yield invalid(f"status.storedVersions[{at}]", version, why)
