"""The Kubernetes API over HTTP, request by request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edged.server.responses import Response
from tests.modules.cloud.apiserver.endpoints.serving import MAPS, PODS, Serving, Watcher
from tests.modules.cloud.objects import configmap, pod


@pytest.fixture
def api() -> Serving:
    return Serving()


def body_of(response: Response) -> Any:
    return json.loads(response.body)


def test_discovery(api: Serving) -> None:
    assert body_of(api.ask("GET", "/api"))["versions"] == ["v1"]
    groups = [group["name"] for group in body_of(api.ask("GET", "/apis"))["groups"]]
    core = ["apiextensions", "certificates", "coordination", "discovery", "storage"]
    assert groups == [f"{group}.k8s.io" for group in core]
    resources = {entry["name"]: entry for entry in body_of(api.ask("GET", "/api/v1"))["resources"]}
    pods = resources["pods"]
    assert (pods["singularName"], pods["shortNames"], pods["categories"]) == ("pod", ["po"], ["all"])
    assert {"list", "watch", "deletecollection", "patch"} <= set(pods["verbs"])
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert not resources["nodes"]["namespaced"]
    assert body_of(api.ask("GET", "/version"))["gitVersion"] == "v1.32.10-edgecore"
    assert api.ask("GET", "/healthz").body == b"ok"
    assert api.ask("GET", "/apis/apps/v1").status == 404


def test_kubectl_learns_that_fields_are_validated_here(api: Serving) -> None:
    paths = body_of(api.ask("GET", "/openapi/v3"))["paths"]
    document = body_of(api.ask("GET", paths["apis/storage.k8s.io/v1"]["serverRelativeURL"]))
    patch = document["paths"]["/apis/storage.k8s.io/v1/csidrivers/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "CSIDriver"
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert api.ask("GET", "/openapi/v2").status == 404


def test_the_life_of_an_object(api: Serving) -> None:
    made = api.ask("POST", MAPS, configmap("a", x="1"))
    assert (made.status, body_of(made)["metadata"]["namespace"]) == (201, "default")
    assert api.ask("POST", MAPS, configmap("a")).status == 409
    assert body_of(api.ask("GET", f"{MAPS}/a"))["data"] == {"x": "1"}
    replaced = {**body_of(made), "data": {"y": "2"}}
    assert body_of(api.ask("PUT", f"{MAPS}/a", replaced))["data"] == {"y": "2"}
    conflict = api.ask("PUT", f"{MAPS}/a", replaced)
    assert (conflict.status, body_of(conflict)["kind"], body_of(conflict)["reason"]) == (409, "Status", "Conflict")
    gone = body_of(api.ask("DELETE", f"{MAPS}/a"))
    assert (gone["status"], gone["details"]["uid"]) == ("Success", body_of(made)["metadata"]["uid"])
    missing = api.ask("GET", f"{MAPS}/a")
    assert (missing.status, body_of(missing)["message"]) == (404, 'configmaps "a" not found')


def test_a_name_is_generated(api: Serving) -> None:
    wanted = {"metadata": {"generateName": "job-"}, "data": {}}
    names = {body_of(api.ask("POST", MAPS, wanted))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


@pytest.mark.parametrize(
    ("media", "patch", "data"),
    [
        ("application/merge-patch+json", {"data": {"b": "2", "a": None}}, {"b": "2"}),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
        ("application/json-patch+json", [{"op": "replace", "path": "/data/a", "value": "3"}], {"a": "3"}),
        ("application/apply-patch+yaml", b"kind: ConfigMap\nmetadata: {name: a}\ndata: {c: '4'}\n", {"c": "4"}),
        ("application/apply-patch+yaml", b"{kind: ConfigMap, metadata: {name: a}, data: {c: '4'}}", {"c": "4"}),
    ],
)
def test_patches(api: Serving, media: str, patch: Any, data: dict[str, str]) -> None:
    manifest = configmap("a", a="1")
    applied = api.ask("PATCH", f"{MAPS}/a", manifest, "application/apply-patch+yaml", fieldManager="kubectl")
    assert applied.status == 201
    patched = api.ask("PATCH", f"{MAPS}/a", patch, media, fieldManager="kubectl")
    assert (patched.status, body_of(patched)["data"]) == (200, data)


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        ("application/json-patch+json", [{"op": "replace", "path": "/metadata", "value": {"name": "b"}}]),
        ("application/merge-patch+json", {"metadata": {"name": "b", "uid": None, "resourceVersion": None}}),
    ],
)
def test_a_patch_of_one_object_replaces_no_other(api: Serving, media: str, patch: Any) -> None:
    for name in "ab":
        api.ask("POST", MAPS, configmap(name, x=name))
    assert api.ask("PATCH", f"{MAPS}/a", patch, media).status == 400
    assert body_of(api.ask("GET", f"{MAPS}/b"))["data"] == {"x": "b"}


def test_kubectls_annotation_alone_takes_nothing_away(api: Serving) -> None:
    """It applies it as another field manager before its first server-side apply."""
    api.ask("POST", MAPS, configmap("a", a="1"))
    note = {"kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"x": "y"}}}
    media = "application/apply-patch+yaml"
    applied = body_of(api.ask("PATCH", f"{MAPS}/a", note, media, fieldManager="kubectl-last-applied"))
    assert (applied["data"], applied["metadata"]["annotations"]) == ({"a": "1"}, {"x": "y"})


def test_the_status_is_a_subresource(api: Serving) -> None:
    api.ask("POST", PODS, pod())
    media, patch = "application/merge-patch+json", {"status": {"phase": "Running"}, "spec": {"hostNetwork": True}}
    patched = body_of(api.ask("PATCH", f"{PODS}/web/status", patch, media))
    assert (patched["status"]["phase"], patched["spec"].get("hostNetwork")) == ("Running", None)
    assert body_of(api.ask("GET", f"{PODS}/web/status"))["status"]["phase"] == "Running"
    assert api.ask("GET", f"{MAPS}/web/status").status == 400


def test_what_only_the_node_can_do_says_where(api: Serving) -> None:
    refused = api.ask("GET", f"{PODS}/web/log")
    assert refused.status == 405
    assert "on the pod's node" in body_of(refused)["message"]


def test_lists_select_and_come_in_parts(api: Serving) -> None:
    for number in range(5):
        labels = {"parity": "odd" if number % 2 else "even"}
        api.ask("POST", MAPS, {"metadata": {"name": f"m{number}", "labels": labels}})

    def names(**query: str) -> list[str]:
        return [each["metadata"]["name"] for each in body_of(api.ask("GET", MAPS, **query))["items"]]

    assert names(labelSelector="parity=even") == ["m0", "m2", "m4"]
    assert names(fieldSelector="metadata.name!=m0", labelSelector="parity notin (odd)") == ["m2", "m4"]
    first = body_of(api.ask("GET", MAPS, limit="2"))
    assert first["metadata"]["remainingItemCount"] == 3
    rest = body_of(api.ask("GET", MAPS, limit="9", **{"continue": first["metadata"]["continue"]}))
    assert [each["metadata"]["name"] for each in rest["items"]] == ["m2", "m3", "m4"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert api.ask("GET", MAPS, limit="x").status == 400
    assert api.ask("GET", MAPS, **{"continue": "x"}).status == 400
    assert api.ask("GET", MAPS, fieldSelector="spec.x=y").status == 400
    gone = body_of(api.ask("DELETE", MAPS, labelSelector="parity=odd"))
    assert [each["metadata"]["name"] for each in gone["items"]] == ["m1", "m3"]
    assert names() == ["m0", "m2", "m4"]


def test_tables_for_who_asks_for_them(api: Serving) -> None:
    api.ask("POST", PODS, pod())
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    table = body_of(api.ask("GET", PODS, accept=accept))
    assert (table["kind"], table["rows"][0]["cells"][:3]) == ("Table", ["web", "0/1", "Pending"])
    assert body_of(api.ask("GET", f"{PODS}/web", accept=accept))["kind"] == "Table"
    assert api.ask("GET", PODS, accept="application/vnd.kubernetes.protobuf").status == 406


def test_delete_options_in_the_body_or_the_query(api: Serving) -> None:
    api.ask("POST", PODS, pod())
    wrong = api.ask("DELETE", f"{PODS}/web", {"preconditions": {"uid": "other"}})
    assert (wrong.status, body_of(wrong)["reason"]) == (409, "Conflict")
    assert api.ask("DELETE", f"{PODS}/web", {"preconditions": {"resourceVersion": "1"}}).status == 409
    going = body_of(api.ask("DELETE", f"{PODS}/web", gracePeriodSeconds="7"))
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7
    api.ask("DELETE", f"{PODS}/web", {"kind": "DeleteOptions", "gracePeriodSeconds": 0})
    assert api.ask("GET", f"{PODS}/web").status == 404


def test_field_validation(api: Serving) -> None:
    wrong = pod()
    wrong["spec"]["containers"][0]["comand"] = ["x"]
    warned = api.ask("POST", PODS, wrong, dryRun="All")
    assert warned.headers[0] == ("Warning", '299 - "unknown field \\"spec.containers[0].comand\\""')
    strict = api.ask("POST", PODS, wrong, fieldValidation="Strict")
    assert strict.status == 400
    unknown = 'strict decoding error: unknown field "spec.containers[0].comand"'
    assert body_of(strict)["message"] == f'Pod in version "v1" cannot be handled as a Pod: {unknown}'
    twice = b'{"metadata": {"name": "x", "name": "y"}}'
    message = body_of(api.ask("POST", MAPS, twice, fieldValidation="Strict"))["message"]
    assert message.endswith('as a ConfigMap: strict decoding error: duplicate field "name"')
    assert api.ask("POST", MAPS, twice, fieldValidation="Ignore").headers == ()


def test_too_large_objects_are_refused_in_kubernetes_words(api: Serving) -> None:
    for big, why in [
        (configmap(x="a" * (1 << 20), y="b"), "[]: Too long: must have at most 1048576 bytes"),
        ({"metadata": {"name": "c", "annotations": {"a": "x" * (1 << 18)}}},
         "metadata.annotations: Too long: must have at most 262144 bytes"),
    ]:  # fmt: skip
        refused = api.ask("POST", MAPS, big)
        assert refused.status == 422
        assert body_of(refused)["message"].endswith(why)
    assert api.ask("POST", MAPS, configmap(x="a" * ((1 << 20) - 1), y="b")).status == 201
    pods = pod(x="a" * (1 << 21))
    assert (api.ask("POST", PODS, pods).status, api.ask("GET", f"{PODS}/web").status) == (413, 404)


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "code"),
    [
        ("GET", "/api/v1/nosuch", None, "", 404),
        ("GET", "/nosuch", None, "", 404),
        ("GET", "/api/v1/namespaces/x/nodes", None, "", 404),
        ("POST", MAPS, b"not JSON", "application/json", 400),
        ("POST", MAPS, b"{}", "application/vnd.kubernetes.protobuf", 415),
        ("POST", MAPS, b"[" * 10_000, "application/json", 400),
        ("PUT", MAPS, b"{}", "application/json", 405),
        ("PATCH", f"{MAPS}/a", b"{}", "application/json", 415),
        ("PATCH", f"{MAPS}/a", b"a: [", "application/apply-patch+yaml", 400),
        ("PATCH", f"{MAPS}/a", b"a: 1\n---\nb: 1\n", "application/apply-patch+yaml", 400),
        ("PATCH", f"{MAPS}/a", b"kind: Pod\nmetadata: {name: a}\n", "application/apply-patch+yaml", 400),
        ("PATCH", f"{MAPS}/a", b"{a: 1}", "application/apply-patch+yaml", 400),
        ("DELETE", f"{MAPS}/a", b"[]", "application/json", 400),
        ("TRACE", MAPS, b"", "", 405),
        ("GET", f"{MAPS}?watch=true&resourceVersion=999999999999", None, "", 410),
        ("GET", f"{MAPS}?watch=true&resourceVersion=x", None, "", 400),
    ],
)
def test_what_is_refused_is_a_status(api: Serving, method: str, path: str, body: Any, media: str, code: int) -> None:
    refused = api.ask(method, path, body, media)
    status = body_of(refused)
    assert (refused.status, status["kind"], status["code"], status["status"]) == (code, "Status", code, "Failure")


def test_a_watch_has_what_there_is_and_then_each_change(api: Serving) -> None:
    api.ask("POST", MAPS, configmap("a"))

    def change() -> None:
        api.ask("POST", PODS, pod())
        api.ask("POST", MAPS, configmap("b"))
        api.ask("POST", MAPS.replace("default", "other"), configmap("elsewhere"))
        api.ask("DELETE", f"{MAPS}/a")

    assert api.watch(MAPS, Watcher(change)) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert api.subscriptions._all == set()


def test_a_watch_goes_on_where_a_list_ended_with_bookmarks(api: Serving) -> None:
    api.ask("POST", MAPS, configmap("a"))
    version = body_of(api.ask("GET", MAPS))["metadata"]["resourceVersion"]
    api.ask("POST", MAPS, configmap("b"))
    events = api.watch(MAPS, Watcher(), resourceVersion=version, allowWatchBookmarks="true")
    assert events == [("ADDED", "b")]
    later = lambda: api.ask("POST", MAPS, configmap("c"))  # noqa: E731 - what happens meanwhile
    events = api.watch(MAPS, Watcher(later), sendInitialEvents="true", allowWatchBookmarks="true",
                       resourceVersionMatch="NotOlderThan")  # fmt: skip
    assert events == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", None), ("ADDED", "c"), ("BOOKMARK", None)]


def test_what_a_selector_does_not_select_any_more_is_deleted_for_that_watch(api: Serving) -> None:
    api.ask("POST", MAPS, {"metadata": {"name": "a", "labels": {"x": "1"}}})

    def relabel(value: str) -> Any:
        patch = {"metadata": {"labels": {"x": value}}}
        return lambda: api.ask("PATCH", f"{MAPS}/a", patch, "application/merge-patch+json")

    events = api.watch(MAPS, Watcher(relabel("2"), relabel("3"), relabel("1")), labelSelector="x=1")
    assert events == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


def test_a_watch_of_one_object_by_its_path(api: Serving) -> None:
    api.ask("POST", MAPS, configmap("b"))
    make = lambda: api.ask("POST", MAPS, configmap("a"))  # noqa: E731 - what happens meanwhile
    assert api.watch(f"{MAPS}/a", Watcher(make)) == [("ADDED", "a")]


def test_a_watch_ends_in_time(api: Serving) -> None:
    pass_time = lambda: api.simulation.run_for(30)  # noqa: E731 - what happens meanwhile
    never = Watcher(*[pass_time] * 100)
    assert api.watch(MAPS, never, timeoutSeconds="60") == []
    assert len(never._acts) >= 97


def test_a_warning_has_no_character_that_a_header_cannot_have(api: Serving) -> None:
    obj = {"metadata": {"name": "c"}, 'a"\\\r\nSet-Cookie: ü': 1}
    ((_, text),) = api.ask("POST", MAPS, obj).headers
    assert text == '299 - "unknown field \\"a\\"\\\\??Set-Cookie: ?\\""'
