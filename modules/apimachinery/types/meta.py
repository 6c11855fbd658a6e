"""Metadata of Kubernetes objects, references between them, and the API server's Status.

`managedFields` is left out on purpose: it is the largest part of a stored object, nothing on the node reads it, and an
API server keeps its own when an update has none.
"""

from types import NoneType

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.times import Time


class OwnerReference(KubeStruct, frozen=True):
    """A reference to an object's owner."""

    api_version: str = field(default_factory=str)
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)
    uid: str = field(default_factory=str)
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(KubeStruct, frozen=True):
    """Metadata of an object: name, identity, deletion."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = field(default_factory=NoneType)
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ListMeta(KubeStruct, frozen=True):
    """Metadata of a list or of an answer."""

    self_link: str = ""
    resource_version: str = ""
    continue_: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class ObjectReference(KubeStruct, frozen=True):
    """A pointer to any object, as events carry it."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class LocalObjectReference(KubeStruct, frozen=True):
    """A pointer to an object of the same namespace."""

    name: str = ""


class StatusCause(KubeStruct, frozen=True):
    """One reason among several why a request failed."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(KubeStruct, frozen=True):
    """The object and the causes of a failed request."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(KubeStruct, frozen=True):
    """metav1.Status: the API server's answer to a request that returns no object."""

    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = field(default_factory=ListMeta)
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class Preconditions(KubeStruct, frozen=True):
    """Conditions of a deletion: the object still has this uid and version."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(KubeStruct, frozen=True):
    """Options of a deletion; the grace period in seconds, 0 for a pod without containers."""

    kind: str = ""
    api_version: str = ""
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
