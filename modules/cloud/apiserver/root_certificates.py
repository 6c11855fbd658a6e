"""The ConfigMap of each namespace with the certificate authority of the API server, as kube-controller-manager's
`root-ca-cert-publisher` keeps it.
"""

from typing import Final

from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_for, kind_named
from modules.cloud.apiserver.admission.api_access import ROOT_CERTIFICATE
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_NAMESPACE, _CONFIG_MAP = kind_named("Namespace"), kind_named("ConfigMap")
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def may_lack_certificate(event: ObjectEvent) -> bool:
    """Return whether a namespace may lack the ConfigMap after a change, or have another one."""
    if event.key.kind == _NAMESPACE.name:
        return event.type is EventType.ADDED
    return (event.key.kind, event.key.name) == (_CONFIG_MAP.name, ROOT_CERTIFICATE)


def keep_root_certificates(cluster: Cluster, authority: str, *, repairs: bool) -> None:
    """Make the ConfigMap in each namespace that lacks it.

    Args:
        cluster: the objects.
        authority: the certificate authority, PEM.
        repairs: whether one with another content is changed: another controller may keep them, with another authority.
    """
    for namespace in cluster.storage.list(_NAMESPACE):
        name = namespace["metadata"]["name"]
        found = cluster.storage.find(key_for(_CONFIG_MAP, name, ROOT_CERTIFICATE))
        data = {"ca.crt": authority}
        if is_being_deleted(namespace):
            continue
        if found is None:
            cluster.create(_config_map(name, data))
        elif repairs and found.get("data") != data:
            cluster.replace({**found, "data": data})


def _config_map(namespace: str, data: dict[str, str]) -> JsonObject:
    annotations = {"kubernetes.io/description": _DESCRIPTION}
    metadata = {"name": ROOT_CERTIFICATE, "namespace": namespace, "annotations": annotations}
    return {"kind": _CONFIG_MAP.name, "apiVersion": _CONFIG_MAP.api_version, "metadata": metadata, "data": data}
