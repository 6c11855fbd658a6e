"""Discovery: the API's versions, groups and resources, in the form of Kubernetes before 1.26.

Newer clients request [aggregated discovery](aggregated_discovery.py) in their Accept header and fall back to this form
(client-go's `GroupsAndMaybeResources`).
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

from modules.apimachinery.errors import no_such_path
from modules.apimachinery.resources import Resource
from modules.apimachinery.version_order import preferred_first

_HEALTH = ("/healthz", "/livez", "/readyz")
_HASH_BYTES: Final = 8


class Discovery:
    """The discovery documents of a server.

    Args:
        resources: everything that it serves.
        version: the server's, such as `v1.32.10-kubeedge-v1.22.0`.
    """

    def __init__(self, resources: Sequence[Resource], version: str) -> None:
        self._resources = resources
        self._version = version

    def document(self, parts: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the document of a path, None for a path that is not one of discovery.

        Raises:
            ApiStatusError: 404; the path names an unknown group or version.
        """
        match parts:
            case ():
                return {"paths": self._paths()}
            case ("version",):
                return version(self._version)
            case ("api",):
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case ("apis",):
                groups = [_group(*one) for one in self._groups().items()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ("apis", group):
                return self._api_group(group)
            case ("api", of):
                return self._api_resources("", of)
            case ("apis", group, of):
                return self._api_resources(group, of)
        return None

    def _groups(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self._resources:
            if one.group and one.version not in found.setdefault(one.group, []):
                found[one.group].append(one.version)
        return {group: preferred_first(versions) for group, versions in sorted(found.items())}

    def _paths(self) -> list[str]:
        groups = [
            path
            for group, versions in self._groups().items()
            for path in (f"/apis/{group}", *(f"/apis/{group}/{of}" for of in sorted(versions)))
        ]
        return ["/api", "/api/v1", "/apis", *groups, *_HEALTH, "/version"]

    def _api_group(self, name: str) -> dict[str, Any]:
        versions = self._groups().get(name)
        if versions is None:
            raise no_such_path()
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}

    def _api_resources(self, group: str, of: str) -> dict[str, Any]:
        found = [one for one in self._resources if (one.group, one.version) == (group, of)]
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


def _group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    served = [{"groupVersion": f"{name}/{of}", "version": of} for of in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.stored_version:
        entry["storageVersionHash"] = _version_hash(resource)
    return entry


def _version_hash(resource: Resource) -> str:
    """Return the text by which programs that store objects anew see that a kind is stored in another version (the
    first bytes of the SHA-256 of group, version and kind, as `StorageVersionHash` of kube-apiserver).
    """
    group, _, of = resource.stored_version.rpartition("/")
    return b64encode(sha256(f"{group}/{of}/{resource.kind}".encode()).digest()[:_HASH_BYTES]).decode()


def _subresources(resource: Resource) -> Iterator[dict[str, Any]]:
    for one in resource.all_subresources():
        elsewhere = {"group": one.group, "version": one.version} if one.group else {}
        path, is_namespaced = f"{resource.plural}/{one.name}", resource.namespaced
        entry = {"name": path, "singularName": "", "namespaced": is_namespaced, "kind": one.kind}
        yield {**entry, "verbs": list(one.verbs), **elsewhere}
