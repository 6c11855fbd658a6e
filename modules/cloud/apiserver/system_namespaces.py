"""The namespaces that an API server makes at its start (kube-apiserver's system namespaces controller)."""

from modules.apimachinery.kinds import key_for, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.namespaces import SYSTEM

_NAMESPACE = kind_named("Namespace")


def make_system_namespaces(cluster: Cluster) -> None:
    """Make those that are not there."""
    for name in SYSTEM:
        if cluster.storage.find(key_for(_NAMESPACE, "", name)) is None:
            kind, api_version = _NAMESPACE.name, _NAMESPACE.api_version
            cluster.create({"kind": kind, "apiVersion": api_version, "metadata": {"name": name}})
