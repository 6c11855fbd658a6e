"""Issues tokens of service accounts: the subresource `token` (Kubernetes' TokenREST)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from modules.apimachinery.api_errors import BadRequestError, ConflictError, InvalidError, TooManyRequestsError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, key_for, kind_named, uid_of
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.types import BoundObjectReference, TokenRequest
from modules.apimachinery.validation.causes import shown
from modules.cloud.apiserver.tokens.claims import AccountClaims, BoundObjects, BoundReference, subject
from modules.cloud.apiserver.tokens.signing_keys import (
    LONGEST_LIFE,
    KeyStore,
    Signer,
    current_signer,
    public_keys,
    unending_signer,
)
from modules.cloud.apiserver.tokens.verification import RefusesTokens, refuses_none, review_token
from modules.cloud.authentication.jws import sign
from modules.cloud.authentication.settings import ServiceAccountSettings
from modules.cloud.storage.signing_key import StoredSigningKey

if TYPE_CHECKING:
    from beehive.clock import Clock
    from modules.cloud.authentication.users import Authenticated
    from modules.cloud.storage.object_storage import Storage

_ACCOUNT, _POD, _SECRET, _NODE = (kind_named(name) for name in ("ServiceAccount", "Pod", "Secret", "Node"))
_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 1 << 32
_GROUP: Final = "authentication.k8s.io"
_BINDABLE: Final = {("v1", kind.name): kind for kind in (_POD, _SECRET, _NODE)}


class KeysInMemory:
    """The keys of an API server without a database (`KeyStore`)."""

    def __init__(self) -> None:
        self._keys: dict[str, StoredSigningKey] = {}

    def signing_keys(self) -> list[StoredSigningKey]:
        """Return all keys."""
        return [*self._keys.values()]

    def put_signing_key(self, key_id: str, key: StoredSigningKey | None) -> None:
        """Keep a new or changed key; None deletes it."""
        self._keys.pop(key_id, None)
        if key is not None:
            self._keys[key_id] = key


class TokenIssuer:
    """The issuer of tokens, on the thread of the API server, in its transactions.

    Args:
        store: has the keys; None: in memory.
        settings: the issuer's name, and the audiences of the API server.
        refuses: tokens of a node's pods.
    """

    def __init__(
        self,
        store: KeyStore | None = None,
        settings: ServiceAccountSettings | None = None,
        refuses: RefusesTokens = refuses_none,
    ) -> None:
        self._refuses = refuses
        self._store = store or KeysInMemory()
        self._settings = settings or ServiceAccountSettings()

    def public_keys(self) -> dict[str, bytes]:
        """Return the public keys of all tokens that may still be valid, PEM, by their ids."""
        return public_keys(self._store)

    def authenticate(
        self, token: str, audiences: tuple[str, ...], objects: Storage, now: float
    ) -> Authenticated | None:
        """Return the user of a token; None for a token that is not valid. See `review_token`."""
        return review_token(token, self._store, self._settings, audiences, objects, now, self._refuses)

    def issue(self, objects: Storage, clock: Clock, namespace: str, name: str, request: JsonObject) -> JsonObject:
        """Return a TokenRequest with its status.

        Args:
            objects: all objects.
            clock: the time, and the token's id.
            namespace: of the service account.
            name: of the service account.
            request: the TokenRequest.

        Raises:
            NotFoundError: there is no such service account, or no such object as the token is to be bound to.
            BadRequestError: the pod runs as another account, or the token cannot be bound to such an object.
            ConflictError: the object has another uid.
            InvalidError: the token would be valid for less than ten minutes, or for more than 2^32 seconds.
            TooManyRequestsError: tokens for the object's node that are issued in this second are refused.
            ApiStatusError: that is not known yet.
        """
        now, asked = clock.now(), convert(request, TokenRequest, "TokenRequest")
        _check_names(namespace, name, asked)
        account = _reference(objects.get(key_for(_ACCOUNT, namespace, name)))
        seconds = _checked_seconds(asked.spec.expiration_seconds)
        audiences = asked.spec.audiences or self._settings.api_audiences
        bound = BoundObjects(namespace=namespace, serviceaccount=account)
        if asked.spec.bound_object_ref is not None:
            bound = _with_object(bound, asked.spec.bound_object_ref, objects)
        if bound.node is not None and self._refuses(bound.node.name, int(now)):
            raise TooManyRequestsError(f"node {bound.node.name} is revoked or was replaced just now: try again soon")
        expires = int(now) + min(seconds, LONGEST_LIFE)
        claims = self._claims(bound, audiences, clock)
        token = _signed(msgspec.structs.replace(claims, exp=expires), current_signer(self._store, now))
        return {
            "kind": "TokenRequest",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": format_rfc3339(now)},
            "spec": {**(request.get("spec") or {}), "audiences": [*audiences], "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": format_rfc3339(expires)},
        }

    def unending(self, secret: JsonObject, account: JsonObject, clock: Clock) -> str:
        """Return a token that does not expire. It is bound to its Secret and to its service account, as it is stored
        with them.
        """
        bound = BoundObjects(
            namespace=account["metadata"]["namespace"], secret=_reference(secret), serviceaccount=_reference(account)
        )
        return _signed(self._claims(bound, self._settings.api_audiences, clock), unending_signer(self._store))

    def _claims(self, bound: BoundObjects, audiences: tuple[str, ...], clock: Clock) -> AccountClaims:
        """Return the claims of a token without its end."""
        now = int(clock.now())
        return AccountClaims(
            aud=audiences,
            iat=now,
            iss=self._settings.issuer,
            jti=clock.new_id(),
            bound=bound,
            nbf=now,
            sub=subject(bound.namespace, bound.serviceaccount.name),
        )


def _signed(claims: AccountClaims, signer: Signer) -> str:
    return sign(msgspec.json.encode(claims), signer.key_id, signer.key)


def _check_names(namespace: str, name: str, asked: TokenRequest) -> None:
    if asked.metadata.namespace not in ("", namespace):
        raise BadRequestError("the namespace in the token request must match the URL")
    if (given := asked.metadata.name) not in ("", name):
        why = f"Invalid value: {shown(given)}: must match the service account name if specified"
        raise InvalidError("TokenRequest", name, "metadata.name", why, _GROUP)


def _checked_seconds(seconds: int | None) -> int:
    if seconds is None:
        return _DEFAULT_SECONDS
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        words = "larger than 2^32 seconds" if seconds > _MOST_SECONDS else "less than 10 minutes"
        why = f"Invalid value: {str(seconds)[:40]}: may not specify a duration {words}"
        raise InvalidError("TokenRequest", "", "spec.expirationSeconds", why, _GROUP)
    return seconds


def _with_object(bound: BoundObjects, wanted: BoundObjectReference, objects: Storage) -> BoundObjects:
    """Return the claims with the object that a token is bound to."""
    kind = _BINDABLE.get((wanted.api_version or "v1", wanted.kind))
    if kind is None:
        what = f"{wanted.api_version[:80]}, Kind={wanted.kind[:80]}"
        raise BadRequestError(f"cannot bind token to object of type {what}")
    found = objects.get(key_for(kind, bound.namespace, wanted.name))
    reference = _reference(found)
    if kind is _POD and (found["spec"].get("serviceAccountName") or "default") != bound.serviceaccount.name:
        account = bound.serviceaccount.name
        why = f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
        raise BadRequestError(why)
    if wanted.uid not in ("", reference.uid):
        why = (
            f"the UID in the bound object reference ({wanted.uid[:40]}) does not match the UID in record. The object "
            "might have been deleted and then recreated"
        )
        raise ConflictError(kind.name, wanted.name, why)
    if kind is _SECRET:
        return msgspec.structs.replace(bound, secret=reference)
    if kind is _NODE:
        return msgspec.structs.replace(bound, node=reference)
    node = found["spec"].get("nodeName")
    return msgspec.structs.replace(bound, pod=reference, node=_node(node, objects) if node else None)


def _node(name: str, objects: Storage) -> BoundReference:
    """Return a pod's node, without a uid if it is not registered."""
    found = objects.find(key_for(_NODE, "", name))
    return BoundReference(name) if found is None else _reference(found)


def _reference(obj: JsonObject) -> BoundReference:
    return BoundReference(obj["metadata"]["name"], uid_of(obj))
