"""The service account `default` that each namespace has, as kube-controller-manager's controller makes it."""

from typing import Final

from modules.apimachinery.kinds import is_being_deleted, key_for, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_NAMESPACE, _ACCOUNT = kind_named("Namespace"), kind_named("ServiceAccount")
_DEFAULT: Final = "default"


def may_lack_account(event: ObjectEvent) -> bool:
    """Return whether a namespace may lack its account after a change: it is new, or the account is gone."""
    if event.key.kind == _NAMESPACE.name:
        return event.type is EventType.ADDED
    is_account = (event.key.kind, event.key.name) == (_ACCOUNT.name, _DEFAULT)
    return is_account and event.type is EventType.DELETED


def make_default_accounts(cluster: Cluster) -> None:
    """Make the account `default` in each namespace that lacks it. One that is not an object of its own has none."""
    for namespace in cluster.storage.list(_NAMESPACE):
        name = namespace["metadata"]["name"]
        if not is_being_deleted(namespace) and cluster.storage.find(key_for(_ACCOUNT, name, _DEFAULT)) is None:
            metadata = {"name": _DEFAULT, "namespace": name}
            cluster.create({"kind": _ACCOUNT.name, "apiVersion": _ACCOUNT.api_version, "metadata": metadata})
