"""Discovery: the API's versions, groups and resources, in the form of Kubernetes before 1.26.

Newer clients request aggregated discovery in their Accept header and fall back to this form (client-go's
`GroupsAndMaybeResources`).
"""

from typing import Any

from modules.edge.metaserver.errors import no_such_path
from modules.edge.metaserver.resources import READ_VERBS, WRITE_VERBS, Resource, groups, in_group

_VERSION = "v1"
"""Version of every served group."""


def api_versions() -> dict[str, Any]:
    """Return the document of `/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups() -> dict[str, Any]:
    """Return the document of `/apis`."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups()]}


def api_group(name: str) -> dict[str, Any]:
    """Return the document of `/apis/{group}`. Raise ApiStatusError for an unknown group."""
    if name not in groups():
        raise no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def api_resources(group: str, version: str) -> dict[str, Any]:
    """Return the document of `/api/v1` or `/apis/{group}/{version}`. Raise ApiStatusError for an unknown one."""
    found = list(in_group(group, version))
    if not found:
        raise no_such_path()
    entries = [entry for resource in found for entry in (_resource(resource), *_subresources(resource))]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].group_version,
        "resources": sorted(entries, key=lambda entry: str(entry["name"])),
    }


def version(git: str) -> dict[str, Any]:
    """Return the document of `/version`, for a version such as `v1.32.10-kubeedge-v1.22.0`."""
    major, minor, *_ = [*git.removeprefix("v").split("."), "", ""]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux",
    }


def _group(name: str) -> dict[str, Any]:
    only = {"groupVersion": f"{name}/{_VERSION}", "version": _VERSION}
    return {"name": name, "versions": [only], "preferredVersion": only}


def _resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted((*READ_VERBS, *WRITE_VERBS)),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresources(resource: Resource) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["get"] if name == "log" else ["get", "patch", "update"],
        }
        for name in resource.subresources
    ]
