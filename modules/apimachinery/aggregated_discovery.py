"""Aggregated discovery (`apidiscovery.k8s.io`): all groups with their resources in two documents.

Clients since Kubernetes 1.26 ask for it in their Accept header, and else make a request for each version of a group.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from modules.apimachinery.resources import Resource
from modules.apimachinery.version_order import preferred_first

GROUP: Final = "apidiscovery.k8s.io"
_VERSIONS: Final = ("v2", "v2beta1")
_KIND: Final = "APIGroupDiscoveryList"
_JSON: Final = "application/json"


def aggregated_version(accept: str) -> str:
    """Return the version that a client wants, "" for a client that prefers another form.

    Args:
        accept: the Accept header; the first form in it that there is counts.
    """
    for each in accept.split(","):
        media, *parameters = (part.strip() for part in each.split(";"))
        named = dict(part.split("=", 1) for part in parameters if "=" in part)
        if (media, named.get("g"), named.get("as")) == (_JSON, GROUP, _KIND) and named.get("v") in _VERSIONS:
            return named["v"]
        if media in (_JSON, "*/*", "application/*") and "as" not in named:
            return ""
    return ""


def content_type(version: str) -> str:
    """Return the media type that clients recognize."""
    return f"{_JSON};g={GROUP};v={version};as={_KIND}"


def aggregated(resources: Sequence[Resource], version: str, *, core: bool) -> dict[str, Any]:
    """Return the document of `/api` or `/apis`.

    Args:
        resources: everything that is served.
        version: of the document.
        core: whether it describes the core group, at `/api`.
    """
    by_group: dict[str, dict[str, list[Resource]]] = {}
    for one in resources:
        if core is not bool(one.group):
            by_group.setdefault(one.group, {}).setdefault(one.version, []).append(one)
    groups = [_group(name, versions) for name, versions in sorted(by_group.items())]
    return {"kind": _KIND, "apiVersion": f"{GROUP}/{version}", "metadata": {}, "items": groups}


def _group(name: str, versions: dict[str, list[Resource]]) -> dict[str, Any]:
    served = [
        {
            "version": of,
            "freshness": "Current",
            "resources": [_resource(one) for one in sorted(versions[of], key=_plural)],
        }
        for of in preferred_first(versions)
    ]
    return {"metadata": {"name": name, "creationTimestamp": None}, "versions": served}


def _plural(resource: Resource) -> str:
    return resource.plural


def _resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
    }
    lists = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    subresources = [*_subresources(resource)]
    return (
        entry
        | {name: values for name, values in lists.items() if values}
        | ({"subresources": sorted(subresources, key=lambda each: str(each["subresource"]))} if subresources else {})
    )


def _subresources(resource: Resource) -> Iterator[dict[str, Any]]:
    for each in resource.all_subresources():
        kind = _kind(each.group or resource.group, each.version or resource.version, each.kind)
        yield {"subresource": each.name, "responseKind": kind, "verbs": list(each.verbs)}


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}
