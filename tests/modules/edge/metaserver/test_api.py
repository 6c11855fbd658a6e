"""The API over real sockets, asked as kubectl asks."""

import base64
import json
from contextlib import closing
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beehive import BeehiveError, Hive, Readiness, State
from beehive.http.responses import Response
from beehive.simulation import Simulation
from beehive.trace_context import current_context
from modules.apimachinery.application import Application, PatchInfo, StatusError, Target, Verb
from modules.apimachinery.errors import ApiStatusError
from modules.edge.metaserver.api import Api
from modules.edge.metaserver.application_agent import ApplicationAgent
from modules.edge.metaserver.resources import RESOURCES
from tests.modules.apimachinery.protobuf.test_decoding import CONFIG_MAP
from tests.modules.edge.metaserver.conftest import Served
from tests.modules.edge.metaserver.objects import drop, key, obj
from tests.support.kubectl import TABLE, wait_for

PODS = "/api/v1/namespaces/default/pods"


def test_discovery_names_every_kind_in_its_group(served: Served) -> None:
    found = served.kubectl.resources()
    assert {each.plural: each.group_version for each in RESOURCES}.items() <= found.items()
    assert "pods/log" in found
    assert served.kubectl.ask("/apis/storage.k8s.io").body["preferredVersion"]["version"] == "v1"
    version = served.kubectl.ask("/version?timeout=32s").body
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "32", "v1.32.10-kubeedge-v1.22.0")
    assert [served.kubectl.ask(path).body for path in ("/healthz", "/livez?verbose", "/readyz/ping")] == ["ok"] * 3
    assert "/api/v1" in served.kubectl.ask("/").body["paths"]


@pytest.mark.parametrize(
    "path",
    ["/openapi/v2", "/openapi/v3/apis/apps/v1", "/apis/none", "/apis/apps/v1", "/api/v2", "/metrics",
     "/api/v1/namespaces/default/nodes", f"{PODS}/web/scale", "/apis/metrics.k8s.io/v1beta1"],
)  # fmt: skip
def test_a_path_that_is_not_served_is_a_status(served: Served, path: str) -> None:
    status, body = served.kubectl.ask(path)
    assert (status, body["kind"], body["reason"], body["code"]) == (404, "Status", "NotFound", 404)


def test_kubectl_learns_that_fields_are_validated(served: Served) -> None:
    """Without it, `kubectl create` and `apply` want `--validate=false`; the cloud validates the fields."""
    url = served.kubectl.ask("/openapi/v3?timeout=32s").body["paths"]["api/v1"]["serverRelativeURL"]
    patch = served.kubectl.ask(url).body["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]


def test_get(served: Served) -> None:
    """As it is stored, as a row, as metadata; or the Status that clients know."""
    assert served.kubectl.ask(f"{PODS}/web?limit=ignored").body["spec"]["nodeName"] == "n1"
    assert served.kubectl.ask(f"{PODS}/web/status").body["status"] == {"phase": "Running"}
    assert served.kubectl.rows(f"{PODS}/web") == [["web", "0/1", "Running", "0", "<unknown>", "<none>", "n1", "<none>",
                                                   "<none>"]]  # fmt: skip
    partial = served.kubectl.ask(f"{PODS}/web", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").body
    assert (partial["kind"], partial["metadata"]["name"], "spec" in partial) == ("PartialObjectMetadata", "web", False)
    status, body = served.kubectl.ask(f"{PODS}/none")
    assert (status, body["message"]) == (404, 'pods "none" not found')
    assert body["details"] == {"name": "none", "kind": "pods"}
    lease = served.kubectl.ask("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1").body
    assert lease["message"] == 'leases.coordination.k8s.io "n1" not found'


def test_list(served: Served) -> None:
    everything = served.kubectl.ask("/api/v1/pods").body
    assert (everything["kind"], everything["apiVersion"]) == ("PodList", "v1")
    assert [each["metadata"]["name"] for each in everything["items"]] == ["web", "api"]
    assert everything["metadata"] == {"resourceVersion": str(served.cache.revision)}
    assert [row[0] for row in served.kubectl.rows("/api/v1/pods?labelSelector=app%3Dweb")] == ["web"]
    running = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1%2Cstatus.phase%21%3DFailed"
    assert [row[0] for row in served.kubectl.rows(running)] == ["web"]
    assert served.kubectl.ask("/api/v1/nodes").body["items"][0]["metadata"]["name"] == "n1"
    assert served.kubectl.ask("/api/v1/services").body["items"] == []


def test_a_table_has_its_columns(served: Served) -> None:
    table = served.kubectl.ask(PODS, TABLE).body
    assert [(each["name"], each["priority"]) for each in table["columnDefinitions"]][:6] == [
        ("Name", 0), ("Ready", 0), ("Status", 0), ("Restarts", 0), ("Age", 0), ("IP", 1),
    ]  # fmt: skip
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = served.kubectl.ask(f"{PODS}?includeObject=Object", TABLE).body
    assert whole["rows"][0]["object"]["spec"]["nodeName"] == "n1"
    assert "object" not in served.kubectl.ask(f"{PODS}?includeObject=None", TABLE).body["rows"][0]


def test_a_list_in_parts(served: Served) -> None:
    """Each part goes on after the last; all have the revision of the first, where a watch may begin. What comes
    meanwhile before the place is left to the watch.
    """
    served.has(*(obj(f"pod-{number}") for number in range(5)))
    revision = str(served.cache.revision)
    names, left, path = [], [], f"{PODS}?limit=2"
    while path:
        part = served.kubectl.ask(path).body
        names += [each["metadata"]["name"] for each in part["items"]]
        assert part["metadata"]["resourceVersion"] == revision
        left.append(part["metadata"].get("remainingItemCount"))
        token = part["metadata"].get("continue")
        path = f"{PODS}?limit=2&continue={token}" if token else ""
        served.has(obj("added", spec={"after": len(names)}))
    assert names == [*(f"pod-{number}" for number in range(5)), "web"]
    assert left == [4, 2, None]
    selected = served.kubectl.ask(f"{PODS}?limit=1&fieldSelector=metadata.namespace%3Ddefault").body["metadata"]
    assert "remainingItemCount" not in selected  # as in Kubernetes
    unknown = base64.urlsafe_b64encode(b'[999999,"default","pod-1"]').decode()
    assert served.kubectl.ask(f"{PODS}?limit=2&continue={unknown}").status == 410
    assert served.kubectl.ask(f"{PODS}?limit=2&continue=bm9uZQ==").status == 400


@pytest.mark.parametrize(
    ("path", "accept", "code"),
    [
        (f"{PODS}?fieldSelector=metadata.uid%3D1", "application/json", 400),
        (f"{PODS}?labelSelector=a%20b", "application/json", 400),
        (f"{PODS}?limit=many", "application/json", 400),
        (f"{PODS}?timeout=invalid", "application/json", 400),
        (f"{PODS}/web?timeout=1", "application/json", 400),
        (f"{PODS}?includeObject=All", TABLE, 400),
        (PODS, "application/vnd.kubernetes.protobuf", 406),
        (PODS, "application/yaml", 406),
        ("/api/v1/namespaces/default/secrets", "application/json", 403),
        ("/api/v1/namespaces/default/secrets/pass", "application/json", 403),
        (f"{PODS}/web/log", "application/json", 503),
        (f"{PODS}/web/exec?command=ls", "application/json", 403),
        ("/apis/apps/v1/deployments?watch=true", "application/json", 405),
    ],
)
def test_a_refusal_has_its_reason(served: Served, path: str, accept: str, code: int) -> None:
    status, body = served.kubectl.ask(path, accept)
    assert (status, body["code"], bool(body["message"])) == (code, code, True)
    assert "aGVsbG8" not in json.dumps(body)


@pytest.mark.parametrize("revision", ["17", "x"])
def test_a_watch_of_a_revision_that_is_not_known_ends_with_an_error(served: Served, revision: str) -> None:
    """In the stream, where all clients look for it."""
    status, body = served.kubectl.ask(f"{PODS}?watch=true&resourceVersion={revision}")
    assert (status, body["type"], body["object"]["code"]) == (200, "ERROR", 410)


def test_before_the_store_was_read_nothing_is_reported_to_be_missing(served: Served) -> None:
    """An empty list would have an informer forget what it knows."""
    served.cache.loaded = False
    assert [served.kubectl.ask(path).status for path in (PODS, f"{PODS}/web", "/readyz")] == [503, 503, 503]


@pytest.mark.parametrize(
    ("headers", "served_"),
    [({"Host": "127.0.0.1:10550"}, True), ({"Host": "localhost"}, True), ({"Host": "[::1]:1"}, True),
     ({"Host": "evil.example"}, False), ({"Host": "evil.example:10550"}, False), ({"Origin": "http://x"}, False),
     ({"Sec-Fetch-Site": "cross-site"}, False), ({"Sec-Fetch-Site": "none"}, True)],
)  # fmt: skip
def test_pages_of_browsers_are_refused(served: Served, headers: dict[str, str], served_: bool) -> None:
    """Also a page whose own DNS name resolves to the loopback address."""
    assert served.kubectl.ask(PODS, **headers).status == (200 if served_ else 403)


_CREDENTIALS = [
    ("POST", "/api/v1/namespaces/default/serviceaccounts/app/token"),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/app/token/more"),
    ("POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests"),
    ("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests/mine"),
    ("GET", "/api/v2/namespaces/default/secrets/pass"),
    ("GET", "/api/v2/secrets?fieldSelector=metadata.name%3Dpass"),
    ("GET", "/api/v1/namespaces/default/secrets/pass/status"),
    ("PATCH", "/api/v1/namespaces/default/secrets/pass"),
]


@pytest.mark.parametrize(("method", "path"), _CREDENTIALS)
def test_whoever_reaches_the_address_gets_no_credentials(served: Served, method: str, path: str) -> None:
    """The node may ask the cloud for tokens of its pods, their secrets, and a certificate of its own; this port asks
    for no credentials. Any local user got them.
    """
    served.cloud_answers(status="Approved", resp_body=b'{"status":{"token":"a"}}')
    status, answer = served.kubectl.ask(path, method=method, body=None if method == "GET" else {"kind": "Any"})
    assert (status, answer["reason"], served.asked) == (403, "Forbidden", [])


@pytest.mark.parametrize("group", ["core", "null"])
@pytest.mark.parametrize(
    ("method", "rest"),
    [("GET", "secrets/pass"), ("DELETE", "secrets/pass"), ("POST", "serviceaccounts/app/token"), ("GET", "secrets")],
)
def test_no_other_word_for_the_core_group_has_credentials(served: Served, group: str, method: str, rest: str) -> None:
    """The key of an Application has `core` for the core group and `null` for an absent part: the cloud read a path with
    either as the group of the secrets, which the check of the path did not know under these names.
    """
    served.cloud_answers(status="Approved", resp_body=b'{"data":{"x":"aGVsbG8="}}')
    path = f"/apis/{group}/v1/namespaces/default/{rest}"
    status, _ = served.kubectl.ask(path, method=method, body={"kind": "Any"} if method == "POST" else None)
    assert (status, served.asked) == (404, [])


def test_credentials_are_served_with_secrets(echoing: Served) -> None:
    """That is what `serveSecrets` is for; the owner's socket serves them, too."""
    echoing.cloud_answers(status="Approved", resp_body=b'{"done":1}')
    path = "/api/v1/namespaces/default/serviceaccounts/app/token"
    assert echoing.kubectl.ask(path, method="POST", body={"kind": "TokenRequest"}).status == 201


def test_secrets_and_logs_where_they_are_served(echoing: Served) -> None:
    assert echoing.kubectl.ask("/api/v1/namespaces/default/secrets/pass").body["data"] == {"x": "aGVsbG8="}
    asked = echoing.kubectl.ask(f"{PODS}/web/log?container=app&follow=true").body
    assert asked == "('containerLogs', 'default', 'web', 'app') (('container', 'app'), ('follow', 'true'))"
    assert "only-web" in echoing.kubectl.ask(f"{PODS}/web/log").body
    assert echoing.kubectl.ask(f"{PODS}/none/log").body["message"] == 'pods "none" not found'


def test_watch_begins_where_the_list_ended(served: Served) -> None:
    """`kubectl get pods -w`: tables; objects that begin or cease to fit a selector come and go."""
    revision = served.kubectl.ask(PODS, TABLE).body["metadata"]["resourceVersion"]
    served.has(obj("web", labels={"app": "web"}, status={"phase": "Failed"}))
    path = f"{PODS}?watch=true&resourceVersion={revision}&labelSelector=app"
    with served.kubectl.watch(path, TABLE) as events:
        first = next(events)
        assert (first["type"], first["object"]["rows"][0]["cells"][2]) == ("MODIFIED", "Failed")
        served.has(obj("plain"), obj("web"), obj("api", "other", labels={"app": "x"}))
        gone = next(events)
        assert (gone["type"], gone["object"]["rows"][0]["cells"][0]) == ("DELETED", "web")
        served.has(obj("plain", labels={"app": "y"}))
        assert next(events)["type"] == "ADDED"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/services", "/api/v1/endpoints", "/api/v1/namespaces",
        "/apis/discovery.k8s.io/v1/endpointslices",
        "/apis/networking.istio.io/v1alpha3/destinationrules", "/apis/networking.istio.io/v1alpha3/gateways",
        "/apis/networking.istio.io/v1alpha3/virtualservices",
    ],
)  # fmt: skip
def test_an_edgemesh_agent_lists_and_watches_its_kinds(served: Served, path: str) -> None:
    """The requests of KubeEdge's edgemesh-agent v1.17 and of CoreDNS in it, offline: it waits for each of the lists."""
    selector = (
        "labelSelector=%21service.kubernetes.io%2Fheadless%2C%21service.edgemesh.kubeedge.io%2Fservice-proxy-name"
    )
    status, listed = served.kubectl.ask(f"{path}?{selector}&limit=500&resourceVersion=0")
    assert (status, listed["items"]) == (200, [])
    revision = listed["metadata"]["resourceVersion"]
    options = f"allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds=300&watch=true"
    kind = listed["kind"].removesuffix("List")
    made = obj("one", "" if kind == "Namespace" else "default", kind, labels={"app": "x"})
    with served.kubectl.watch(f"{path}?{selector}&{options}") as events:
        served.has(made)
        assert wait_for(events, type="ADDED")["object"]["metadata"]["name"] == "one"


def test_watch_with_the_present_objects_first(served: Served) -> None:
    """`resourceVersion=0`, and of one object by its path; deletions carry the last state."""
    with served.kubectl.watch(f"{PODS}/web?watch=true&resourceVersion=0") as events:
        assert next(events)["type"] == "ADDED"
        served.has(obj("other"))
        drop(served.cache, key("web"))
        event = next(events)
        assert (event["type"], event["object"]["status"]) == ("DELETED", {"phase": "Running"})


def test_an_informer_gets_bookmarks_of_our_revisions(served: Served) -> None:
    """It begins with the initial events, and after each burst knows where it may begin again."""
    path = f"{PODS}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    with served.kubectl.watch(path) as events:
        assert next(events)["type"] == "ADDED"
        mark = next(events)["object"]
        assert mark["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
        served.has(obj("new"))
        wait_for(events, type="ADDED")
        revision = wait_for(events, type="BOOKMARK")["object"]["metadata"]["resourceVersion"]
    served.has(obj("newer"))
    with served.kubectl.watch(f"{PODS}?watch=true&resourceVersion={revision}") as events:
        assert next(events)["object"]["metadata"]["name"] == "newer"


def test_a_watch_ends_when_it_was_to(served: Served) -> None:
    with served.kubectl.watch(f"{PODS}?watch=true&timeoutSeconds=1") as events:
        assert [each["type"] for each in events] == ["ADDED"]


WRITES: list[tuple[str, str, Any, str, str, Any]] = [
    ("POST", PODS, {"kind": "Pod"}, "create", "/core/v1/pods/default/null", {"kind": "Pod"}),
    ("PUT", f"{PODS}/web", {"kind": "Pod"}, "update", "/core/v1/pods/default/web", {"kind": "Pod"}),
    ("PUT", "/api/v1/nodes/n1/status", {}, "updatestatus", "/core/v1/nodes/null/n1", {}),
    ("DELETE", "/apis/apps/v1/namespaces/x/deployments/d", None, "delete", "/apps/v1/deployments/x/d", None),
]


@pytest.mark.parametrize(("method", "path", "body", "verb", "application", "carried"), WRITES)
def test_a_change_goes_to_the_cloud(
    served: Served, method: str, path: str, body: Any, verb: str, application: str, carried: Any
) -> None:
    """As KubeEdge's Application, in a message as its metaserver sends it."""
    served.cloud_answers(status="Approved", resp_body=b'{"done":1}')
    status, answer = served.kubectl.ask(f"{path}?fieldManager=kubectl&dryRun=All", method=method, body=body)
    assert (status, answer) == (201 if method == "POST" else 200, {"done": 1})
    ((message, app),) = served.asked
    route = message.route
    assert (route.source, route.group, route.resource, route.operation) == (
        "metaserver", "dynamiccontroller", "null", "null",
    )  # fmt: skip
    assert (app.verb, app.key, app.nodename, len(app.id)) == (verb, application, "n1", 64)
    assert json.loads(app.option or b"") == {"fieldManager": "kubectl", "dryRun": ["All"]}
    assert (None if app.req_body is None else json.loads(app.req_body)) == carried


@pytest.mark.parametrize(
    ("method", "path", "plural"),
    [
        ("POST", "/api/v1/pods/unhold-upgrade", "pods"),
        ("POST", "/api/v1/nodes/unhold-upgrade", "nodes"),
        ("PUT", "/api/v1/nodes/unhold-upgrade", ""),
        ("POST", "/api/v1/pods/web", ""),
        ("POST", "/apis/apps/v1/namespaces/default/deployments/unhold-upgrade", ""),
    ],
)
@pytest.mark.parametrize("has_edged", [True, False])
def test_only_a_request_to_unhold_is_answered_by_the_node(
    method: str, path: str, plural: str, *, has_edged: bool
) -> None:
    """Any other change goes to the cloud, and that too where edged does not run."""
    asked: list[tuple[str, str]] = []

    def unhold(kind: str, body: str) -> Response:
        asked.append((kind, body))
        return Response(200, "text/plain", b"ok")

    with closing(Served(unhold=unhold if has_edged else None)) as served:
        served.cloud_answers(status="Approved", resp_body=b"{}")
        served.kubectl.ask(path, method=method, body={"kind": "Pod"})
        is_answered = bool(plural) and has_edged
        assert asked == ([(plural, '{"kind": "Pod"}')] if is_answered else [])
        if is_answered:
            assert served.kubectl.ask(path, method=method, body=b"a/\xff\n").status == 200
            assert asked[1] == (plural, "a/\ufffd")
        assert len(served.asked) == (not is_answered)


@pytest.mark.parametrize("path", ["/api/v1/taskupgrade/confirm-upgrade", "/api/v1/namespaces/default/pods/restart"])
def test_commands_of_keadm_that_are_not_served_name_what_is(served: Served, path: str) -> None:
    """The bodies are no objects: `keadm ctl confirm` has none, and `restart` a list."""
    found = served.kubectl.ask(path, method="POST", body=b'["web"]')
    assert found.status == 403
    assert "is not served here: " in found.body["message"]
    assert served.asked == []


@pytest.mark.parametrize("stream", ["exec", "attach", "portforward", "proxy"])
def test_no_stream_into_a_container_is_served_or_asked_of_the_cloud(served: Served, stream: str) -> None:
    served.cloud_answers(status="Approved", resp_body=b"{}")
    assert served.kubectl.ask(f"/api/v1/namespaces/default/pods/web/{stream}", method="POST").status == 403
    assert served.asked == []


def test_a_body_in_protobuf_travels_as_json(served: Served) -> None:
    """kubectl's typed clients send it: `create configmap`, `auth can-i`."""
    served.cloud_answers(status="Approved", resp_body=b"{}")
    media = "application/vnd.kubernetes.protobuf"
    asked: dict[str, Any] = {"method": "POST", "body": bytes.fromhex(CONFIG_MAP), "Content_Type": media}
    path = "/api/v1/namespaces/default/configmaps"
    assert served.kubectl.ask(path, f"{media},application/json", **asked).status == 201
    body = json.loads(served.asked[0][1].req_body or b"")
    assert (body["kind"], body["data"]) == ("ConfigMap", {"a": "b"})
    asked["body"] = b"k8s"
    assert served.kubectl.ask(path, **asked).status == 400


def test_a_patch_travels_with_its_type(served: Served) -> None:
    served.cloud_answers(status="Approved", resp_body=b"{}")
    kind = "application/merge-patch+json"
    served.kubectl.ask(f"{PODS}/web/status", method="PATCH", body={"a": 1}, Content_Type=kind)
    app = served.asked[0][1]
    wanted = {"Name": "web", "PatchType": kind, "Data": "eyJhIjogMX0=", "Options": {}, "Subresources": ["status"]}
    assert json.loads(app.option or b"") == wanted
    assert (app.subresource, PatchInfo(name="", patch_type="", data=b"").subresources) == ("status", None)


def test_a_patch_may_take_fields_from_other_managers(served: Served) -> None:
    """A server-side apply that conflicts otherwise."""
    served.cloud_answers(status="Approved", resp_body=b"{}")
    path = f"{PODS}/web?fieldManager=me&force=true"
    served.kubectl.ask(path, method="PATCH", body={"a": 1}, Content_Type="application/apply-patch+yaml")
    assert json.loads(served.asked[0][1].option or b"")["Options"] == {"fieldManager": "me", "force": True}


def test_deletion_options_come_from_the_body(served: Served) -> None:
    served.cloud_answers(status="Approved")
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    assert served.kubectl.ask(f"{PODS}/web", method="DELETE", body=options).body["status"] == "Success"
    assert json.loads(served.asked[0][1].option or b"") == options


def test_kinds_that_the_node_does_not_keep_are_read_in_the_cloud(served: Served) -> None:
    served.cloud_answers(status="Approved", resp_body=b'{"kind":"DeploymentList"}')
    path = "/apis/apps/v1/namespaces/x/deployments"
    assert served.kubectl.ask(f"{path}?labelSelector=a%3Db&limit=500").body == {"kind": "DeploymentList"}
    served.kubectl.ask(f"{path}/d?resourceVersion=0")
    (_, listed), (_, got) = served.asked
    assert (listed.verb, listed.option, got.verb, got.option) == ("list", b'{"labelSelector":"a=b"}', "get", b"{}")


REFUSAL = {"status": "Failure", "message": "no", "reason": "Conflict", "code": 409}


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        ({"status": "Rejected", "error": StatusError(REFUSAL)}, 409, "no"),
        ({"status": "Rejected", "reason": "because"}, 500, "because"),
        ({"status": "Failed"}, 500, "did not say why"),
    ],
)
def test_a_refusal_of_the_cloud_is_the_answer(served: Served, answer: Any, code: int, message: str) -> None:
    served.cloud_answers(**answer)
    status, body = served.kubectl.ask(f"{PODS}/web", method="DELETE")
    assert (status, body["code"], body["kind"]) == (code, code, "Status")
    assert message in body["message"]


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ("null: not connected to the cloud", 503, "not connected"),
        ("null: the link ended, whether it arrived is not known", 504, "see whether it was done"),
        ("null: the frame would be larger than the cloud takes", 500, "larger"),
    ],
)
def test_without_an_answer_of_the_cloud_the_known_part_is_shown(
    served: Served, said: str, code: int, message: str
) -> None:
    served.hub_says(said)
    status, body = served.kubectl.ask(f"{PODS}/web", method="DELETE")
    assert (status, message in body["message"]) == (code, True)


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code"),
    [
        ("POST", PODS, b"kind: Pod", {"Content_Type": "application/yaml"}, 415),
        ("POST", PODS, b"[]", {}, 400),
        ("POST", PODS, b"{", {}, 400),
        ("PATCH", f"{PODS}/web", b"{}", {}, 415),
        ("PATCH", PODS, b"{}", {}, 405),
        ("POST", f"{PODS}/web/exec?command=ls", None, {}, 403),
        ("DELETE", PODS, None, {}, 405),
        ("DELETE", f"{PODS}/web?gracePeriodSeconds=-1", None, {}, 400),
        ("DELETE", f"{PODS}/web?gracePeriodSeconds=soon", None, {}, 400),
        ("DELETE", f"{PODS}/web?gracePeriodSeconds=1000000000", None, {}, 400),
        ("OPTIONS", PODS, None, {}, 405),
        ("POST", "/api", b"{}", {}, 404),
    ],
)
def test_a_change_that_cannot_be_read_goes_nowhere(
    served: Served, method: str, path: str, body: Any, headers: dict[str, str], code: int
) -> None:
    status, answer = served.kubectl.ask(path, method=method, body=body, **headers)
    assert (status, answer["code"], served.asked) == (code, code, [])


def test_a_body_that_is_too_long_is_not_read(served: Served) -> None:
    assert served.kubectl.ask(PODS, method="POST", body=b"x" * 2000).status == 413


def test_an_application_has_gos_names() -> None:
    """What KubeEdge's struct gives and takes."""
    encoded = json.loads(msgspec.json.encode(Application(key="/core/v1/pods/x/null", verb="list")))
    assert encoded == {
        "ID": "", "Key": "/core/v1/pods/x/null", "Verb": "list", "Nodename": "", "Option": None, "ReqBody": None,
        "Subresource": "", "RespBody": None, "Status": "InApplying", "Reason": "",
        "Error": {"ErrStatus": {"metadata": {}}}, "Timestamp": "0001-01-01T00:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("readiness", "said"),
    [
        (None, "it has not read its store yet"),
        (Readiness(State.NOT_READY), "it has not read its store yet"),
        (Readiness(State.NOT_READY, "the disk is full"), "the disk is full"),
        (Readiness(State.READY), "ok"),
    ],
)
def test_why_the_api_is_not_ready(readiness: Readiness | None, said: str) -> None:
    hive = SimpleNamespace(readiness=lambda: {} if readiness is None else {"metamanager": readiness})
    answer = Api._health(cast("Api", SimpleNamespace(_hive=hive, _cache=SimpleNamespace(loaded=True))))
    assert (answer.status == 200, said in answer.body.decode()) == (said == "ok", True)


@pytest.mark.parametrize("members", [[], ["metaserver"]])
def test_a_collection_is_followed_where_the_cloud_is_asked_for_it(members: list[str]) -> None:
    """As a whole: what a client reads of it may be one object."""
    sent = list[Target]()
    hive = SimpleNamespace(
        clock=Simulation(1).clock,
        members=lambda _: members,
        send=lambda _, message: sent.append(message.content_as(Target)),
    )
    is_followed = Api._follow(cast("Api", SimpleNamespace(_hive=hive)), Target("", "v1", "services", "shop", "db"))
    assert (is_followed, sent) == (bool(members), [Target("", "v1", "services", "shop")] * len(members))


def test_a_request_to_the_cloud_is_traced_as_metaservers() -> None:
    """And not as what the thread of the connection did before."""
    actors = list[str]()

    def request(*_given: object) -> None:
        actors.append(current_context().actor)
        raise BeehiveError("of this test")

    hive = cast("Hive", SimpleNamespace(clock=Simulation(1).clock, request=request))
    with pytest.raises(ApiStatusError, match="of this test"):
        copy_context().run(ApplicationAgent(hive, "n1").ask, Target("", "v1", "pods"), Verb.LIST, b"{}")
    assert actors == ["metaserver"]
