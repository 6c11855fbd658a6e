"""The kinds that the API serves: metamanager may store rows of them, from the cloud or from edged."""

from collections.abc import Iterable
from typing import Final

import msgspec

from beehive import ResourceType

READ_VERBS: Final = ("get", "list", "watch")
WRITE_VERBS: Final = ("create", "delete", "patch", "update")


class Resource(msgspec.Struct, frozen=True):
    """A kind in the API."""

    kind: str
    plural: str
    token: str
    """Its name in resource strings of messages and in the store."""
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def group_version(self) -> str:
        """The apiVersion: `v1`, `storage.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Its name in errors: `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_STORAGE: Final = "storage.k8s.io"

RESOURCES: Final = (
    Resource("ConfigMap", "configmaps", ResourceType.CONFIGMAP, short_names=("cm",)),
    Resource("Endpoints", "endpoints", ResourceType.ENDPOINTS, short_names=("ep",)),
    Resource("Event", "events", ResourceType.EVENT, short_names=("ev",)),
    Resource("Node", "nodes", ResourceType.NODE, namespaced=False, short_names=("no",), subresources=("status",)),
    Resource("PersistentVolumeClaim", "persistentvolumeclaims", ResourceType.PERSISTENT_VOLUME_CLAIM,
             short_names=("pvc",), subresources=("status",)),
    Resource("PersistentVolume", "persistentvolumes", ResourceType.PERSISTENT_VOLUME, namespaced=False,
             short_names=("pv",), subresources=("status",)),
    Resource("Pod", "pods", ResourceType.POD, short_names=("po",), categories=("all",), subresources=("log", "status")),
    Resource("Secret", "secrets", ResourceType.SECRET),
    Resource("Service", "services", ResourceType.SERVICE, short_names=("svc",), categories=("all",),
             subresources=("status",)),
    Resource("Lease", "leases", ResourceType.LEASE, group="coordination.k8s.io"),
    Resource("CSIDriver", "csidrivers", ResourceType.CSI_DRIVER, group=_STORAGE, namespaced=False),
    Resource("VolumeAttachment", "volumeattachments", ResourceType.VOLUME_ATTACHMENT, group=_STORAGE, namespaced=False,
             subresources=("status",)),
)  # fmt: skip

TOKENS: Final = frozenset(resource.token for resource in RESOURCES)
"""Type tokens of the kinds."""

_BY_PATH: Final = {(each.group, each.version, each.plural): each for each in RESOURCES}
_BY_TOKEN: Final = {each.token: each for each in RESOURCES}


def find(group: str, version: str, plural: str) -> Resource | None:
    """Return the resource of a path, None for a kind that this node does not store."""
    return _BY_PATH.get((group, version, plural))


def of_token(token: str) -> Resource:
    """Return the resource of a type token. Raise KeyError for one that is not served."""
    return _BY_TOKEN[token]


def groups() -> tuple[str, ...]:
    """Return the API groups besides the core group."""
    return tuple(sorted({each.group for each in RESOURCES if each.group}))


def in_group(group: str, version: str) -> Iterable[Resource]:
    """Return the resources of a group and version."""
    return [each for each in RESOURCES if (each.group, each.version) == (group, version)]
