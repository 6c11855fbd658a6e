"""Approved certificate requests get certificates, or the condition Failed; old ones are deleted."""

from base64 import b64encode
from typing import Any

import pytest

from beehive.errors import BeehiveError
from modules.apimachinery.kinds import JsonObject, key_of
from modules.apimachinery.strategic_merge import merge_json
from modules.apimachinery.times import format_rfc3339
from modules.cloud.controllers.certificate_request import KIND, SIGNER, reconciler
from modules.cloud.controllers.plan import NOTHING, ReconcilePlan, delete
from modules.cloud.controllers.view import View

NOW = 1_795_139_667.0
YEAR = 365 * 24 * 3600
APPROVED = {"type": "Approved", "status": "True", "reason": "KubectlApprove"}


def request(*conditions: JsonObject, **spec: Any) -> JsonObject:
    """A request that an administrator has approved, or with other conditions."""
    wanted = {"request": b64encode(b"asked").decode(), "signerName": SIGNER, "usages": ["client auth"], **spec}
    status = {"conditions": [*(conditions or (APPROVED,))]}
    metadata = {"name": "jane", "uid": "1", "resourceVersion": "7", "creationTimestamp": format_rfc3339(NOW)}
    return {"apiVersion": "certificates.k8s.io/v1", "kind": KIND, "metadata": metadata, "spec": wanted,
            "status": status}  # fmt: skip


def signed(obj: JsonObject) -> tuple[JsonObject | None, list[tuple[bytes, float, float]]]:
    """Return the status that the controller writes, and what was signed."""
    asked: list[tuple[bytes, float, float]] = []

    def sign(*what: Any) -> bytes:
        asked.append(what)
        if what[0] == b"wrong":
            raise BeehiveError("cannot sign", "system:masters is reserved")
        return b"made"

    view = View()
    view.put(obj)
    plan = reconciler(sign)(view, key_of(obj), NOW)
    assert not plan.writes
    if plan.status is None:
        assert plan in (NOTHING, ReconcilePlan(again_at=NOW + 24 * 3600))
        return None, asked
    call = plan.status.call
    assert (call.verb, call.subresource, call.body["metadata"]["resourceVersion"]) == ("update", "status", "7")
    return call.body["status"], asked


@pytest.mark.parametrize(("seconds", "lasts"), [(None, YEAR), (3600, 3600), (60, 600), (YEAR + 1, YEAR)], ids=str)
def test_an_approved_request_gets_its_certificate(seconds: int | None, lasts: int) -> None:
    """For as long as it asks for, within ten minutes and a year."""
    usages = ["digital signature", "key encipherment", "client auth"]
    status, asked = signed(request(usages=usages, **({"expirationSeconds": seconds} if seconds else {})))
    assert asked == [(b"asked", NOW, lasts)]
    assert status == {"conditions": [APPROVED], "certificate": b64encode(b"made").decode()}


@pytest.mark.parametrize(
    "obj",
    [
        request({"type": "Denied", "status": "True"}),
        request({"type": "Other", "status": "True"}),
        request({**APPROVED, "status": "False"}),
        request(APPROVED, {"type": "Failed", "status": "True"}),
        request(signerName="kubernetes.io/kube-apiserver-client-kubelet"),
        request(signerName="kubernetes.io/kubelet-serving"),
        request(signerName="example.com/own"),
        {**request(), "status": {"conditions": [APPROVED], "certificate": "bWFkZQ=="}},
        {name: value for name, value in request().items() if name != "status"},
    ],
)
def test_no_other_request_is_signed(obj: JsonObject) -> None:
    assert signed(obj) == (None, [])


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"usages": ["client auth", "server auth"]}, "invalid usage for client certificate: server auth"),
        ({"usages": ["key encipherment"]}, "missing required usage for client certificate: client auth"),
        ({"request": b64encode(b"wrong").decode()}, "system:masters is reserved"),
        ({"request": "a"}, "unable to parse csr"),
    ],
)
def test_a_request_that_breaks_a_rule_fails(spec: JsonObject, why: str) -> None:
    """With the condition of kube-controller-manager; the approval stays."""
    status, _ = signed(request(**spec))
    assert status is not None
    approved, failed = status["conditions"]
    assert (approved, "certificate" in status) == (APPROVED, False)
    assert (failed["type"], failed["status"], failed["reason"]) == ("Failed", "True", "SignerValidationFailure")
    assert why in failed["message"]


def of_age(seconds: float, *conditions: str, **status: Any) -> JsonObject:
    """A request of so many seconds, whose conditions are as old."""
    then = format_rfc3339(NOW - seconds)
    made = [{"type": each, "status": "True", "lastUpdateTime": then} for each in conditions]
    obj = request(signerName="example.com/own")
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": then}, "status": {"conditions": made, **status}}


@pytest.mark.parametrize(
    ("kept", "seconds"),
    [
        (of_age(86399), 1),
        (of_age(3599, "Approved", certificate="bWFkZQ=="), 1),
        (of_age(3599, "Denied"), 1),
        (of_age(3500, "Approved", "Failed"), 100),
        (of_age(86401, "Approved"), None),
        (merge_json(of_age(86401), {"metadata": {"deletionTimestamp": format_rfc3339(NOW)}}), None),
    ],
)
def test_old_requests_are_deleted(kept: JsonObject, seconds: int | None) -> None:
    """A day after they were made, or an hour after they were answered; not what a signer still has to answer."""
    reconcile, view = reconciler(lambda *_: b""), View()
    view.put(kept)
    assert reconcile(view, key_of(kept), NOW) == ReconcilePlan(again_at=None if seconds is None else NOW + seconds)
    if seconds is not None:
        assert reconcile(view, key_of(kept), NOW + seconds) == ReconcilePlan((delete(kept),))
