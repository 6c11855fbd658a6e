"""Definitions that are refused, and the names that a definition gets."""

from collections.abc import Callable
from typing import Any

import pytest

from modules.apimachinery.api_errors import UnknownKindError
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.cloud.apiextensions.calls import in_requested_version
from modules.cloud.apiextensions.definitions import prepared_definition
from modules.cloud.apiextensions.kinds import ServedKinds, kinds_of, readable_kinds_of
from tests.modules.cloud.apiextensions.definition import definition

NOW = "2027-01-15T08:00:00Z"
APPROVED = "metadata.annotations[api-approved.kubernetes.io]"


@pytest.mark.parametrize("spec", [None, [], ["x"], "x", 1, {"versions": 1}, {"names": [], "versions": [1]}])
def test_a_spec_of_another_shape_is_refused_with_its_place(spec: Any) -> None:
    """Of each the client has what is wrong with it."""
    with pytest.raises(InvalidFieldsError) as error:
        prepared_definition({**definition(), "spec": spec}, None, [], NOW)
    assert "spec" in {cause["field"].partition(".")[0] for cause in error.value.details["causes"]}


@pytest.mark.parametrize("given", ["", None, []])
def test_an_empty_name_counts_as_not_given(given: Any) -> None:
    """The server sets it from the kind."""
    made = prepared_definition(definition(singular=given, listKind=given), None, [], NOW)
    names = made["spec"]["names"]
    assert (names["singular"], names["listKind"]) == ("device", "DeviceList")


def test_a_warning_of_a_deprecated_version_says_something() -> None:
    """Without one, the API server has words of its own."""
    made = definition()
    made["spec"]["versions"][0] |= {"deprecated": True, "deprecationWarning": ""}
    with pytest.raises(InvalidFieldsError, match=r'deprecationWarning: Invalid value: "": must not be an empty string'):
        prepared_definition(made, None, [], NOW)


def changed(made: dict[str, Any], *, group: str = "", approval: str = "", **fields: Any) -> dict[str, Any]:
    """Return a definition with other fields of its spec."""
    if group:
        made["metadata"] = {"name": f"devices.{group}", "annotations": {"api-approved.kubernetes.io": approval}}
        fields["group"] = group
    made["spec"] |= fields
    return made


def versions(number: int, names: Callable[[int], str] = lambda at: f"v{at}", **fields: Any) -> list[dict[str, Any]]:
    """Return versions, of which the last is stored."""
    (one,) = definition()["spec"]["versions"]
    properties = one["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties |= {f"f{at}": {"type": "boolean"} for at in range(9)}
    return [{**one, **fields, "name": names(at), "storage": at == number} for at in range(1, number + 1)]


def columns(number: int, **fields: Any) -> list[dict[str, Any]]:
    return versions(1, additionalPrinterColumns=[{"name": "C", "type": "string", "jsonPath": ".a", **fields}] * number)


def fields(number: int) -> list[dict[str, str]]:
    """Return selectable fields; the schema has each."""
    return [{"jsonPath": f".spec.f{at}"} for at in range(number)]


def large_patterns(number: int) -> list[dict[str, Any]]:
    """Return versions with patterns, each of which could be alone, as could those of each version."""
    made = versions(number)
    for version in made:
        texts = {f"p{at}": {"type": "string", "pattern": f"{version['name']}{at}{'a' * 990}"} for at in range(5)}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": texts}}
    return made


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"group": "a." + "b" * 251}, ""),
        ({"group": "a." + "b" * 252}, "spec.group"),
        ({"group": "k8s.io"}, APPROVED),
        ({"group": "myk8s.io"}, ""),
        ({"group": "a.k8s.io", "approval": "see https://example.io/1"}, APPROVED),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
        ({"names": {"kind": "Device", "plural": "devices", "listKind": "Device"}}, "spec.names.listKind"),
        ({"versions": versions(20)}, ""),
        ({"versions": versions(21)}, "spec.versions"),
        ({"versions": versions(2, lambda _: "v1")}, "spec.versions"),
        ({"versions": large_patterns(5)}, ""),
        ({"versions": large_patterns(6)}, "spec.versions[5].schema.openAPIV3Schema.properties[p1].pattern"),
        ({"versions": columns(40)}, ""),
        ({"versions": columns(41)}, "spec.versions[0].additionalPrinterColumns"),
        ({"versions": columns(1, priority=1)}, ""),
        ({"versions": columns(1, priority=True, jsonPath="")}, "spec.additionalPrinterColumns[0]"),
        ({"versions": versions(1, selectableFields=fields(8))}, ""),
        ({"versions": versions(1, selectableFields=fields(9))}, "spec.selectableFields"),
        ({"versions": columns(1, jsonPath=".a" * 500)}, ""),
        ({"versions": columns(1, jsonPath=".a" * 501)}, "spec.additionalPrinterColumns[0].JSONPath"),
    ],
)  # fmt: skip
def test_rules_and_bounds_of_a_definition(fields: Any, wrong: str) -> None:
    made = changed(definition(), **fields)
    if not wrong:
        assert prepared_definition(made, None, [], NOW)["spec"]["group"] == made["spec"]["group"]
        return
    with pytest.raises(InvalidFieldsError) as error:
        prepared_definition(made, None, [], NOW)
    assert error.value.details["causes"][0]["field"] == wrong


def test_the_status_keeps_what_others_have_written_and_each_version_that_was_stored() -> None:
    live = prepared_definition(changed(definition(), versions=versions(3)), None, [], NOW)
    live["status"]["conditions"].append(other := {"type": "Terminating", "status": "False"})
    live["status"]["storedVersions"] = ["v1", "v2", "v3"]
    assert prepared_definition(live, live, [live], NOW)["status"] == live["status"]
    assert other in live["status"]["conditions"]
    for lost in (1, 2):
        kept = [each for each in versions(3) if each["name"] != f"v{lost}"]
        with pytest.raises(
            InvalidFieldsError, match=rf"storedVersions\[{lost - 1}\].*v{lost} was previously a storage"
        ):
            prepared_definition(changed(definition(), versions=kept), live, [live], NOW)


def served(*definitions: dict[str, Any]) -> ServedKinds:
    made = [prepared_definition(each, None, [], NOW) for each in definitions]
    return ServedKinds({ObjectKey("CustomResourceDefinition", "", each["metadata"]["name"]): each for each in made})


def test_kinds_are_found_by_group_and_version() -> None:
    others = changed(definition(), versions=versions(2, selectableFields=[{"jsonPath": ".spec.rate"}]))
    others["spec"]["versions"][1]["selectableFields"] = [{"jsonPath": ".spec.protocol"}]
    kinds = served(definition(group="a.example.io"), others)
    assert [each.resource.version for each in kinds_of(others | {"status": {}})] == ["v2", "v1"], "the stored one first"
    assert kinds.named("Device.devices.example.io").api_version == "devices.example.io/v2"
    assert kinds.selectable_fields_of("Device.devices.example.io") == {"spec.rate", "spec.protocol"}
    assert not kinds.selectable_fields_of("Device.a.example.io")
    of_later = definition("Deployment", "deployments", "apps")
    of_later["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    later = ServedKinds({ObjectKey("CustomResourceDefinition", "", "deployments.apps"): of_later})
    assert later.custom_at("apps/v1", "deployments") is None, "what this API server has now is its own"
    assert not later.at("apps/v1", "deployments").is_custom
    with pytest.raises(UnknownKindError):
        later.at("apps/v1", "machines")


def test_what_is_served_follows_the_stored_definitions() -> None:
    key, made = ObjectKey("CustomResourceDefinition", "", "x"), prepared_definition(definition(), None, [], NOW)
    stored = {key: made}
    kinds = ServedKinds(stored)
    for versions_now, status in ((1, made["status"]), (2, made["status"]), (2, {}), (1, made["status"])):
        stored[key] = changed(definition(), versions=versions(versions_now)) | {"status": status}
        assert len(kinds.custom()) == (versions_now if status else 0)


def test_a_stored_definition_with_one_version_that_cannot_be_read_is_not_served() -> None:
    made = prepared_definition(changed(definition(), versions=versions(2)), None, [], NOW)
    assert len(readable_kinds_of(made)) == 2
    changes: list[dict[str, Any]] = [
        {"schema": {"openAPIV3Schema": {"type": "text"}}},
        {"schema": {}},
        {"storage": False},
        {"additionalPrinterColumns": [{"name": "C", "type": "string"}]},
    ]
    for change in changes:
        at = 1 if "storage" in change else 0
        spoilt = [each | change if place == at else each for place, each in enumerate(made["spec"]["versions"])]
        assert readable_kinds_of(changed(made | {"spec": dict(made["spec"])}, versions=spoilt)) == [], change


GROUP = "devices.example.io"


def test_an_answer_has_the_version_that_was_asked_for_and_the_defaults_that_have_room() -> None:
    """A list of objects that their kind's later defaults would make too large has them as they are stored."""
    many = {"type": "array", "items": {"type": "integer"}, "default": [1] * 20_000}
    made = changed(definition(), versions=versions(2, deprecated=True, deprecationWarning="old"))
    for version in made["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"many": many}}}
    kinds = served(made)
    assert kinds.custom()[f"{GROUP}/v1", "devices"].resource.deprecation == "old"
    stored = {"apiVersion": f"{GROUP}/v2", "kind": "Device", "metadata": {"name": "a"}}
    found = in_requested_version(kinds, f"{GROUP}/v1", "devices", {"kind": "DeviceList", "items": [stored] * 3})
    assert found is not None
    assert [len(each.get("many", ())) for each in found["items"]] == [20_000, 20_000, 0]
    assert {each["apiVersion"] for each in (found, *found["items"])} == {f"{GROUP}/v1"}
    for version, is_made, number in (
        ("v1", True, 20_000),
        ("v1", False, 20_000),
        ("v2", True, 0),
        ("v2", False, 20_000),
    ):
        one = in_requested_version(kinds, f"{GROUP}/{version}", "devices", stored, is_made=is_made)
        assert one is not None
        assert (one["apiVersion"], len(one.get("many", ()))) == (f"{GROUP}/{version}", number)
    for other in ({"apiVersion": "autoscaling/v1", "kind": "Scale"}, {"apiVersion": "v1", "kind": "Status"}):
        assert in_requested_version(kinds, f"{GROUP}/v1", "devices", other) is other
