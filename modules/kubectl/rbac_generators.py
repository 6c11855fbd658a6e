"""Makes the roles and bindings of `create role|clusterrole|rolebinding|clusterrolebinding NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from modules.cli.errors import KubectlError

if TYPE_CHECKING:
    from modules.apimachinery.printing.fields import JsonObject
    from modules.kubectl.discovery import RestMapper

_GROUP: Final = "rbac.authorization.k8s.io"
_KINDS: Final = {
    "role": "Role",
    "clusterrole": "ClusterRole",
    "rolebinding": "RoleBinding",
    "clusterrolebinding": "ClusterRoleBinding",
}
KINDS: Final = tuple(_KINDS)
"""The words for the kinds."""
OPTIONS: Final = (
    ("--verb", "VERB,…", "role: what may be done"),
    ("--resource", "RESOURCE[.GROUP][/SUBRESOURCE],…", "role: resources"),
    ("--resource-name", "NAME,…", "role: names of objects (default: all)"),
    ("--non-resource-url", "PATH,…", "clusterrole: paths"),
    ("--user", "USER,…", "binding: who gets the role"),
    ("--group", "GROUP,…", "binding: whose members get it"),
    ("--serviceaccount", "NAMESPACE:NAME,…", "binding: which service accounts get it"),
)
"""Options that may be repeated: name, value and help."""


def rbac_object(kind: str, name: str, chosen: Any, discovery: RestMapper) -> JsonObject:
    """Return a role or binding.

    Args:
        kind: one of `KINDS`.
        name: its name.
        chosen: the options.
        discovery: finds the API groups of resources.

    Raises:
        KubectlError: an option is missing or wrong, or a resource is not known.
    """
    made: JsonObject = {"apiVersion": f"{_GROUP}/v1", "kind": _KINDS[kind], "metadata": {"name": name}}
    if kind.endswith("binding"):
        return {**made, "roleRef": _role_of(kind, chosen), "subjects": _subjects(kind, chosen)}
    return {**made, "rules": _rules(kind, chosen, discovery)}


def _words(values: list[str]) -> list[str]:
    return list(dict.fromkeys(word for value in values for word in value.split(",") if word))


def _rules(kind: str, chosen: Any, discovery: RestMapper) -> list[JsonObject]:
    verbs, resources, urls = (_words(each) for each in (chosen.verb, chosen.resource, chosen.non_resource_url))
    if not verbs:
        raise KubectlError(f"at least one verb must be specified: `create {kind} NAME --verb=get --resource=pods`")
    if bool(resources) == bool(urls) or (urls and kind == "role"):
        what = "--resource" if kind == "role" else "--resource or --non-resource-url, one of them,"
        raise KubectlError(f"{what} is needed: `create {kind} NAME --verb=get --resource=pods`")
    if urls:
        return [{"verbs": verbs, "nonResourceURLs": urls}]
    names = _words(chosen.resource_name)
    by_group: dict[str, list[str]] = {}
    for word in resources:
        resource, slash, subresource = word.partition("/")
        found = None if resource == "*" else discovery.one(resource)
        plural = "*" if found is None else found.plural
        by_group.setdefault("" if found is None else found.group, []).append(f"{plural}{slash}{subresource}")
    restricted = {"resourceNames": names} if names else {}
    return [{"verbs": verbs, "apiGroups": [group], "resources": of, **restricted} for group, of in by_group.items()]


def _role_of(kind: str, chosen: Any) -> JsonObject:
    """Return the `roleRef` of a binding."""
    role, cluster_role = chosen.role, chosen.clusterrole
    if bool(role) == bool(cluster_role) or (role and kind == "clusterrolebinding"):
        wanted = "--clusterrole" if kind == "clusterrolebinding" else "exactly one of --clusterrole and --role"
        raise KubectlError(f"{wanted} is needed: `create {kind} NAME --clusterrole=view --user=carol`")
    return {"apiGroup": _GROUP, "kind": "Role" if role else "ClusterRole", "name": role or cluster_role}


def _subjects(kind: str, chosen: Any) -> list[JsonObject]:
    made: list[JsonObject] = []
    for subject, words in (("User", chosen.user), ("Group", chosen.group)):
        made += [{"kind": subject, "apiGroup": _GROUP, "name": word} for word in _words(words)]
    for word in _words(chosen.serviceaccount):
        namespace, colon, name = word.partition(":")
        if not (namespace and colon and name):
            raise KubectlError(
                f"--serviceaccount wants NAMESPACE:NAME: `create {kind} NAME --serviceaccount=shop:robot`"
            )
        made.append({"kind": "ServiceAccount", "namespace": namespace, "name": name})
    return made
