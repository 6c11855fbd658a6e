"""Secrets of service accounts: their tokens, which do not expire (KCM's `pkg/controller/serviceaccount`).

A Secret of the type `kubernetes.io/service-account-token` is filled, and goes with the account that it names. Its
token is void as soon as it or its account is deleted.
"""

import base64
from typing import Final

from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_for, key_of, kind_named, uid_of
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.storage.object_storage import EventType, ObjectEvent

SECRETS: Final = ("Secret", "ServiceAccount")
"""The kinds whose changes may concern such Secrets."""
TYPE: Final = "kubernetes.io/service-account-token"

_SECRET, _ACCOUNT = (kind_named(kind) for kind in SECRETS)
_NAME: Final = "kubernetes.io/service-account.name"
_UID: Final = "kubernetes.io/service-account.uid"


def may_lack_token(event: ObjectEvent) -> bool:
    """Return whether a Secret may lack its token after a change, or its account."""
    if event.key.kind == _ACCOUNT.key_name:
        return event.type is EventType.DELETED
    return event.type is not EventType.DELETED and event.new.get("type") == TYPE


def keep_account_secrets(cluster: Cluster, authority: str) -> None:
    """Fill the Secrets of service accounts, and delete those whose account does not exist.

    Args:
        cluster: the objects.
        authority: the API server's certificate authority, PEM; "" without one.
    """
    for secret in cluster.storage.list(_SECRET):
        if secret.get("type") != TYPE or is_being_deleted(secret):
            continue
        account = _account_of(cluster, secret)
        with cluster.one_of_many(key_of(secret)):
            if account is None:
                cluster.delete(key_of(secret))
            elif not secret.get("immutable") and (missing := _missing(cluster, secret, account, authority)):
                annotations = {**secret["metadata"]["annotations"], _UID: uid_of(account)}
                metadata = {**secret["metadata"], "annotations": annotations}
                cluster.replace({**secret, "metadata": metadata, "data": {**(secret.get("data") or {}), **missing}})


def _account_of(cluster: Cluster, secret: JsonObject) -> JsonObject | None:
    """Return the account of a Secret; None if it is not there, or is another one than the Secret was made for."""
    annotations = secret["metadata"].get("annotations") or {}
    account = cluster.storage.find(key_for(_ACCOUNT, secret["metadata"]["namespace"], str(annotations.get(_NAME))))
    uid = annotations.get(_UID)
    return None if account is None or (uid and uid != uid_of(account)) else account


def _missing(cluster: Cluster, secret: JsonObject, account: JsonObject, authority: str) -> dict[str, str]:
    """Return the data that a Secret lacks, in base64."""
    data, found = secret.get("data") or {}, {}
    if authority and data.get("ca.crt") != (certificate := _encoded(authority)):
        found["ca.crt"] = certificate
    if not data.get("namespace"):
        found["namespace"] = _encoded(secret["metadata"]["namespace"])
    if not data.get("token"):
        found["token"] = _encoded(cluster.tokens.unending(secret, account, cluster.clock))
    return found


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
