"""API calls as HTTP requests, and responses as results."""

import json
from itertools import product
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from modules.cloud.client.call_requests import CallError, collection_path, request_of, result_of, size_of
from modules.cloud.client.calls import STRATEGIC, ApiCall, is_write
from modules.cloud.client.transport import ApiResponse, ResponseHead
from tests.support.presence import present

POD: dict[str, Any] = {"api_version": "v1", "plural": "pods", "namespace": "default", "name": "web"}
PLACE = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("verb", "fields", "method", "path"),
    [
        ("get", {}, "GET", f"{PLACE}/web"),
        ("list", {}, "GET", PLACE),
        ("list", {"namespace": ""}, "GET", "/api/v1/pods"),
        ("create", {"name": "", "body": {}}, "POST", PLACE),
        ("create", {"body": {}}, "POST", PLACE),
        ("create", {"subresource": "eviction", "body": {}}, "POST", f"{PLACE}/web/eviction"),
        ("update", {"body": {}}, "PUT", f"{PLACE}/web"),
        ("update", {"body": {}, "subresource": "status"}, "PUT", f"{PLACE}/web/status"),
        ("updatestatus", {"body": {}}, "PUT", f"{PLACE}/web/status"),
        ("patch", {"body": {}, "patch_type": STRATEGIC}, "PATCH", f"{PLACE}/web"),
        ("delete", {}, "DELETE", f"{PLACE}/web"),
        ("delete", {"options": {"propagationPolicy": "Orphan"}}, "DELETE", f"{PLACE}/web"),
        ("list", {"options": {"limit": 1}}, "GET", f"{PLACE}?limit=1"),
        (
            "get",
            {"api_version": "storage.k8s.io/v1", "plural": "csidrivers", "namespace": ""},
            "GET",
            "/apis/storage.k8s.io/v1/csidrivers/web",
        ),
    ],
)
def test_each_verb(verb: str, fields: dict[str, Any], method: str, path: str) -> None:
    """What concerns a collection has no name in its path; options of a deletion are its body."""
    request = request_of(ApiCall(verb=verb, **{**POD, **fields}))
    assert (request.method, request.path) == (method, path)


@pytest.mark.parametrize("verb", ["get", "update", "updatestatus", "patch", "delete"])
def test_a_call_for_one_object_needs_a_name(verb: str) -> None:
    """Without one, a deletion would delete the collection."""
    with pytest.raises(CallError):
        request_of(ApiCall(verb=verb, **{**POD, "name": ""}, body={}))


_SEGMENTS = [
    "",
    ".",
    "..",
    "...",
    "a/b",
    "a%2fb",
    "%",
    "a b",
    "ä",
    "v1",
    "apps/v1",
    "a/b/c",
    "./v1",
    "a/..",
    "/v1",
    "v1/",
]


@pytest.mark.parametrize(
    "verb", ["get", "list", "create", "patch", "delete", "updatestatus", "watch", "document", "other"]
)
def test_the_size_of_a_call_is_that_of_its_request(verb: str) -> None:
    """And what has no form as a request has no size, so that it never waits in a lane."""
    for field, text in product(("name", "namespace", "plural", "subresource", "api_version"), _SEGMENTS):
        call = ApiCall(verb=verb, **{**POD, field: text}, body={"a": "b"}, options={"limit": 1})
        try:
            size = len(request_of(call).body)
        except CallError:
            with pytest.raises(CallError):
                size_of(call)
        else:
            assert size_of(call) == size, (field, text)


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%2fb", "../secrets/x"])
@pytest.mark.parametrize("field", ["name", "namespace", "plural", "subresource"])
def test_a_name_is_one_segment_of_the_path(field: str, name: str) -> None:
    with pytest.raises(CallError):
        request_of(ApiCall(verb="get", **{**POD, field: name}))


@pytest.mark.parametrize("version", ["", "/v1", "apps/", "storage.k8s.io/v1/volumeattachments", "../v1"])
def test_an_api_version_is_one_or_two_segments(version: str) -> None:
    """A third would be another resource, which was not authorized."""
    with pytest.raises(CallError):
        collection_path(version, "pods")


def test_other_characters_of_a_name_are_encoded() -> None:
    """A query cannot begin in a name."""
    assert request_of(ApiCall(verb="get", **{**POD, "name": "a?b=c#é"})).path == f"{PLACE}/a%3Fb%3Dc%23%C3%A9"


def test_a_call_with_a_node_is_made_in_its_name() -> None:
    """By impersonation: the cluster's RBAC decides."""
    headers = request_of(ApiCall(verb="get", api_version="v1", plural="pods", name="web", node="n1")).headers
    groups = [("Impersonate-Group", "system:nodes"), ("Impersonate-Group", "system:authenticated")]
    assert headers == (("Accept", "application/json"), ("Impersonate-User", "system:node:n1"), *groups)


@pytest.mark.parametrize("verb", ["proxy", "deletecollection"])
def test_an_unknown_verb_has_no_request(verb: str) -> None:
    """Nothing deletes collections: the selectors in the body of the request would count for nothing."""
    with pytest.raises(CallError, match=verb):
        request_of(ApiCall(verb=verb, **POD))


def test_options_become_the_query() -> None:
    """Booleans in lower case, lists as repeated parameters; what only objects have is left out, and so is `watch`, as
    no call waits for a response without an end.
    """
    options = {
        "labelSelector": "a=b,c",
        "limit": 5,
        "allowWatchBookmarks": True,
        "dryRun": ["All"],
        "continue": None,
        "kind": "ListOptions",
        "apiVersion": "v1",
        "watch": True,
    }
    query = parse_qsl(urlsplit(request_of(ApiCall(verb="list", **POD, options=options)).path).query)
    assert query == [("labelSelector", "a=b,c"), ("limit", "5"), ("allowWatchBookmarks", "true"), ("dryRun", "All")]


def test_the_options_of_a_deletion_are_its_body() -> None:
    """Their kind cannot be another, and the call's body is not sent."""
    options = {"gracePeriodSeconds": 0, "kind": "Other"}
    request = request_of(ApiCall(verb="delete", **POD, options=options, body={"metadata": {"uid": "x"}}))
    assert json.loads(request.body) == {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    assert dict(request.headers)["Content-Type"] == "application/json"


def test_a_patch_has_its_own_media_type() -> None:
    request = request_of(ApiCall(verb="patch", **POD, patch_type=STRATEGIC, body={"status": {}}))
    assert dict(request.headers)["Content-Type"] == STRATEGIC
    assert request.body == b'{"status":{}}'


def test_a_read_has_no_body() -> None:
    request = request_of(ApiCall(verb="get", **POD, body={"a": 1}))
    assert (request.body, dict(request.headers)) == (b"", {"Accept": "application/json"})


def result(status: int, body: bytes) -> Any:
    """The result in a response."""
    return result_of(ApiResponse(ResponseHead(status), body))


def test_an_object_is_the_result() -> None:
    """201 says that the object was created."""
    assert result(200, b'{"kind":"Pod"}').object == {"kind": "Pod"}
    assert not result(200, b"{}").created
    assert result(201, b"{}").created


def test_spec_and_status_of_an_object_that_is_passed_on_stay_text() -> None:
    body = b'{"kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"n1"},"status":{"phase":"Running"}}'
    found = result_of(ApiResponse(ResponseHead(200), body), is_passed_on=True).object
    assert found is not None
    assert found["metadata"] == {"name": "web"}
    assert [bytes(found[part]) for part in ("spec", "status")] == [b'{"nodeName":"n1"}', b'{"phase":"Running"}']


@pytest.mark.parametrize(
    ("verb", "subresource", "expected"),
    [("get", "", False), ("create", "", True), ("create", "token", False), ("update", "", True), ("patch", "x", True)],
)
def test_a_call_that_changes_an_object_is_a_write(verb: str, subresource: str, *, expected: bool) -> None:
    assert is_write(ApiCall(verb=verb, subresource=subresource, **POD)) is expected


def test_a_status_is_the_refusal() -> None:
    """Its code is the response's, and it has no kind: so KubeEdge's cloudcore passes it on to a node."""
    status = {"reason": "NotFound", "message": 'pods "web" not found', "details": {"name": "web"}}
    refusal = result(404, json.dumps({"kind": "Status", "apiVersion": "v1", **status}).encode()).refusal
    assert refusal == {**status, "code": 404}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"", "the response is no JSON object"),
        (200, b"[]", "[]"),
        (200, b'{"a":', '{"a":'),
        (200, b"\xff\xfe", "\ufffd\ufffd"),
        (502, b"<html>bad gateway</html>\n", "<html>bad gateway</html>"),
        (503, b'{"kind":"Pod"}', '{"kind":"Pod"}'),
        (302, b"{}", "{}"),
        (500, b"x" * 5000, "x" * 1000),
        (200, b"[" * 100_000, "[" * 1000),
    ],
)
def test_other_responses_than_an_api_servers_are_refusals(status: int, body: bytes, message: str) -> None:
    """A proxy's page, a cut response, something that is too deep: with a part of it as the message."""
    refusal = present(result(status, body).refusal)
    assert (refusal["code"], refusal["status"], refusal["message"]) == (status, "Failure", message)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "Unauthorized"), (403, "Forbidden"), (404, "NotFound"), (409, "Conflict"), (429, "TooManyRequests"),
     (500, "InternalError"), (502, "InternalError"), (503, "ServiceUnavailable")],
)  # fmt: skip
def test_a_refusal_in_plain_text_has_the_reason_of_its_status(status: int, reason: str) -> None:
    """kube-apiserver answers `404 page not found` where it has no such kind; clients look at the reason."""
    refusal = present(result(status, b"404 page not found\n").refusal)
    assert (refusal["code"], refusal["reason"], refusal["message"]) == (status, reason, "404 page not found")
    assert "kind" not in refusal
