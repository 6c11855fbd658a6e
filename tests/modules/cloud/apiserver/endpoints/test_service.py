"""The Kubernetes API over HTTP, request by request."""

import base64
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.http.responses import Response, Stream
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.limits import VALUES
from modules.cloud.apiserver.endpoints.health import LOADED
from modules.cloud.apiserver.endpoints.service import CustomResourceList
from modules.cloud.client.calls import ApiResult
from tests.modules.apimachinery.protobuf.test_decoding import CONFIG_MAP, OBJECT, definition
from tests.modules.cloud.apiextensions.definition import definition as custom_definition
from tests.modules.cloud.apiserver.endpoints.serving import MAPS, PODS, Serving, Watcher
from tests.modules.cloud.objects import configmap, pod
from tests.support.failing import Failing

_APPLY = "application/apply-patch+yaml"


def body_of(response: Response) -> Any:
    return json.loads(response.body)


def test_discovery(api: Serving) -> None:
    assert body_of(api.ask("GET", "/api"))["versions"] == ["v1"]
    groups = [group["name"] for group in body_of(api.ask("GET", "/apis"))["groups"]]
    core = [
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "flowcontrol.apiserver",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
    ]
    named = [f"{group}.k8s.io" for group in core]
    assert groups == sorted(["apiextensions.k8s.io", "apps", "autoscaling", "batch", "policy", *named])
    resources = {entry["name"]: entry for entry in body_of(api.ask("GET", "/api/v1"))["resources"]}
    pods = resources["pods"]
    assert (pods["singularName"], pods["shortNames"], pods["categories"]) == ("pod", ["po"], ["all"])
    assert {"list", "watch", "deletecollection", "patch"} <= set(pods["verbs"])
    assert "deletecollection" not in resources["namespaces"]["verbs"]
    (definitions, _) = body_of(api.ask("GET", "/apis/apiextensions.k8s.io/v1"))["resources"]
    assert definitions["categories"] == ["api-extensions"]
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]
    eviction = resources["pods/eviction"]
    assert (eviction["kind"], eviction["group"], eviction["version"], eviction["verbs"]) == (
        "Eviction", "policy", "v1", ["create"],
    )  # fmt: skip
    assert resources["pods/ephemeralcontainers"]["kind"] == "Pod"
    assert not resources["nodes"]["namespaced"]
    assert body_of(api.ask("GET", "/version"))["gitVersion"] == "v1.32.10-edgecore"
    assert api.ask("GET", "/healthz").body == b"ok"
    assert api.ask("GET", "/apis/autoscaling/v2beta2").status == 404


def test_health_check_by_check(api: Serving) -> None:
    """`kubectl get --raw '/readyz?verbose'`; the flag has no value. Each check has a path of its own."""
    api.service._checks = lambda: {**dict.fromkeys(LOADED, ""), "edgecontroller": "edgecontroller is late"}
    well = api.ask("GET", "/readyz", verbose="", exclude="edgecontroller")
    assert (well.status, well.body.decode().splitlines()) == (200, [
        "[+]ping ok", "[+]etcd ok", "[+]informer-sync ok", "[+]poststarthook/start-system-namespaces-controller ok",
        "[+]poststarthook/rbac/bootstrap-roles ok", "[+]poststarthook/scheduling/bootstrap-system-priority-classes ok",
        "[+]edgecontroller excluded: ok", "readyz check passed",
    ])  # fmt: skip
    ill = api.ask("GET", "/livez", verbose="false", exclude="nope")
    lines = ill.body.decode().splitlines()
    assert (ill.status, lines[-3:]) == (503, [
        "[-]edgecontroller failed: edgecontroller is late",
        'warn: some health checks cannot be excluded: no matches for "nope"', "livez check failed",
    ])  # fmt: skip
    assert "[+]informer-sync ok" not in lines
    assert api.ask("GET", "/livez").body == b"edgecontroller is late\n"
    assert api.ask("GET", "/livez", exclude="edgecontroller").body == b"ok"
    for path in ("/livez/ping", "/healthz/poststarthook/rbac/bootstrap-roles", "/readyz/informer-sync"):
        assert (api.ask("GET", path).status, api.ask("GET", path, verbose="").body) == (200, b"ok")
    assert api.ask("GET", "/livez/edgecontroller").status == 503
    assert [api.ask("GET", path).status for path in ("/livez/nope", "/livez/informer-sync")] == [404, 404]


def test_kubectl_learns_that_fields_are_validated_here(api: Serving) -> None:
    paths = body_of(api.ask("GET", "/openapi/v3"))["paths"]
    document = body_of(api.ask("GET", paths["apis/storage.k8s.io/v1"]["serverRelativeURL"]))
    patch = document["paths"]["/apis/storage.k8s.io/v1/csidrivers/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "CSIDriver"
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert api.ask("GET", "/openapi/v3/v1").status == 404


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


@pytest.mark.parametrize(
    ("path", "rest", "kind"),
    [
        ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}, "Service"),
        ("/api/v1/namespaces/default/serviceaccounts", {}, "ServiceAccount"),
        ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "csi.example.org"}, "StorageClass"),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {}, "Status"),
    ],
)
def test_some_kinds_are_returned_by_their_deletion(api: Serving, path: str, rest: JsonObject, kind: str) -> None:
    """A typed client, as Python's of Kubernetes, reads nothing else."""
    assert api.ask("POST", path, {"metadata": {"name": "a"}, **rest}).status == 201
    gone = api.ask("DELETE", f"{path}/a")
    assert body_of(gone)["kind"] == kind
    assert gone.body.endswith(b"}\n")


def test_a_name_is_generated(api: Serving) -> None:
    wanted = {"metadata": {"generateName": "job-"}, "data": {}}
    names = {body_of(api.ask("POST", MAPS, wanted))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch("job-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names), "as in Kubernetes"


def test_the_data_of_a_revision_is_answered_as_go_wrote_it(api: Serving) -> None:
    """kube-controller-manager compares the bytes: it made revisions without end where a null was missing."""
    data = {"spec": {"template": {"$patch": "replace", "metadata": {"creationTimestamp": None}, "run": "a && b > c"}}}
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    made = api.ask("POST", path, {"metadata": {"name": "r"}, "revision": 1, "data": data})
    api.ask("PATCH", f"{path}/r", {"revision": 2}, "application/merge-patch+json")
    text = rb'{"$patch":"replace","metadata":{"creationTimestamp":null},"run":"a \u0026\u0026 b \u003e c"}'
    for answer in (made, api.ask("GET", f"{path}/r"), api.ask("GET", path)):
        assert text in answer.body


@pytest.mark.parametrize(
    ("media", "patch", "data"),
    [
        ("application/merge-patch+json", {"data": {"b": "2", "a": None}}, {"b": "2"}),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
        ("application/json-patch+json", [{"op": "replace", "path": "/data/a", "value": "3"}], {"a": "3"}),
        (
            "application/apply-patch+yaml",
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {c: '4'}\n",
            {"c": "4"},
        ),
        ("application/apply-patch+yaml", b"{apiVersion: v1, kind: ConfigMap, data: {c: '4'}}", {"c": "4"}),
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
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"x": "y"}}}
    media = "application/apply-patch+yaml"
    applied = body_of(api.ask("PATCH", f"{MAPS}/a", note, media, fieldManager="kubectl-last-applied"))
    assert (applied["data"], applied["metadata"]["annotations"]) == ({"a": "1"}, {"x": "y"})


def test_the_status_is_a_subresource(api: Serving) -> None:
    api.ask("POST", PODS, pod())
    media, patch = "application/merge-patch+json", {"status": {"phase": "Running"}, "spec": {"hostNetwork": True}}
    patched = body_of(api.ask("PATCH", f"{PODS}/web/status", patch, media))
    assert (patched["status"]["phase"], patched["spec"].get("hostNetwork")) == ("Running", None)
    assert body_of(api.ask("GET", f"{PODS}/web/status"))["status"]["phase"] == "Running"
    assert api.ask("GET", f"{MAPS}/web/status").status == 404


def test_requests_for_the_node_alone_name_it(api: Serving) -> None:
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
    metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    patched = body_of(api.ask("PATCH", f"{PODS}/web", b"{}", "application/merge-patch+json", accept=metadata))
    assert (patched["kind"], patched["metadata"]["name"], "spec" in patched) == ("PartialObjectMetadata", "web", False)
    assert api.ask("GET", PODS, accept="application/vnd.kubernetes.protobuf").status == 406


def test_rows_of_pods_that_have_ended_say_so(api: Serving) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for name, phase in (("a", "Succeeded"), ("b", "Failed"), ("c", "Running")):
        api.ask("POST", PODS, {**pod(), "metadata": {"name": name}})
        api.ask("PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase}}, "application/merge-patch+json")
    rows = body_of(api.ask("GET", PODS, accept=table))["rows"]
    assert [[one["reason"] for one in row.get("conditions", [])] for row in rows] == [["Succeeded"], ["Failed"], []]


def test_types_of_columns_are_those_of_their_cells(api: Serving) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    api.ask("POST", "/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": "d.example.org"}, "spec": {}})
    found = body_of(api.ask("GET", "/apis/storage.k8s.io/v1/csidrivers", accept=table))
    types = [each["type"] for each in found["columnDefinitions"]]
    assert types == ["string", "boolean", "boolean", "boolean", "string", "boolean", "string", "string"]
    assert found["rows"][0]["cells"][1:4] == [True, False, False]


def test_a_deleted_collection_is_answered_in_the_form_that_the_client_accepts(api: Serving) -> None:
    for form in ("Table", "PartialObjectMetadataList"):
        api.ask("POST", MAPS, configmap("a"))
        accept = f"application/json;as={form};v=v1;g=meta.k8s.io"
        assert body_of(api.ask("DELETE", MAPS, accept=accept))["kind"] == form


def test_the_table_of_a_scale_has_its_own_columns(api: Serving) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    api.ask("POST", path, {"metadata": {"name": "web"}, "spec": spec})
    found = body_of(api.ask("GET", f"{path}/web/scale", accept="application/json;as=Table;v=v1;g=meta.k8s.io"))
    assert [each["name"] for each in found["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert found["rows"][0]["cells"][:3] == ["web", 3, 0]


@pytest.mark.parametrize(
    ("options", "causes"),
    [
        ({"limit": "x", "sendInitialEvents": "true"}, None),
        ({"watch": "1", "resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true", "continue": "x"},
         ["Forbidden: resourceVersionMatch is forbidden when continue is provided"]),
        ({"resourceVersionMatch": "Bad", "resourceVersion": "1", "sendInitialEvents": "true"},
         ['Unsupported value: "Bad": supported values: "Exact", "NotOlderThan", ""',
          "Forbidden: sendInitialEvents is forbidden for list"]),
    ],
)  # fmt: skip
def test_options_of_lists_and_watches_that_do_not_fit(
    api: Serving, options: dict[str, str], causes: list[str] | None
) -> None:
    refused = body_of(api.ask("GET", MAPS, **options))
    told = [each["message"] for each in refused["details"]["causes"]] if "details" in refused else None
    assert (refused["code"], told) == (400 if causes is None else 422, causes)


def test_a_continued_list_names_the_fault_of_its_token_first(api: Serving) -> None:
    bad, good = "x", base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"a"}').decode().rstrip("=")
    told = [body_of(api.ask("GET", MAPS, **{"continue": token, "resourceVersion": "y"}))["message"]
            for token in (bad, good)]  # fmt: skip
    assert told[0].startswith("invalid continue token")
    assert told[1] == "specifying resource version is not allowed when using continue"


def test_a_limit_below_zero_is_none(api: Serving) -> None:
    api.ask("POST", MAPS, configmap("a"))
    assert len(body_of(api.ask("GET", MAPS, limit="-1", resourceVersion="1"))["items"]) == 1  # not as it was then


def test_what_is_no_object_is_no_table(api: Serving) -> None:
    api.ask("POST", MAPS, configmap("a"))
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert body_of(api.ask("PUT", f"{MAPS}/a", configmap("a"), accept=table))["kind"] == "Table"
    assert body_of(api.ask("DELETE", f"{MAPS}/a", accept=table))["kind"] == "Status"


def test_delete_options_in_the_body_or_the_query(api: Serving) -> None:
    api.ask("POST", PODS, pod())
    wrong = api.ask("DELETE", f"{PODS}/web", {"preconditions": {"uid": "other"}})
    assert (wrong.status, body_of(wrong)["reason"]) == (409, "Conflict")
    assert api.ask("DELETE", f"{PODS}/web", {"preconditions": {"resourceVersion": "1"}}).status == 409
    going = body_of(api.ask("DELETE", f"{PODS}/web", gracePeriodSeconds="7"))
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7
    api.ask("DELETE", f"{PODS}/web", {"kind": "DeleteOptions", "gracePeriodSeconds": 0})
    assert api.ask("GET", f"{PODS}/web").status == 404


@pytest.mark.parametrize("path", [PODS, f"{PODS}/web"])
@pytest.mark.parametrize(
    ("query", "body"),
    [({"dryRun": "All"}, b""), ({"dryRun": "All"}, {"dryRun": []}), ({"dryRun": "All"}, {}), ({}, {"dryRun": ["All"]})],
)
def test_a_dry_run_of_the_query_or_the_body_deletes_nothing(
    api: Serving, path: str, query: dict[str, str], body: Any
) -> None:
    api.ask("POST", PODS, pod())
    assert api.ask("DELETE", path, body, **query).status == 200
    assert api.calls[-1].options["dryRun"] == ["All"]


def test_preconditions_and_the_policy_of_the_body_hold_for_a_collection(api: Serving) -> None:
    api.ask("POST", PODS, pod())
    assert api.ask("DELETE", PODS, {"preconditions": {"uid": "other"}}).status == 409
    assert api.ask("DELETE", PODS, {"propagationPolicy": "Foreground"}).status == 200
    assert body_of(api.ask("GET", f"{PODS}/web"))["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_a_collection_is_selected_by_the_query_only(api: Serving) -> None:
    """RBAC has looked at the query: who may delete the collection of one name could delete all otherwise."""
    for name in ("a", "b"):
        api.ask("POST", MAPS, {"metadata": {"name": name}})
    body = {"fieldSelector": "metadata.name!=none", "labelSelector": "", "continue": ""}
    api.ask("DELETE", MAPS, body, fieldSelector="metadata.name=a")
    assert api.ask("GET", f"{MAPS}/a").status == 404
    assert api.ask("GET", f"{MAPS}/b").status == 200


def test_a_client_names_itself_in_an_apply(api: Serving) -> None:
    body = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"
    refused = api.ask("PATCH", f"{MAPS}/a", body, "application/apply-patch+yaml")
    words = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    assert (refused.status, body_of(refused)["message"]) == (422, words)
    assert api.ask("PATCH", f"{MAPS}/a", body, "application/apply-patch+yaml", fieldManager="m").status == 201


def test_bodies_in_protobuf(api: Serving) -> None:
    """`kubectl create configmap` and its like send them, a typed client's deletion and an operator's definition too;
    the answer is JSON.
    """
    media = "application/vnd.kubernetes.protobuf"
    made = api.ask("POST", MAPS, bytes.fromhex(CONFIG_MAP), media, accept=f"{media},application/json")
    assert (made.status, body_of(made)["data"]) == (201, {"a": "b"})
    options = b"k8s\x00\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x06\x12\x04\x0a\x02no"
    refused = api.ask("DELETE", f"{MAPS}/two", options, media)
    assert (refused.status, "the UID in the precondition (no)" in body_of(refused)["message"]) == (409, True)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = api.ask("POST", definitions, definition(OBJECT), media, accept=f"{media},application/json")
    assert (made.status, body_of(made)["metadata"]["name"]) == (201, "tones.example.com")
    assert api.ask("GET", "/apis/example.com/v1/namespaces/default/tones").status == 200


def test_reviews_of_who_needs_no_credentials(api: Serving) -> None:
    """`kubectl auth whoami` and `can-i`, on the control socket and the insecure port."""
    authorization, asked = "/apis/authorization.k8s.io/v1", {"spec": {"resourceAttributes": {"verb": "get"}}}
    assert body_of(api.ask("POST", f"{authorization}/selfsubjectaccessreviews", asked))["status"]["allowed"] is True
    rules = body_of(api.ask("POST", f"{authorization}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}))[
        "status"
    ]["resourceRules"]
    assert rules[0]["verbs"] == ["*"]
    who = body_of(api.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}))
    assert who["status"]["userInfo"]["username"] == "system:admin"


def test_a_stream_that_is_not_served_names_its_place(api: Serving) -> None:
    """kubectl begins one with an empty body."""
    refused = api.ask("POST", f"{PODS}/web/exec?command=ls", b"")
    assert (refused.status, "`edgecore` has it" in body_of(refused)["message"]) == (405, True)


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
    assert message.endswith('as a ConfigMap: strict decoding error: duplicate field "metadata.name"')
    assert api.ask("POST", MAPS, twice, fieldValidation="Ignore").headers == ()
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: b\n  a: c\n"
    for method, path, media in (("POST", MAPS, "application/yaml"), ("PATCH", f"{MAPS}/x", _APPLY)):
        refused = api.ask(method, path, text, media, fieldManager="m", fieldValidation="Strict")
        assert refused.status == 400
        assert body_of(refused)["message"].endswith('yaml: unmarshal errors:\n  line 6: key "a" already set in map')
        taken = api.ask(method, path, text, media, fieldManager="m")
        assert body_of(taken)["data"] == {"a": "c"}
        assert taken.headers == (("Warning", '299 - "line 6: key \\"a\\" already set in map"'),)
    bogus = text + b"bogus: 1\n"
    untyped = api.ask("PATCH", f"{MAPS}/x", bogus, _APPLY, fieldManager="m", fieldValidation="Strict")
    assert (untyped.status, untyped.headers) == (500, ())
    patched = [{"op": "add", "path": "/bogus", "value": 1}]
    api.ask("POST", MAPS, twice, fieldValidation="Ignore")
    warned = api.ask("PATCH", f"{MAPS}/y", patched, "application/json-patch+json", dryRun="All")
    assert warned.headers == (("Warning", '299 - "unknown field \\"bogus\\""'),)
    refused = api.ask("PATCH", f"{MAPS}/y", patched, "application/json-patch+json", fieldValidation="Strict")
    assert refused.status == 422
    assert body_of(refused)["message"].endswith('strict decoding error: unknown field "bogus"')


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PODS, 400),
        ("DELETE", f"{PODS}/web", 400),
        ("GET", "/version", 400),
        ("GET", "/apis/none.example.com/v1/things", 400),
        ("GET", f"{PODS}/web/log", 405),
        ("POST", f"{PODS}/web/exec", 405),
        ("POST", f"{PODS}/web/portforward", 405),
    ],
)
def test_a_timeout_that_is_none_is_refused_but_for_streams(api: Serving, method: str, path: str, status: int) -> None:
    """As kube-apiserver does; a watch is in the recorded answers. Here nobody serves streams."""
    refused = api.ask(method, path, timeout="invalid")
    assert refused.status == status
    told = 'invalid timeout specified in the request URL - time: invalid duration "invalid"'
    assert (body_of(refused)["message"] == told) is (status == 400)


def test_too_large_objects_are_refused_in_kubernetes_words(api: Serving) -> None:
    for big, why in [
        (configmap(x="a" * (1 << 20), y="b"), "[]: Too long: may not be more than 1048576 bytes"),
        ({"metadata": {"name": "c", "annotations": {"a": "x" * (1 << 18)}}},
         "metadata.annotations: Too long: may not be more than 262144 bytes"),
    ]:  # fmt: skip
        refused = api.ask("POST", MAPS, big)
        assert refused.status == 422
        assert body_of(refused)["message"].endswith(why)
    assert api.ask("POST", MAPS, configmap(x="a" * ((1 << 20) - 1), y="b")).status == 201
    pods = pod(x="a" * (1 << 21))
    assert (api.ask("POST", PODS, pods).status, api.ask("GET", f"{PODS}/web").status) == (413, 404)


@pytest.mark.parametrize("line", [b"- \n", b"- a: 1\n", b"- [1]\n"])
def test_yaml_of_too_many_values_is_refused(api: Serving, line: bytes) -> None:
    """A value takes two bytes in YAML, without a comma or bracket: a million of them took seven seconds."""
    body = b"metadata: {name: c}\nx:\n" + line * (2 * VALUES)
    assert api.ask("POST", MAPS, body, "application/yaml").status == 413
    lines = b"metadata: {name: c}\ndata:\n  a: |\n" + b"   b\n" * (2 * VALUES)
    assert api.ask("POST", MAPS, lines, "application/yaml").status == 201


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "code"),
    [
        ("GET", "/api/v1/nosuch", None, "", 404),
        ("GET", "/api/v1/namespaces/x/nodes", None, "", 404),
        ("POST", MAPS, b"not JSON", "application/json", 400),
        ("POST", MAPS, b"{}", "application/vnd.kubernetes.protobuf", 400),
        ("POST", MAPS, b"{}", "application/xml", 415),
        ("POST", MAPS, b"[" * 10_000, "application/json", 400),
        ("PUT", MAPS, b"{}", "application/json", 405),
        ("POST", f"{MAPS}/a", b"{}", "application/json", 405),
        ("POST", "/api/v1/configmaps", b"{}", "application/json", 405),
        ("POST", f"{PODS}/web/status", b"{}", "application/json", 405),
        ("PATCH", f"{PODS}/web/nosuch", b"{}", "application/json", 404),
        ("DELETE", "/api/v1/namespaces", b"", "", 405),
        ("PATCH", f"{MAPS}/a", b"{}", "application/json", 415),
        ("PATCH", f"{MAPS}/a", b"a: [", "application/apply-patch+yaml", 400),
        ("PATCH", f"{MAPS}/a", b"a: 1\n---\nb: 1\n", "application/apply-patch+yaml", 400),
        ("PATCH", f"{MAPS}/a?fieldManager=m", b"kind: Pod\nmetadata: {name: a}\n", "application/apply-patch+yaml", 400),
        ("PATCH", f"{MAPS}/a?fieldManager=m", b"{a: 1}", "application/apply-patch+yaml", 400),
        ("DELETE", f"{MAPS}/a", b"[]", "application/json", 400),
        ("TRACE", MAPS, b"", "", 405),
        ("GET", f"{MAPS}?watch=true&resourceVersion=x", None, "", 400),
        ("GET", f"{MAPS}?sendInitialEvents=true", None, "", 422),
        ("GET", f"{MAPS}?watch=true&sendInitialEvents=true", None, "", 422),
        ("GET", f"{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=Exact", None, "", 422),
        ("GET", f"{MAPS}?watch=true&resourceVersionMatch=NotOlderThan", None, "", 422),
    ],
)
def test_a_refusal_is_a_status(api: Serving, method: str, path: str, body: Any, media: str, code: int) -> None:
    refused = api.ask(method, path, body, media)
    status = body_of(refused)
    assert (refused.status, status["kind"], status["code"], status["status"]) == (code, "Status", code, "Failure")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", MAPS, "GET, HEAD, POST, DELETE"),
        ("TRACE", f"{MAPS}/a", "GET, HEAD, PUT, PATCH, DELETE"),
        ("POST", "/api/v1/configmaps", "GET, HEAD"),
        ("DELETE", "/api/v1/namespaces", "GET, HEAD, POST"),
        ("POST", f"{PODS}/web/status", "GET, HEAD, PUT, PATCH"),
        ("GET", f"{PODS}/web/eviction", "POST"),
        ("PUT", f"{PODS}/web/exec", "GET, POST"),
        ("PUT", f"{PODS}/web/log", "GET, HEAD"),
        ("GET", "/api/v1/namespaces/ns/bindings", "POST"),
    ],
)
def test_a_method_that_a_path_has_not_is_told_those_that_it_has(
    api: Serving, method: str, path: str, allowed: str
) -> None:
    refused = api.ask(method, path, b"")
    assert (refused.status, dict(refused.headers).get("Allow")) == (405, allowed)


def test_an_api_server_that_does_not_answer_which_methods_there_are_is_told(
    api: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's own requests have no server around them that would make an answer of an error."""
    failing = Failing(0, ApiStatusError(504, "the API server did not answer"))
    monkeypatch.setattr(CustomResourceList, "resources", failing.call(list))
    refused = api.ask("PUT", MAPS, b"")
    assert (refused.status, body_of(refused)["reason"]) == (504, "Timeout")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_another_definition_or_version_of_it_is_read_again(field: str) -> None:
    made, other = custom_definition(), custom_definition("Robot", "robots")
    for each, versions in ((made, {}), (other, {field: "8"})):
        each["metadata"] |= {"uid": "u", "resourceVersion": "7", **versions}
        each["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    listed: list[Any] = [[made], [other], [made, other]]
    caller: Any = SimpleNamespace(call=lambda _: ApiResult({"items": listed.pop(0)}))
    found = CustomResourceList(caller)
    read = [sorted(each.plural for each in found.resources()) for _ in range(3)]
    assert read == [["devices"], ["robots"], ["devices", "robots"]]


def test_a_watch_of_a_version_that_is_not_known_ends_with_an_error(api: Serving) -> None:
    """Its response is a stream, as an API server's (recorded): some clients understand 410 only there."""
    api.ask("POST", MAPS, configmap("a"))
    reply = api.reply("GET", f"{MAPS}?watch=true&resourceVersion=999999999999")
    assert isinstance(reply, Stream)
    (line,) = reply.pieces(Watcher())
    event = json.loads(line)
    status = event["object"]
    assert (event["type"], status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 999999999999 (")
    assert not api.subscriptions._all


def test_a_watch_has_what_there_is_and_then_each_change(api: Serving) -> None:
    api.ask("POST", MAPS, configmap("a"))

    def change() -> None:
        api.ask("POST", PODS, pod())
        api.ask("POST", MAPS, configmap("b"))
        api.ask("POST", MAPS.replace("default", "other"), configmap("elsewhere"))
        api.ask("DELETE", f"{MAPS}/a")

    assert api.watch(MAPS, Watcher(change)) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert not api.subscriptions._all


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


def test_an_object_that_leaves_a_selector_is_deleted_for_that_watch(api: Serving) -> None:
    api.ask("POST", MAPS, {"metadata": {"name": "a", "labels": {"x": "1"}}})

    def relabel(value: str) -> Any:
        patch = {"metadata": {"labels": {"x": value}}}
        return lambda: api.ask("PATCH", f"{MAPS}/a", patch, "application/merge-patch+json")

    events = api.watch(MAPS, Watcher(relabel("2"), relabel("3"), relabel("1")), labelSelector="x=1")
    assert events == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


@pytest.mark.parametrize("media", ["application/merge-patch+json", "application/apply-patch+yaml"])
def test_a_dry_run_of_a_change_shows_the_version_that_stays(api: Serving, media: str) -> None:
    """kubectl diff would show another one."""
    before = body_of(api.ask("POST", MAPS, configmap("a")))["metadata"]["resourceVersion"]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}}
    shown = body_of(api.ask("PATCH", f"{MAPS}/a?dryRun=All&fieldManager=m", body, media))
    assert (shown["data"]["b"], shown["metadata"]["resourceVersion"]) == ("c", before)


def test_the_document_names_types_with_several_forms(api: Serving) -> None:
    schemas = body_of(api.ask("GET", "/openapi/v3/apis/apps/v1"))["components"]["schemas"]
    rolling = schemas["io.k8s.api.v1.RollingUpdateDeployment"]["properties"]["maxSurge"]
    (name,) = (each["$ref"].rpartition("/")[2] for each in rolling["allOf"])
    assert schemas[name]["format"] == "int-or-string"
    limits = schemas["io.k8s.api.v1.ResourceRequirements"]["properties"]["limits"]["additionalProperties"]
    assert limits["allOf"][0]["$ref"].rpartition("/")[2] in schemas


def test_the_document_says_how_fields_are_merged(api: Serving) -> None:
    schemas = body_of(api.ask("GET", "/openapi/v3/api/v1"))["components"]["schemas"]
    ports = schemas["io.k8s.api.v1.ServiceSpec"]["properties"]["ports"]
    assert {name: value for name, value in ports.items() if name.startswith("x-")} == {
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "port",
        "x-kubernetes-patch-strategy": "merge",
    }
    assert schemas["io.k8s.api.v1.LabelSelector"]["x-kubernetes-map-type"] == "atomic"
    assert schemas["io.k8s.api.v1.PodSpec"]["properties"]["volumes"]["x-kubernetes-patch-strategy"] == (
        "merge,retainKeys"
    )


@pytest.mark.parametrize(
    ("path", "obj", "patch", "changed"),
    [
        (
            "/api/v1/namespaces/default/services",
            {"kind": "Service", "spec": {"ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]}},
            {"spec": {"$setElementOrder/ports": [{"port": 80}, {"port": 443}],
                      "ports": [{"port": 443, "targetPort": 9443}]}},
            lambda spec: [(port["name"], port["targetPort"]) for port in spec["ports"]]
            == [("http", 80), ("https", 9443)],
        ),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            {"kind": "ReplicationController",
             "spec": {"replicas": 0, "selector": {"k": "rc"}, "template": {
                 "metadata": {"labels": {"k": "rc"}},
                 "spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]}}}},
            {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "x:2"}]}}}},
            lambda spec: [(one["name"], one["image"]) for one in spec["template"]["spec"]["containers"]]
            == [("a", "x:2"), ("b", "y:1")],
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
             "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "1"}}}},
            {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
            lambda spec: spec["selector"] == {"matchLabels": {"b": "2"}},
        ),
    ],
)  # fmt: skip
def test_a_strategic_patch_of_any_kind_follows_its_schema(
    api: Serving, path: str, obj: dict[str, Any], patch: dict[str, Any], changed: Callable[[dict[str, Any]], bool]
) -> None:
    made = api.ask("POST", path, {"apiVersion": "v1", "metadata": {"name": "a"}, **obj})
    assert made.status == 201, made.body
    patched = api.ask("PATCH", f"{path}/a", patch, "application/strategic-merge-patch+json")
    assert patched.status == 200
    assert changed(body_of(patched)["spec"]), patched.body


def test_a_watch_of_one_object_by_its_path(api: Serving) -> None:
    """It is one of the older paths; elsewhere the path of an object is read once."""
    api.ask("POST", MAPS, configmap("b"))
    make = lambda: api.ask("POST", MAPS, configmap("a"))  # noqa: E731 - what happens meanwhile
    path = "/api/v1/watch/namespaces/default/configmaps/a"
    assert api.watch(path, Watcher(make)) == [("ADDED", "a")]
    assert api.watch(path, Watcher(), resourceVersion="0", fieldSelector="metadata.name=b") == [("ADDED", "a")]
    assert api.ask("GET", f"{MAPS}/a?watch=true").status == 200


def test_the_end_of_the_initial_events_is_a_bookmark_for_who_wants_bookmarks(api: Serving) -> None:
    api.ask("POST", MAPS, configmap("a"))
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert api.watch(MAPS, Watcher(), **asked) == [("ADDED", "a")]
    version = body_of(api.ask("GET", MAPS))["metadata"]["resourceVersion"]
    assert api.watch(MAPS, Watcher(), resourceVersion=version, **asked) == [("ADDED", "a")]
    assert [kind for kind, _ in api.watch(MAPS, Watcher(), allowWatchBookmarks="true", **asked)] == [
        "ADDED",
        "BOOKMARK",
    ]
    assert api.watch(MAPS, Watcher(), **{**asked, "sendInitialEvents": "false"}) == []


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_of_no_version_begins_with_the_present_objects_and_says_so(api: Serving, version: str) -> None:
    """`sendInitialEvents` is true by default then."""
    api.ask("POST", MAPS, configmap("a"))
    query = {"resourceVersion": version, "allowWatchBookmarks": "true"}
    reply = api.reply("GET", MAPS, watch="true", **query)
    assert isinstance(reply, Stream)
    events = [json.loads(line) for line in b"".join(reply.pieces(Watcher())).splitlines()]
    reply.done()
    annotations = [each["object"]["metadata"].get("annotations", {}) for each in events]
    assert [each["type"] for each in events] == ["ADDED", "BOOKMARK"]
    assert annotations[1]["k8s.io/initial-events-end"] == "true"


def test_a_watch_that_begins_with_a_later_state_than_the_present_one_ends(api: Serving) -> None:
    """A client that has seen a later one must not take an older one for it."""
    query = {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    reply = api.reply("GET", MAPS, watch="true", resourceVersion="9999999999", **query)
    assert isinstance(reply, Stream)
    (event,) = (json.loads(line) for line in b"".join(reply.pieces(Watcher())).splitlines())
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")


@pytest.mark.parametrize("version", ["-1", "x", "99999999999999999999"])
def test_a_version_of_a_watch_is_a_number_of_64_bits(api: Serving, version: str) -> None:
    answer = api.ask("GET", MAPS, watch="true", resourceVersion=version)
    assert answer.status == 400
    assert f'resourceVersion: Invalid value: "{version}": strconv.ParseUint' in json.loads(answer.body)["message"]


def test_a_watch_ends_in_time(api: Serving) -> None:
    pass_time = lambda: api.simulation.run_for(30)  # noqa: E731 - what happens meanwhile
    never = Watcher(*[pass_time] * 100)
    assert api.watch(MAPS, never, timeoutSeconds="60") == []
    assert len(never._acts) >= 97


def test_a_warning_has_no_character_that_a_header_cannot_have(api: Serving) -> None:
    obj = {"metadata": {"name": "c"}, 'a"\\\r\nSet-Cookie: ü': 1}
    ((_, text),) = api.ask("POST", MAPS, obj).headers
    assert text == '299 - "unknown field \\"a\\"\\\\??Set-Cookie: ?\\""'


@pytest.mark.parametrize("path", ["/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/default/deployments/web"])
def test_a_read_of_a_built_in_kind_asks_for_nothing_else(api: Serving, path: str) -> None:
    """Not for the definitions of other kinds, which only discovery needs."""
    api.ask("GET", path)
    assert [call.plural for call in api.calls] == ["deployments"]
    api.calls.clear()
    api.ask("GET", "/apis/apps/v1")
    assert [call.plural for call in api.calls] == ["customresourcedefinitions"]
