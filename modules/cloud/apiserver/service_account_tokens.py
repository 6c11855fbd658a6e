"""Service account tokens: well formed, with the right claims, and unsigned (`alg: none`).

No Kubernetes API would accept them; they serve pods that only need a token file.
"""

import base64
import json
from typing import Any

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.times import format_rfc3339

_AUDIENCE = "https://kubernetes.default.svc"
_DEFAULT_SECONDS = 3600
_LEAST_SECONDS = 600


def fill_token_request(namespace: str, account: str, request: JsonObject, now: float) -> JsonObject:
    """Return a TokenRequest with its status filled in, as the API server does.

    Args:
        namespace: the service account's namespace.
        account: the service account's name.
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
        "metadata": {"name": account, "namespace": namespace, "creationTimestamp": format_rfc3339(now)},
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": format_rfc3339(now + seconds)},
    }


def _bound_to(namespace: str, account: str, reference: JsonObject) -> JsonObject:
    claims: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": account}}
    if reference.get("kind"):
        claims[str(reference["kind"]).lower()] = {"name": reference.get("name"), "uid": reference.get("uid")}
    return claims


def _part(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode("ascii")
