"""Events in two API groups, and discovery of what is only created: the API as clients see it."""

import json
from typing import Any

import pytest

from modules.apimachinery.event_versions import core_selector, operations_to_core, to_core, to_events
from modules.cloud.client.calls import JSON_PATCH, MERGE
from tests.modules.cloud.apiserver.endpoints.serving import Serving, Watcher

Json = dict[str, Any]

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CORE = "/api/v1/namespaces/default/events"
WHEN = "2026-01-01T00:00:00.000000Z"
ABOUT = {"kind": "Pod", "namespace": "default", "name": "web"}


def event(name: str = "web.1", **fields: Any) -> Json:
    """Return an Event of events.k8s.io/v1, as client-go's newer recorder makes it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": WHEN,
        "reportingController": "example.com/maker",
        "reportingInstance": "maker-1",
        "action": "Making",
        "reason": "Made",
        "regarding": ABOUT,
        "note": "it is made",
        "type": "Normal",
        **fields,
    }


def body(api: Serving, method: str, path: str, *rest: Any, **query: str) -> Json:
    found: Json = json.loads(api.ask(method, path, *rest, **query).body)
    return found


def test_an_event_is_the_same_object_in_both_groups(api: Serving) -> None:
    made = body(api, "POST", EVENTS, event(series={"count": 2, "lastObservedTime": WHEN}))
    assert (made["apiVersion"], made["note"], made["regarding"]) == ("events.k8s.io/v1", "it is made", ABOUT)
    core = body(api, "GET", f"{CORE}/web.1")
    assert (core["apiVersion"], core["message"], core["involvedObject"]) == ("v1", "it is made", ABOUT)
    assert (core["reportingComponent"], core["series"]["count"]) == ("example.com/maker", 2)
    assert core["metadata"]["uid"] == made["metadata"]["uid"]
    assert not {"note", "regarding", "reportingController"} & core.keys()


def test_an_event_of_core_is_read_with_deprecated_fields(api: Serving) -> None:
    old = {
        "metadata": {"name": "old"},
        "involvedObject": ABOUT,
        "reason": "Started",
        "message": "it is started",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:01Z",
        "count": 3,
        "type": "Normal",
    }
    assert api.ask("POST", CORE, old).status == 201
    (read,) = body(api, "GET", EVENTS)["items"]
    assert read["deprecatedSource"] == {"component": "kubelet", "host": "n1"}
    assert (read["deprecatedCount"], read["deprecatedFirstTimestamp"]) == (3, "2026-01-01T00:00:00Z")
    assert (read["deprecatedLastTimestamp"], read["note"]) == ("2026-01-01T00:00:01Z", "it is started")


def test_lists_and_watches_have_the_version_of_their_path(api: Serving) -> None:
    api.ask("POST", EVENTS, event())
    found = body(api, "GET", EVENTS)
    assert (found["kind"], found["apiVersion"]) == ("EventList", "events.k8s.io/v1")
    assert [each["apiVersion"] for each in found["items"]] == ["events.k8s.io/v1"]
    reply = api.reply("GET", EVENTS, watch="true", resourceVersion="0")
    lines = b"".join(reply.pieces(Watcher())).splitlines()  # type: ignore[union-attr]
    reply.done()  # type: ignore[union-attr]
    assert [json.loads(line)["object"]["note"] for line in lines] == ["it is made"]


def test_fields_select_by_the_names_of_the_group(api: Serving) -> None:
    api.ask("POST", EVENTS, event())
    api.ask("POST", EVENTS, event("db.1", regarding={**ABOUT, "name": "db"}))
    for path, fields in (
        (EVENTS, "regarding.kind=Pod,regarding.name=web"),
        (CORE, "involvedObject.name=web"),
        (EVENTS, "regarding.name!=db,reason=Made"),
    ):
        names = [each["metadata"]["name"] for each in body(api, "GET", path, fieldSelector=fields)["items"]]
        assert names == ["web.1"], fields
    assert api.ask("GET", CORE, fieldSelector="regarding.name=web").status == 400
    assert api.watch(EVENTS, Watcher(), fieldSelector="regarding.name=db", resourceVersion="0") == [("ADDED", "db.1")]


def test_a_recorder_counts_a_series_by_a_patch(api: Serving) -> None:
    api.ask("POST", EVENTS, event())
    series = {"series": {"count": 2, "lastObservedTime": WHEN}}
    assert body(api, "PATCH", f"{EVENTS}/web.1", series, MERGE)["series"]["count"] == 2
    operation = [{"op": "replace", "path": "/series/count", "value": 3}]
    assert body(api, "PATCH", f"{EVENTS}/web.1", operation, JSON_PATCH)["series"]["count"] == 3
    assert body(api, "GET", f"{CORE}/web.1")["series"]["count"] == 3


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"eventTime": None}, "eventTime", "Required value"),
        ({"type": "Odd"}, "type", "has invalid value: Odd"),
        ({"deprecatedCount": 1}, "count", "needs to be unset"),
        ({"deprecatedSource": {"component": "a"}}, "source", "needs to be unset"),
        ({"deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"}, "firstTimestamp", "needs to be unset"),
        ({"series": {"count": 1, "lastObservedTime": WHEN}}, "series.count", "should be at least 2"),
        ({"series": {"count": 2}}, "series.lastObservedTime", "Required value"),
        ({"reportingController": ""}, "reportingController", "Required value"),
        ({"reportingInstance": "a" * 129}, "reportingInstance", "can have at most 128 characters"),
        ({"action": ""}, "action", "Required value"),
        ({"reason": ""}, "reason", "Required value"),
        ({"note": "a" * 1025}, "message", "can have at most 1024 characters"),
    ],
)
def test_a_new_event_has_the_rules_of_the_newer_group(api: Serving, fields: Json, field: str, words: str) -> None:
    refusal = body(api, "POST", EVENTS, event(**fields))
    assert refusal["code"] == 422
    assert any(words in each["message"] for each in refusal["details"]["causes"] if each["field"] == field), refusal


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"note": "other"}, "message"),
        ({"regarding": {"name": "db"}}, "involvedObject"),
        ({"reason": "B"}, "reason"),
        ({"series": {"count": 1, "lastObservedTime": WHEN}}, "series.count"),
    ],
)
def test_only_the_series_of_an_event_changes_there(api: Serving, change: Json, field: str) -> None:
    api.ask("POST", EVENTS, event())
    refusal = body(api, "PATCH", f"{EVENTS}/web.1", change, MERGE)
    assert refusal["code"] == 422
    assert [each["field"] for each in refusal["details"]["causes"]] == [field]
    core = {"message" if name == "note" else name: value for name, value in change.items() if name != "regarding"}
    assert api.ask("PATCH", f"{CORE}/web.1", core, MERGE).status == 200, "core/v1 allows it"


def test_a_body_of_the_other_group_is_refused(api: Serving) -> None:
    refusal = body(api, "POST", EVENTS, event(apiVersion="v1"))
    assert (refusal["code"], "does not match the expected API version" in refusal["message"]) == (400, True)


def test_an_event_is_deleted_by_either_group(api: Serving) -> None:
    api.ask("POST", EVENTS, event())
    assert body(api, "DELETE", f"{EVENTS}/web.1")["status"] == "Success"
    assert api.ask("GET", f"{CORE}/web.1").status == 404


def test_a_table_of_events(api: Serving) -> None:
    """kubectl's `get events.events.k8s.io`: the columns of an Event."""
    api.ask("POST", EVENTS, event())
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    newer, older = (json.loads(api.ask("GET", path, accept=accept).body)["rows"] for path in (EVENTS, CORE))
    assert [row["cells"] for row in newer] == [row["cells"] for row in older]
    assert "it is made" in newer[0]["cells"]


def test_discovery_lists_events_and_reviews(api: Serving) -> None:
    groups = {each["name"] for each in body(api, "GET", "/apis")["groups"]}
    assert {"events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"} <= groups
    listed = body(api, "GET", "/apis/authorization.k8s.io/v1")["resources"]
    assert {each["kind"]: (each["namespaced"], each["verbs"]) for each in listed} == {
        "LocalSubjectAccessReview": (True, ["create"]),
        "SelfSubjectAccessReview": (False, ["create"]),
        "SelfSubjectRulesReview": (False, ["create"]),
        "SubjectAccessReview": (False, ["create"]),
    }
    names = [each["name"] for each in body(api, "GET", "/apis/authentication.k8s.io/v1")["resources"]]
    assert names == ["selfsubjectreviews", "tokenreviews"]


def test_openapi_has_the_fields_of_the_group(api: Serving) -> None:
    document = body(api, "GET", "/openapi/v3/apis/events.k8s.io/v1")
    properties = document["components"]["schemas"]["io.k8s.api.events.v1.Event"]["properties"]
    assert {"note", "regarding", "deprecatedCount", "series"} <= properties.keys()
    assert "involvedObject" not in properties


def test_the_conversion_loses_nothing() -> None:
    made = event(deprecatedCount=1, related=ABOUT, unknown={"a": 1})
    assert to_events({**to_core(made), "kind": "Event"}) == made
    assert core_selector("regarding.name=a, reason=b") == "involvedObject.name=a,reason=b"
    operations = [{"op": "move", "from": "/note", "path": "/deprecatedSource/host"}, 7]
    assert operations_to_core(operations) == [{"op": "move", "from": "/message", "path": "/source/host"}, 7]
    assert operations_to_core({"a": 1}) == {"a": 1}
