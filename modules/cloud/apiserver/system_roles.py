"""The roles and bindings that an API server makes at its start, as far as their resources are served here.

They come from kube-apiserver's `rbac/bootstrappolicy`.
"""

from collections.abc import Iterator
from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.namespaces import SYSTEM_NAMESPACE
from modules.cloud.authentication.users import ADMINISTRATORS, AUTHENTICATED, SERVICE_ACCOUNTS, UNAUTHENTICATED

OPENID_PATHS: Final = ("/.well-known/openid-configuration", "/openid/v1/jwks")
"""The paths of the public keys of tokens."""
CLIENT_AUTHORITY: Final = "extension-apiserver-authentication"
"""The ConfigMap with the authority of clients' certificates, for other servers that authenticate them."""
GROUP: Final = "rbac.authorization.k8s.io"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_LABEL: Final = "rbac.authorization.k8s.io/aggregate-to-"
_WORKLOADS: Final = ("daemonsets", "deployments", "replicasets", "statefulsets")
_SCALED: Final = ("deployments/scale", "replicasets/scale", "statefulsets/scale")
_SCALED_CONTROLLER: Final = "replicationcontrollers/scale"
_CONNECTED: Final = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy")
_HEALTH: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY: Final = ("/api", "/api/*", "/apis", "/apis/*", *_HEALTH, "/openapi", "/openapi/*")


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> JsonObject:
    return {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}


def _paths(paths: tuple[str, ...], verbs: tuple[str, ...] = ("get",)) -> JsonObject:
    return {"nonResourceURLs": [*paths], "verbs": [*verbs]}


def _with_status(*resources: str) -> tuple[str, ...]:
    return tuple(name for resource in resources for name in (resource, f"{resource}/status"))


_VIEW: Final = (
    _rule(
        "",
        (
            "configmaps", "endpoints", *_with_status("persistentvolumeclaims", "pods", "services"), "serviceaccounts",
            "bindings", "events", "limitranges", "pods/log",
            *_with_status("namespaces", "replicationcontrollers", "resourcequotas"), _SCALED_CONTROLLER,
        ),
        _READ,
    ),
    _rule("apps", ("controllerrevisions", *_with_status(*_WORKLOADS), *_SCALED), _READ),
    _rule("autoscaling", _with_status("horizontalpodautoscalers"), _READ),
    _rule("batch", _with_status("cronjobs", "jobs"), _READ),
    _rule("policy", _with_status("poddisruptionbudgets"), _READ),
    _rule("discovery.k8s.io", ("endpointslices",), _READ),
    _rule("networking.k8s.io", ("networkpolicies", *_with_status("ingresses")), _READ),
)  # fmt: skip
_EDIT: Final = (
    _rule("", (*_CONNECTED, "secrets"), _READ),
    _rule("", ("serviceaccounts",), ("impersonate",)),
    _rule("", ("pods", *_CONNECTED), _WRITE),
    _rule("", ("pods/eviction", "serviceaccounts/token"), ("create",)),
    _rule(
        "",
        (
            "configmaps", "events", "persistentvolumeclaims", "replicationcontrollers", _SCALED_CONTROLLER, "secrets",
            "serviceaccounts", "services",
        ),
        _WRITE,
    ),
    _rule("apps", (*_WORKLOADS, *_SCALED), _WRITE),
    _rule("autoscaling", ("horizontalpodautoscalers",), _WRITE),
    _rule("batch", ("cronjobs", "jobs"), _WRITE),
    _rule("policy", ("poddisruptionbudgets",), _WRITE),
    _rule("networking.k8s.io", ("ingresses", "networkpolicies"), _WRITE),
    _rule("coordination.k8s.io", ("leases",), _ALL_VERBS),
)  # fmt: skip
_ADMIN: Final = (
    _rule("authorization.k8s.io", ("localsubjectaccessreviews",), ("create",)),
    _rule(GROUP, ("rolebindings", "roles"), _ALL_VERBS),
)
_ROLES: Final[dict[str, tuple[JsonObject, ...]]] = {
    "cluster-admin": (_rule("*", ("*",), ("*",)), _paths(("*",), ("*",))),
    "system:discovery": (_paths(_DISCOVERY),),
    "system:public-info-viewer": (_paths(_HEALTH),),
    "system:basic-user": (
        _rule("authorization.k8s.io", ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), ("create",)),
        _rule("authentication.k8s.io", ("selfsubjectreviews",), ("create",)),
    ),
    "system:auth-delegator": (
        _rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
        _rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    ),
    "system:service-account-issuer-discovery": (
        _paths(tuple(path + end for path in OPENID_PATHS for end in ("", "/"))),
    ),
    "system:monitoring": (
        _paths(("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*")),
    ),
}
_ABOVE: Final = {"view": "edit", "edit": "admin"}
"""By role, another role with all of its rules."""
_RULES_OF: Final = {"admin": _ADMIN, "edit": _EDIT, "view": _VIEW}
_AGGREGATED: Final = {"admin": (*_EDIT, *_VIEW, *_ADMIN), "edit": (*_EDIT, *_VIEW), "view": _VIEW}
"""The rules of these roles before anything else is added: they count before a controller has run."""
_READ_AUTHORITY: Final = {**_rule("", ("configmaps",), _READ), "resourceNames": [CLIENT_AUTHORITY]}
_BINDINGS: Final = {
    "cluster-admin": (ADMINISTRATORS,),
    "system:basic-user": (AUTHENTICATED,),
    "system:discovery": (AUTHENTICATED,),
    "system:public-info-viewer": (AUTHENTICATED, UNAUTHENTICATED),
    "system:service-account-issuer-discovery": (SERVICE_ACCOUNTS,),
}


def system_roles() -> Iterator[JsonObject]:
    """Yield the ClusterRoles and ClusterRoleBindings, and the Role of the readers of `CLIENT_AUTHORITY`."""
    for name, rules in _ROLES.items():
        yield _object("ClusterRole", name, rules=[*rules])
    for name, rules in _RULES_OF.items():
        yield _object("ClusterRole", f"system:aggregate-to-{name}", {f"{_LABEL}{name}": "true"}, rules=[*rules])
        of_role = {f"{_LABEL}{_ABOVE[name]}": "true"} if name in _ABOVE else {}
        aggregation = {"clusterRoleSelectors": [{"matchLabels": {f"{_LABEL}{name}": "true"}}]}
        yield _object("ClusterRole", name, of_role, aggregationRule=aggregation, rules=[*_AGGREGATED[name]])
    for name, groups in _BINDINGS.items():
        subjects = [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups]
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        yield _object("ClusterRoleBinding", name, subjects=subjects, roleRef=reference)
    reader = _object("Role", f"{CLIENT_AUTHORITY}-reader", rules=[_READ_AUTHORITY])
    yield {**reader, "metadata": {**reader["metadata"], "namespace": SYSTEM_NAMESPACE}}


def _object(kind: str, name: str, labels: dict[str, str] | None = None, /, **fields: object) -> JsonObject:
    own = {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})}
    metadata = {"name": name, "labels": own, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}}
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata, **fields}
