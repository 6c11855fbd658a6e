"""Tokens of a pod's service account (authentication.k8s.io/v1 TokenRequest)."""

from types import NoneType

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.meta import ObjectMeta
from modules.apimachinery.types.times import Time


class BoundObjectReference(KubeStruct, frozen=True):
    """The object that limits the token's validity: the pod."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(KubeStruct, frozen=True):
    """Audiences and duration (seconds) of the token."""

    audiences: tuple[str, ...] | None = field(default_factory=NoneType)
    expiration_seconds: int | None = field(default_factory=NoneType)
    bound_object_ref: BoundObjectReference | None = field(default_factory=NoneType)


class TokenRequestStatus(KubeStruct, frozen=True):
    """The token; it is left out of the representation."""

    token: str = field(default_factory=str)
    expiration_timestamp: Time | None = field(default_factory=NoneType)

    def __repr__(self) -> str:
        return f"TokenRequestStatus(expiration_timestamp={self.expiration_timestamp!r})"


class TokenRequest(KubeStruct, frozen=True):
    """authentication.k8s.io/v1 TokenRequest."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: TokenRequestSpec = field(default_factory=TokenRequestSpec)
    status: TokenRequestStatus = field(default_factory=TokenRequestStatus)
