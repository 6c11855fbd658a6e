"""Service account tokens of the stub: well formed, with the right claims, and signed by nobody.

There is no API server behind the stub that would accept them; a pod that only wants its token file gets one.
The token says of itself (`alg: none`) that it proves nothing.
"""

import base64
import json
from typing import Any

from modules.edgecontroller.kinds import JsonObject
from modules.edgecontroller.times import rfc3339

_AUDIENCE = "https://kubernetes.default.svc"
_DEFAULT_SECONDS = 3600
_LEAST_SECONDS = 600


def token_for(namespace: str, account: str, request: JsonObject, now: float) -> JsonObject:
    """The TokenRequest with a status, as the API server answers it.

    Args:
        namespace: of the service account.
        account: its name.
        request: authentication/v1 TokenRequest.
        now: seconds since the epoch.
    """
    spec = dict(request.get("spec") or {})
    spec["audiences"] = spec.get("audiences") or [_AUDIENCE]
    seconds = max(_LEAST_SECONDS, int(spec.get("expirationSeconds") or _DEFAULT_SECONDS))
    spec["expirationSeconds"] = seconds
    claims = {
        "aud": spec["audiences"],
        "exp": int(now) + seconds,
        "iat": int(now),
        "iss": _AUDIENCE,
        "kubernetes.io": _bound_to(namespace, account, spec.get("boundObjectRef") or {}),
        "sub": f"system:serviceaccount:{namespace}:{account}",
    }
    token = ".".join([_part({"alg": "none", "typ": "JWT"}), _part(claims), ""])
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account, "namespace": namespace, "creationTimestamp": rfc3339(now)},
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": rfc3339(now + seconds)},
    }


def _bound_to(namespace: str, account: str, reference: JsonObject) -> JsonObject:
    claims: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": account}}
    if reference.get("kind"):
        claims[str(reference["kind"]).lower()] = {"name": reference.get("name"), "uid": reference.get("uid")}
    return claims


def _part(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode("ascii")
