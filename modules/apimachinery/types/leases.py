"""The node's lease, its heartbeat in the cloud."""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.meta import ObjectMeta
from modules.apimachinery.types.times import MicroTime


class LeaseSpec(KubeStruct, frozen=True):
    """Holder and time of the lease; duration in seconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int | None = None


class Lease(KubeStruct, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)
