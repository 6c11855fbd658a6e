"""The tokens of projected volumes: when each is requested anew (kubelet's pkg/kubelet/token)."""

from collections.abc import Callable

import msgspec

from beehive import Clock
from edged.pods.model import PodUid
from modules.apimachinery.types import (
    BoundObjectReference,
    Pod,
    ServiceAccountTokenProjection,
    TokenRequest,
    TokenRequestSpec,
    parse_time,
)

_DEFAULT_LIFE = 3600
_REFRESH_AT = 0.8
_LONGEST_USE = 24 * 3600.0


class _Token(msgspec.Struct, frozen=True):
    text: str
    good_until: float
    """Wall clock in seconds when a new token is requested."""

    def __repr__(self) -> str:
        return f"_Token(good_until={self.good_until})"


class TokenManager:
    """The tokens of all pods by pod, audience and lifetime (kubelet's token manager).

    A new token is requested when four fifths of a token's lifetime, or a day, have passed. Used by several workers at
    once, by each for another pod.

    Args:
        clock: the wall clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[tuple[PodUid, str, int], _Token] = {}

    def get(self, pod: Pod, wanted: ServiceAccountTokenProjection, ask: Callable[[TokenRequest], TokenRequest]) -> str:
        """Return a token, requested by `ask` unless a valid one is kept. Raises what `ask` raises."""
        life = wanted.expiration_seconds or _DEFAULT_LIFE
        key = (PodUid(pod.metadata.uid), wanted.audience, life)
        kept = self._tokens.get(key)
        if kept is None or kept.good_until <= self._clock.now():
            kept = self._tokens[key] = self._new(ask(_request(pod, wanted.audience, life)), life)
        return kept.text

    def forget_pod(self, uid: PodUid) -> None:
        """Drop the tokens of a pod that is removed from the node."""
        for key in list(self._tokens):
            if key[0] == uid:
                self._tokens.pop(key, None)

    def _new(self, answer: TokenRequest, life: int) -> _Token:
        life = answer.spec.expiration_seconds or life
        expires = answer.status.expiration_timestamp
        begin = parse_time(expires) / 1e9 - life if expires else self._clock.now()
        return _Token(answer.status.token, begin + min(life * _REFRESH_AT, _LONGEST_USE))


def _request(pod: Pod, audience: str, life: int) -> TokenRequest:
    meta = pod.metadata
    reference = BoundObjectReference(kind="Pod", api_version="v1", name=meta.name, uid=meta.uid)
    return TokenRequest(
        spec=TokenRequestSpec(
            audiences=(audience,) if audience else (), expiration_seconds=life, bound_object_ref=reference
        )
    )
