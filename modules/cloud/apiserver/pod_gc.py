"""Kubernetes' pod garbage collector, as far as a cloud without a cluster needs it."""

from collections.abc import Sequence
from typing import Final

from modules.apimachinery.graceful_deletion import finalizers_of
from modules.apimachinery.kinds import ObjectKey, is_being_deleted, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.storage.object_storage import Storage

_NODE: Final = kind_named("Node")


def orphaned_pods(storage: Storage) -> Sequence[ObjectKey]:
    """Return the pods that are being deleted from nodes that do not exist: no node will ever report their end."""
    nodes = {node["metadata"]["name"] for node in storage.list(_NODE)}
    return [
        key
        for node in storage.nodes_of_pods() - nodes - {""}
        for key in storage.pods_of(node)
        if is_being_deleted(storage.get(key)) and not finalizers_of(storage.get(key))
    ]


def remove_orphans(cluster: Cluster) -> None:
    """Remove the orphaned pods."""
    for key in orphaned_pods(cluster.storage):
        cluster.delete(key, grace=0)
