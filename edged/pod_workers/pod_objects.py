"""Objects of the API that pods need beside their own: configmaps, secrets, claims, tokens."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from beehive import ResourceType
from edged.pod_workers.job import DeliveredObject, ObjectKey
from edged.pod_workers.service_account_tokens import TokenManager
from metamanager.client import MetaClient, NotFoundError
from modules.apimachinery.types import (
    ConfigMap,
    Pod,
    Secret,
    ServiceAccountTokenProjection,
    TokenRequest,
    decode,
    encode,
)
from modules.apimachinery.types.persistent import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    SecretReference,
    VolumeAttachment,
)

T = TypeVar("T", ConfigMap, Secret, PersistentVolumeClaim, PersistentVolume, VolumeAttachment, CSIDriver)
_NONE: Final[Mapping[ObjectKey, DeliveredObject]] = {}
_LONGEST = 253
"""Characters of an object's name."""


CACHE_SIZE: Final = 256 * 1024
"""Bytes of objects that are kept for a job. A pod may mount megabytes of them, and several pods are synced at
once; most objects are needed once."""


class PodObjects:
    """The objects that one pod needs, for one job. Each is requested once, unless it is too large to be kept.

    Methods raise CallError when neither the store nor the cloud answers, whether or not the object exists.

    Args:
        pod: the pod.
        meta: requests objects; blocks.
        tokens: keeps tokens from job to job.
        delivered: configmaps and secrets that messages have brought since the last job; they are not requested.
    """

    def __init__(
        self, pod: Pod, meta: MetaClient, tokens: TokenManager, delivered: Mapping[ObjectKey, DeliveredObject] = _NONE
    ) -> None:
        self._pod = pod
        self._delivered = delivered
        self._meta = meta
        self._tokens = tokens
        self._found: dict[ObjectKey, Any] = {}
        self._room = CACHE_SIZE

    def config_map(self, name: str) -> ConfigMap | None:
        """Return the configmap of that name; None when it does not exist."""
        return self._get(ConfigMap, ResourceType.CONFIGMAP, self._namespace, name)

    def secret(self, name: str) -> Secret | None:
        """Return the secret of that name; None when it does not exist."""
        return self._get(Secret, ResourceType.SECRET, self._namespace, name)

    def secret_of(self, reference: SecretReference) -> Secret | None:
        """Return a secret of any namespace, for a storage driver; None when it does not exist."""
        return self._get(Secret, ResourceType.SECRET, reference.namespace or self._namespace, reference.name)

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        """Return the claim of that name; None when it does not exist."""
        return self._get(PersistentVolumeClaim, ResourceType.PERSISTENT_VOLUME_CLAIM, self._namespace, name)

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """Return the persistent volume of that name; None when it does not exist."""
        return self._get(PersistentVolume, ResourceType.PERSISTENT_VOLUME, "", name)

    def attachment(self, name: str) -> VolumeAttachment | None:
        """Return the volume attachment of that name; None when it does not exist."""
        return self._get(VolumeAttachment, ResourceType.VOLUME_ATTACHMENT, "", name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        """Return the CSIDriver object; None when the cloud has not sent it: KubeEdge's cloud does not answer for it."""
        return self._get(CSIDriver, ResourceType.CSI_DRIVER, "", name)

    def token(self, wanted: ServiceAccountTokenProjection) -> str | None:
        """Return a token of the pod's service account; None when the account does not exist."""
        if not can_exist(self._namespace, self._account):
            return None
        try:
            return self._tokens.get(self._pod, wanted, self._ask_for_token)
        except NotFoundError:
            return None

    @property
    def _namespace(self) -> str:
        return self._pod.metadata.namespace

    @property
    def _account(self) -> str:
        return self._pod.spec.service_account_name or "default"

    def _get(self, kind: type[T], resource: ResourceType, namespace: str, name: str) -> T | None:
        key = (resource, namespace, name)
        if not can_exist(namespace, name):
            return None
        if key in self._found:
            known: T | None = self._found[key]
            return known
        delivered = self._delivered.get(key)
        try:
            answer = self._meta.get(*key) if delivered is None else delivered.content
            found, size = decode(kind, answer), len(answer)
        except NotFoundError:
            found, size = None, 0
        if self._room >= size:
            self._room -= size
            self._found[key] = found
        return found

    def _ask_for_token(self, request: TokenRequest) -> TokenRequest:
        answer = self._meta.token(self._namespace, self._account, encode(request))
        return decode(TokenRequest, answer)


def can_exist(namespace: str, name: str) -> bool:
    """Return whether an object may have that name: an empty one, or one with a slash, would name another resource."""
    return bool(name) and all(
        "/" not in part and part.isprintable() and len(part) <= _LONGEST for part in (namespace, name)
    )
