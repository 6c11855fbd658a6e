"""The resources that a server has, by every name that a person may type."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final

import msgspec

from beehive.decoding import convert
from modules.apimachinery.printing.fields import objects_at, text_at
from modules.cli.errors import KubectlError
from modules.cli.rest import RestClient, path_of
from modules.kubectl.absent_kinds import advice_on

_OF_KUBERNETES: Final = ".k8s.io"


class ApiResource(msgspec.Struct, frozen=True):
    """A resource of the API, such as `pods`."""

    plural: str
    singular: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """As in manifests: `v1`, `coordination.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As in errors: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key_kind(self) -> str:
        """The kind, with the group if it is not Kubernetes' own: `Service`, `Service.serving.knative.dev`."""
        is_own = "." not in self.group or self.group.endswith(_OF_KUBERNETES)
        return self.kind if is_own else f"{self.kind}.{self.group}"

    def shown(self, name: str) -> str:
        """Return an object's name as `-o name` prints it: `pod/web`, `lease.coordination.k8s.io/n1`."""
        return f"{self.kind.lower()}{'.' if self.group else ''}{self.group}/{name}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of the collection or of an object; an empty namespace means all of them."""
        root = ("apis", self.group, self.version) if self.group else ("api", self.version)
        scope = ("namespaces", namespace) if self.namespaced and namespace else ()
        return path_of(*root, *scope, self.plural, name, subresource)

    def is_called(self, word: str) -> bool:
        """Return whether a word in lower case means it: plural, singular, short name or kind; a group may follow."""
        name, _, group = word.partition(".")
        version, _, rest = group.partition(".")
        if group and not (self.group.startswith(group) or (version == self.version and rest == self.group)):
            return False
        return name in (self.plural, self.singular, self.kind.lower(), *self.short_names)


class RestMapper:
    """The resources of a server, requested when they are first needed."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    @cached_property
    def core(self) -> tuple[ApiResource, ...]:
        """The resources of the core group."""
        return tuple(_resources(self._client.get("/api/v1"), "", "v1"))

    @cached_property
    def all(self) -> tuple[ApiResource, ...]:
        """All resources, each in the version that its group prefers; the core group first."""
        return (*self.core, *(each for group, version in self._groups for each in self._of_group(group, version)))

    @cached_property
    def group_versions(self) -> tuple[str, ...]:
        """The served versions of all groups, sorted, as `api-versions` prints them."""
        versions = [
            text_at(each, "groupVersion") for group in self._group_documents for each in objects_at(group, "versions")
        ]
        return tuple(sorted({*versions, "v1"} - {""}))

    def named(self, words: str) -> list[ApiResource]:
        """Return the resources that a word means: a name, several after commas, or a category such as `all`.

        Raises:
            KubectlError: the server has no such resource; names like it are in the error.
        """
        found: dict[ApiResource, None] = {}
        for word in words.split(","):
            found |= dict.fromkeys(self.in_category(word.strip().lower()) or [self.one(word.strip())])
        return list(found)

    def one(self, word: str) -> ApiResource:
        """Return the resource of a name: `pods`, `Pod`, `po`, `leases.coordination.k8s.io`. Raises KubectlError."""
        lower = word.lower()
        found = next((each for each in self.core if each.is_called(lower)), None)
        found = found or next((each for each in self.all if each.is_called(lower)), None)
        if found is None:
            raise self._unknown(word)
        return found

    def of_manifest(self, api_version: str, kind: str) -> ApiResource:
        """Return the resource of a manifest's `apiVersion` and `kind`. Raises KubectlError."""
        resources: Iterable[ApiResource] = self.core if api_version == "v1" else self.all
        group, _, version = api_version.partition("/")
        if version and (group, version) not in self._groups and api_version in self.group_versions:
            resources = self._of_group(group, version)
        for resource in resources:
            if (resource.kind, resource.api_version) == (kind, api_version):
                return resource
        near = next((each for each in self.all if each.kind == kind), None)
        hint = f"; {kind} is in {near.api_version}" if near else self._instead_of(kind)
        if not hint and "." in api_version.partition("/")[0]:
            hint = "; ensure CRDs are installed first"
        raise KubectlError(f'no matches for kind "{kind}" in version "{api_version}"{hint}')

    def in_category(self, word: str) -> list[ApiResource]:
        """Return the resources of a category such as `all`; none for a word that is no category."""
        if any(resource.is_called(word) for resource in self.core):
            return []
        return [resource for resource in self.all if word in resource.categories]

    @cached_property
    def _group_documents(self) -> list[dict[str, Any]]:
        return objects_at(self._client.get("/apis"), "groups")

    @property
    def _groups(self) -> list[tuple[str, str]]:
        return [
            (text_at(group, "name"), text_at(group, "preferredVersion.version") or "v1")
            for group in self._group_documents
        ]

    def _of_group(self, group: str, version: str) -> Iterator[ApiResource]:
        return _resources(self._client.get(path_of("apis", group, version)), group, version)

    def _unknown(self, word: str) -> KubectlError:
        return KubectlError(f'the server doesn\'t have a resource type "{word}"{self._instead_of(word)}')

    def _instead_of(self, word: str) -> str:
        """Return the advice about a resource that the server lacks, or similar names."""
        if advice := advice_on(word):
            return f": {advice}"
        names = {name: each.plural for each in self.all for name in (each.plural, each.singular, *each.short_names)}
        near = dict.fromkeys(names[name] for name in get_close_matches(word.lower(), names, n=3, cutoff=0.6))
        return f"; did you mean {' or '.join(near)}?" if near else ""


def _resources(document: dict[str, Any], group: str, version: str) -> Iterator[ApiResource]:
    """Yield the resources of an APIResourceList, without subresources and invalid entries."""
    for entry in objects_at(document, "resources"):
        fields = {"plural": entry.get("name"), "singular": entry.get("singularName") or text_at(entry, "kind").lower(),
                  "kind": entry.get("kind"), "namespaced": entry.get("namespaced", False), "group": group,
                  "version": version, "short_names": entry.get("shortNames") or (),
                  "categories": entry.get("categories") or (), "verbs": entry.get("verbs") or ()}  # fmt: skip
        if "/" in str(fields["plural"]):
            continue
        try:
            yield convert(fields, ApiResource)
        except msgspec.ValidationError:
            continue
