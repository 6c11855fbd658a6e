"""The rules of roles and their bindings (Kubernetes' `rbac/validation`)."""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Causes, invalid, required, unsupported
from modules.apimachinery.validation.labels import label_selector
from modules.apimachinery.validation.metadata import path_segment, subdomain
from modules.apimachinery.validation.rules import Each, Fields, Rule

GROUP: Final = "rbac.authorization.k8s.io"
_ACCOUNT: Final = "ServiceAccount"
_SUBJECTS: Final = (_ACCOUNT, "User", "Group")


def _policy_rule(*, is_namespaced: bool) -> Rule:
    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        if not value.get("verbs"):
            found.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        urls = value.get("nonResourceURLs")
        if urls:
            if is_namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                found.append(invalid(f"{path}.nonResourceURLs", urls, why))
            if any(value.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                found.append(invalid(f"{path}.nonResourceURLs", urls, why))
            return
        if not value.get("apiGroups"):
            found.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not value.get("resources"):
            found.append(required(f"{path}.resources", "resource rules must supply at least one resource"))

    return rule


role = Fields({"rules": Each(_policy_rule(is_namespaced=True))})


def _role_selector(value: Mapping[str, Any], path: str, found: Causes) -> None:
    faults = Causes()
    label_selector(value, path, faults)
    for fault in (*faults, invalid(path, "null", "invalid label selector.")) if faults else ():
        found.append(fault)


def _selectors(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if not value.get("clusterRoleSelectors"):
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        found.append(required(f"{path}.clusterRoleSelectors", why))


cluster_role = Fields(
    {
        "rules": Each(_policy_rule(is_namespaced=False)),
        "aggregationRule": Fields({"clusterRoleSelectors": Each(_role_selector)}, _selectors),
    }
)


def _binding(*roles: str) -> Rule:
    def reference(obj: Mapping[str, Any], path: str, found: Causes) -> None:
        value, path = obj.get("roleRef") or {}, f"{path}.roleRef"
        if (group := value.get("apiGroup") or "") != GROUP:
            found.append(unsupported(f"{path}.apiGroup", group, (GROUP,)))
        if (kind := value.get("kind") or "") not in roles:
            found.append(unsupported(f"{path}.kind", kind, roles))
        if name := value.get("name"):
            path_segment(name, f"{path}.name", found)
        else:
            found.append(required(f"{path}.name"))

    return reference


def _subject(*, is_namespaced: bool) -> Rule:
    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        if not value.get("name"):
            found.append(required(f"{path}.name"))
        kind, group = value.get("kind") or "", value.get("apiGroup") or ""
        if kind not in _SUBJECTS:
            found.append(unsupported(f"{path}.kind", kind, _SUBJECTS))
        elif kind != _ACCOUNT:
            if group != GROUP:
                found.append(unsupported(f"{path}.apiGroup", group, (GROUP,)))
        else:
            if value.get("name"):
                subdomain(value["name"], f"{path}.name", found)
            if group:
                found.append(unsupported(f"{path}.apiGroup", group, ("",)))
            if not is_namespaced and not value.get("namespace"):
                found.append(required(f"{path}.namespace"))

    return rule


role_binding = Fields({"subjects": Each(_subject(is_namespaced=True))}, _binding("Role", "ClusterRole"))
cluster_role_binding = Fields({"subjects": Each(_subject(is_namespaced=False))}, _binding("ClusterRole"))


def binding_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a binding keeps its role: one who may change subjects may not choose their rights."""
    if new.get("roleRef") != live.get("roleRef"):
        found.append(invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
