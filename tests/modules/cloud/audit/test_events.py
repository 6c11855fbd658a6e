"""Events of the audit log: Kubernetes' fields, and nothing that may be secret."""

from typing import Any

import msgspec
import pytest

from beehive.http.request import Request, request_from
from beehive.http.server import RequestHead
from modules.cloud.apiserver.access.service import attributes_of
from modules.cloud.audit.events import AuditEvent, audit_event, shown_uri
from modules.cloud.authentication.users import User

_ALICE = User("alice", "1", ("admins",))
_HEADERS = (("user-agent", "kubectl/v1.32"), ("authorization", "Bearer s3cret"))


def request(target: str, method: str = "GET", **fields: Any) -> Request:
    """Return a request."""
    made = request_from(RequestHead(method, target, _HEADERS, "1.1"), b"")
    return msgspec.structs.replace(made, address="192.0.2.7", **fields)


def event(asked: Request, **fields: Any) -> AuditEvent:
    """Return the event of its end."""
    values: dict[str, Any] = {
        "user": _ALICE, "impersonated": None, "asked": attributes_of(asked), "created": b"", "code": 200,
        "decision": "allow", "received": 1_000_000_000.25, "now": 1_000_000_001.5, **fields,
    }  # fmt: skip
    return audit_event(asked, "id-1", "ResponseComplete", **values)


def test_an_event_has_kubernetes_fields_in_its_order() -> None:
    """As kube-apiserver writes them at the level Metadata."""
    asked = request("/apis/apps/v1/namespaces/shop/deployments/web/scale?fieldManager=k", "PATCH", body=b"s3cret")
    assert msgspec.json.encode(event(asked, impersonated=User("bob"))).decode() == (
        '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-1","stage":"ResponseComplete",'
        '"requestURI":"/apis/apps/v1/namespaces/shop/deployments/web/scale?fieldManager=k","verb":"patch",'
        '"user":{"username":"alice","uid":"1","groups":["admins","system:authenticated"]},'
        '"impersonatedUser":{"username":"bob","groups":["system:authenticated"]},'
        '"sourceIPs":["192.0.2.7"],"userAgent":"kubectl/v1.32",'
        '"objectRef":{"resource":"deployments","namespace":"shop","name":"web","apiGroup":"apps","apiVersion":"v1",'
        '"subresource":"scale"},"responseStatus":{"metadata":{},"code":200},'
        '"requestReceivedTimestamp":"2001-09-09T01:46:40.250000Z","stageTimestamp":"2001-09-09T01:46:41.500000Z",'
        '"annotations":{"authorization.k8s.io/decision":"allow"}}'
    )


def test_what_was_created_is_named() -> None:
    """The name is in the answer, also a generated one; what is no JSON, or long, names nothing."""
    asked = request("/api/v1/namespaces/shop/pods", "POST")
    created = b'{"metadata":{"name":"web-x","uid":"u1","resourceVersion":"7","labels":{"a":"s3cret"}},"spec":{}}'
    found = event(asked, created=created, code=201).object_ref
    assert found is not None
    assert (found.name, found.namespace, found.api_version) == ("web-x", "shop", "v1")
    for other in (b"{", b"[]", b'{"metadata":7}', created.ljust(300_000)):
        assert event(asked, created=other).object_ref == msgspec.structs.replace(found, name="")


def test_a_failure_is_told_without_its_message() -> None:
    """Which may quote what was sent."""
    status = event(request("/api/v1/pods"), code=400).response_status
    assert msgspec.json.encode(status) == b'{"metadata":{},"status":"Failure","code":400}'


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/api/v1/pods?watch=1&labelSelector=a%3Db", "/api/v1/pods?watch=1&labelSelector=a=b"),
        ("/api/v1/pods?token=s3cret&limit=5", "/api/v1/pods?limit=5&redacted"),
        ("/api/v1/namespaces/a/pods/b/exec?command=mysql&command=-ps3cret&container=c",
         "/api/v1/namespaces/a/pods/b/exec?container=c&redacted"),
        ("/api/v1/pods?s3cret", "/api/v1/pods?redacted"),
        ("/cloudcore/tokens/t1?reason=lost%0Aforged", "/cloudcore/tokens/t1?reason=lost%0Aforged"),
        ("/api/%0a", "/api/%0a"),
    ],
)  # fmt: skip
def test_only_known_parameters_are_shown(target: str, shown: str) -> None:
    made = Request(method="GET", target=target, parts=(), query=request(target.replace("%0a", "x")).query)
    assert shown_uri(made) == shown


def test_an_event_is_bounded() -> None:
    """Whatever a client sends."""
    long = "x\x1b" * 40_000
    selectors = [f"fieldSelector=metadata.name={long}", *(f"labelSelector={'y' * 9000}" for _ in range(1000))]
    asked = request(f"/api/v1/namespaces?{'&'.join(selectors)}", "x" * 60_000)
    asked = msgspec.structs.replace(asked, target=f"/{long}?{long}", headers=(("user-agent", long),))
    user = User(long, long, tuple(f"{number}{long}" for number in range(1000)))
    encoded = msgspec.json.encode(event(asked, user=user, impersonated=user))
    assert len(encoded) < 64 * 1024
    assert b"\x1b" not in encoded
