"""Callers with tokens of a cluster: its API server identifies them, and decides by RBAC whether they may call."""

import hashlib
import threading
from collections import OrderedDict
from http import HTTPStatus
from typing import Any, Final

from beehive.clock import Clock
from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.router.callers import CallApi
from modules.cloud.rules import RULE

REMEMBERED_SECONDS: Final = 10.0
"""Seconds that a decision counts (a kubelet's webhook: two minutes for tokens)."""
_MOST: Final = 1000
"""Decisions that are remembered."""
_LONGEST: Final = 16 * 1024
"""Characters of a token."""
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SUBRESOURCE: Final = "proxy"
"""Callers need a right to `rules/proxy` in the namespace of the rule, with the verb of their method."""

_Refusal = tuple[int, str] | None


class ReviewedCallers:
    """Callers that a cluster decides on, by TokenReview and SubjectAccessReview (`Callers`); decisions are remembered
    for a moment.

    Args:
        clock: of the moment.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, _Refusal]] = OrderedDict()

    def check(self, request: Request, api: CallApi) -> None:
        """Demand a token, and the right."""
        scheme, _, token = request.header("authorization").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST:
            raise ApiStatusError(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        namespace = request.parts[1] if len(request.parts) > 1 else ""
        verb = _VERBS.get(request.method, "get")
        key = hashlib.sha256(f"{verb} {namespace} {token}".encode()).digest()
        now = self._clock.monotonic()
        with self._lock:
            known = self._known.get(key)
        refusal = known[1] if known is not None and known[0] > now else self._review(key, token, namespace, verb, api)
        if refusal is not None:
            raise ApiStatusError(*refusal)

    def _review(self, key: bytes, token: str, namespace: str, verb: str, api: CallApi) -> _Refusal:
        refusal = _refusal(token, namespace, verb, api)
        with self._lock:
            self._known[key] = self._clock.monotonic() + REMEMBERED_SECONDS, refusal
            self._known.move_to_end(key)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return refusal


def _refusal(token: str, namespace: str, verb: str, api: CallApi) -> _Refusal:
    """Return why a request is refused, or None. Raise ApiStatusError when the API server refuses a review."""
    status = _status(api(_create("authentication.k8s.io/v1", "TokenReview", {"token": token})))
    user = status.get("user")
    if status.get("authenticated") is not True or not isinstance(user, dict):
        return HTTPStatus.UNAUTHORIZED, "Unauthorized"
    who = {name: user[field] for name, field in _USER if user.get(field)}
    asked = {"group": RULE.api_group, "resource": RULE.plural, "subresource": SUBRESOURCE}
    wanted = {**who, "resourceAttributes": {**asked, "verb": verb, "namespace": namespace}}
    status = _status(api(_create("authorization.k8s.io/v1", "SubjectAccessReview", wanted)))
    if status.get("allowed") is True:
        return None
    name = str(user.get("username"))[:253]
    where = f'in the namespace "{namespace}"'
    why = f'User "{name}" cannot {verb} resource "rules/{SUBRESOURCE}" in API group "{RULE.api_group}" {where}'
    return HTTPStatus.FORBIDDEN, f"calls of nodes are forbidden: {why}"


_USER: Final = (("user", "username"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra"))
"""The fields of a SubjectAccessReview, and of a TokenReview's user."""


def _status(result: ApiResult) -> dict[str, Any]:
    if result.object is None:
        why = str((result.refusal or {}).get("message", ""))[:300]
        raise ApiStatusError(HTTPStatus.SERVICE_UNAVAILABLE, f"the cluster reviews no credentials: {why}")
    status = result.object.get("status")
    return status if isinstance(status, dict) else {}


def _create(api_version: str, kind: str, spec: JsonObject) -> ApiCall:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec}
    return ApiCall(verb="create", api_version=api_version, plural=f"{kind.lower()}s", body=body)
