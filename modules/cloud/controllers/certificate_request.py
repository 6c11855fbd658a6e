"""The controller of certificate requests: it has certificates made for clients of the API server, and deletes old
requests.

From kube-controller-manager's `certificates/signer`, for the signer `kubernetes.io/kube-apiserver-client` alone: whose
requests are approved is decided by people with the verb `approve` on it. What breaks a rule gets the condition Failed.
Requests of any signer are deleted as by its `certificates/cleaner`.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Final

from beehive.errors import BeehiveError
from modules.apimachinery.conditions import condition_in, conditions_of
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.apimachinery.validation.statuses import APPROVED, DENIED, FAILED
from modules.cloud.controllers.engine import Reconcile
from modules.cloud.controllers.plan import NOTHING, ReconcilePlan, delete, update_status
from modules.cloud.controllers.pods import created_at
from modules.cloud.controllers.view import View

KIND: Final = "CertificateSigningRequest"
SIGNER: Final = "kubernetes.io/kube-apiserver-client"
SignClient = Callable[[bytes, float, float], bytes]
"""Returns a client's certificate in PEM for a request in PEM, from a time (seconds since the epoch) on, valid for so
many seconds. Raises BeehiveError for a request that breaks a rule."""
_AUTHENTICATES: Final = "client auth"
_USAGES: Final = ("digital signature", "key encipherment", _AUTHENTICATES)
_LONGEST: Final = 365 * 24 * 3600
"""Seconds that a certificate is valid, and by default is (`--cluster-signing-duration`)."""
_SHORTEST: Final = 600
_ANSWERED_SECONDS: Final = 3600.0
_PENDING_SECONDS: Final = 24 * 3600.0
"""For so long requests stay that are answered, since the answer, and that are not."""


def reconciler(sign: SignClient) -> Reconcile:
    """Return the controller that signs with an authority."""

    def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
        request = view.find(key)
        if request is None or is_being_deleted(request):
            return NOTHING
        if not _waits(request):
            ends = _ends_at(request)
            if ends is None or ends > now:
                return ReconcilePlan(again_at=ends)
            return ReconcilePlan((delete(request),))
        spec, status = request["spec"], request.get("status") or {}
        why = _fault_of(spec.get("usages") or ())
        made = b""
        if not why:
            try:
                made = sign(b64decode(str(spec.get("request"))), now, _seconds(spec.get("expirationSeconds")))
            except binascii.Error as error:
                why = f"unable to parse csr: {error}"
            except BeehiveError as error:
                why = str(error)
        if why:
            conditions = [*(status.get("conditions") or ()), _failed(why, format_rfc3339(now))]
            return ReconcilePlan(status=update_status(request, {**status, "conditions": conditions}))
        return ReconcilePlan(status=update_status(request, {**status, "certificate": b64encode(made).decode()}))

    return reconcile


def _ends_at(request: JsonObject) -> float | None:
    """Return when a request is deleted, in seconds since the epoch; None for one that is approved and not issued."""
    conditions, is_issued = conditions_of(request), bool((request.get("status") or {}).get("certificate"))
    if not conditions:
        return created_at(request) + _PENDING_SECONDS
    last = (DENIED, FAILED, APPROVED) if is_issued else (DENIED, FAILED)
    times = (parse_rfc3339(str(each.get("lastUpdateTime"))) for each in conditions if each.get("type") in last)
    return min((time + _ANSWERED_SECONDS for time in times if time is not None), default=None)


def _waits(request: JsonObject) -> bool:
    """Return whether a request is approved, and neither answered nor another signer's."""
    status = request.get("status") or {}
    conditions = [each for each in status.get("conditions") or () if each.get("status") == "True"]
    is_approved = bool(condition_in(conditions, APPROVED))
    is_ended = status.get("certificate") or condition_in(conditions, DENIED) or condition_in(conditions, FAILED)
    return request["spec"].get("signerName") == SIGNER and is_approved and not is_ended


def _fault_of(usages: Sequence[str]) -> str:
    """Return the fault of the usages of a client's certificate, "" without one."""
    other = next((each for each in usages if each not in _USAGES), "")
    if other:
        return f"invalid usage for client certificate: {other}"
    return "" if _AUTHENTICATES in usages else f"missing required usage for client certificate: {_AUTHENTICATES}"


def _seconds(asked: object) -> float:
    return min(max(asked, _SHORTEST), _LONGEST) if isinstance(asked, int) else _LONGEST


def _failed(why: str, now: str) -> JsonObject:
    times = {"lastUpdateTime": now, "lastTransitionTime": now}
    return {"type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": why, **times}
