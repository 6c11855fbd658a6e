"""What pods are made of beside their own definition: configmaps, secrets and tokens, asked of metamanager.

For one job each object is asked for once. Tokens are kept while they are good for longer: a kubelet's token manager
asks anew when four fifths of a token's life, or a day, have passed.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from beehive import Clock, ResourceType
from edged.api import (
    BoundObjectReference,
    ConfigMap,
    Pod,
    Secret,
    ServiceAccountTokenProjection,
    TokenRequest,
    TokenRequestSpec,
    decode,
    encode,
    parse_time,
)
from edged.api.persistent import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    SecretReference,
    VolumeAttachment,
)
from edged.pods.model import PodUid
from metamanager.client import MetaClient, NotFoundError

T = TypeVar("T", ConfigMap, Secret, PersistentVolumeClaim, PersistentVolume, VolumeAttachment, CSIDriver)
_DEFAULT_LIFE = 3600
_REFRESH_AT = 0.8
_LONGEST = 253
"""Characters of an object's name."""
_LONGEST_USE = 24 * 3600.0


class _Token(msgspec.Struct, frozen=True):
    text: str
    good_until: float
    """Wall clock, seconds, at which another one is asked for."""

    def __repr__(self) -> str:
        return f"_Token(good_until={self.good_until})"


class TokenCache:
    """Tokens of all pods, by pod, audience and life. Used by several workers at once, by each for another pod."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[tuple[PodUid, str, int], _Token] = {}

    def get(self, pod: Pod, wanted: ServiceAccountTokenProjection, ask: Callable[[TokenRequest], TokenRequest]) -> str:
        """The token, asked for when there is none that is good."""
        life = wanted.expiration_seconds or _DEFAULT_LIFE
        key = (PodUid(pod.metadata.uid), wanted.audience, life)
        kept = self._tokens.get(key)
        if kept is None or kept.good_until <= self._clock.now():
            kept = self._tokens[key] = self._new(ask(_request(pod, wanted.audience, life)), life)
        return kept.text

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        for key in list(self._tokens):
            if key[0] == uid:
                self._tokens.pop(key, None)

    def _new(self, answer: TokenRequest, life: int) -> _Token:
        now = self._clock.now()
        expires = answer.status.expiration_timestamp
        remaining = parse_time(expires) / 1e9 - now if expires else float(life)
        return _Token(answer.status.token, now + min(remaining * _REFRESH_AT, _LONGEST_USE))


REMEMBERED: Final = 256 * 1024
"""Bytes of objects that are remembered for a job. A pod may mount megabytes of them, and several are worked on at once;
most objects are needed once."""


class PodSources:
    """The configmaps, secrets and tokens of one pod for one job; each object is asked for at most once, as long as they
    are not too large to be remembered.

    Asking raises CallError: the object may exist, but neither the store nor the cloud says so now.
    """

    def __init__(self, pod: Pod, meta: MetaClient, tokens: TokenCache) -> None:
        self._pod = pod
        self._meta = meta
        self._tokens = tokens
        self._found: dict[tuple[str, str, str], Any] = {}
        self._room = REMEMBERED

    def config_map(self, name: str) -> ConfigMap | None:
        """The configmap of that name, None when it does not exist."""
        return self._get(ConfigMap, ResourceType.CONFIGMAP, self._namespace, name)

    def secret(self, name: str) -> Secret | None:
        """The secret of that name, None when it does not exist."""
        return self._get(Secret, ResourceType.SECRET, self._namespace, name)

    def secret_of(self, reference: SecretReference) -> Secret | None:
        """A secret of any namespace, for a storage driver; None when it does not exist."""
        return self._get(Secret, ResourceType.SECRET, reference.namespace or self._namespace, reference.name)

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        """The claim of that name, None when it does not exist."""
        return self._get(PersistentVolumeClaim, ResourceType.PERSISTENT_VOLUME_CLAIM, self._namespace, name)

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """The volume of that name, None when it does not exist."""
        return self._get(PersistentVolume, ResourceType.PERSISTENT_VOLUME, "", name)

    def attachment(self, name: str) -> VolumeAttachment | None:
        """The attachment of that name, None when it does not exist."""
        return self._get(VolumeAttachment, ResourceType.VOLUME_ATTACHMENT, "", name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        """What the cloud has said of a storage driver, None when it has said nothing: KubeEdge's cannot be asked."""
        return self._get(CSIDriver, ResourceType.CSI_DRIVER, "", name)

    def token(self, wanted: ServiceAccountTokenProjection) -> str | None:
        """A token of the pod's service account; None when the account does not exist."""
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
        found, size = self._ask(kind, *key)
        if self._room >= size:
            self._room -= size
            self._found[key] = found
        return found

    def _ask(self, kind: type[T], resource: ResourceType, namespace: str, name: str) -> tuple[T | None, int]:
        """The object, and the bytes that it came as."""
        try:
            answer = self._meta.get(resource, namespace, name)
        except NotFoundError:
            return None, 0
        return decode(kind, answer), len(answer)

    def _ask_for_token(self, request: TokenRequest) -> TokenRequest:
        answer = self._meta.token(self._namespace, self._account, encode(request))
        return decode(TokenRequest, answer)


def can_exist(namespace: str, name: str) -> bool:
    """Whether an object may have that name: one without, or with a slash in it, asks metamanager for something else."""
    return bool(name) and all(
        "/" not in part and part.isprintable() and len(part) <= _LONGEST for part in (namespace, name)
    )


def _request(pod: Pod, audience: str, life: int) -> TokenRequest:
    meta = pod.metadata
    reference = BoundObjectReference(kind="Pod", api_version="v1", name=meta.name, uid=meta.uid)
    return TokenRequest(
        spec=TokenRequestSpec(
            audiences=(audience,) if audience else (), expiration_seconds=life, bound_object_ref=reference
        )
    )
