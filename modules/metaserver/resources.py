"""The kinds of objects that a node has, and how the API names them.

A kind is served when metamanager may have rows of it: what the cloud sends for pods, and what edged records. The store
names it by its type token, paths by the plural.
"""

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
    """In resource strings of messages, and in the store."""
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def group_version(self) -> str:
        """`v1`, `storage.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As errors name it: `leases.coordination.k8s.io`."""
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
"""What of the store is served."""

_BY_PATH: Final = {(each.group, each.version, each.plural): each for each in RESOURCES}
_BY_TOKEN: Final = {each.token: each for each in RESOURCES}


def find(group: str, version: str, plural: str) -> Resource | None:
    """The resource that a path names; None for one that this node does not keep."""
    return _BY_PATH.get((group, version, plural))


def of_token(token: str) -> Resource:
    """The resource of a row of the store; KeyError for what is not served."""
    return _BY_TOKEN[token]


def groups() -> tuple[str, ...]:
    """Groups besides the core."""
    return tuple(sorted({each.group for each in RESOURCES if each.group}))


def in_group(group: str, version: str) -> Iterable[Resource]:
    """The resources of a group and version."""
    return [each for each in RESOURCES if (each.group, each.version) == (group, version)]
