"""The kinds that the API serves: metamanager may store rows of them, from the cloud or from edged."""

from typing import Final

from beehive import ResourceType
from modules.apimachinery.resources import Resource

_STORAGE: Final = "storage.k8s.io"
_ISTIO: Final = "networking.istio.io"

RESOURCES: Final = (
    Resource("ConfigMap", "configmaps", ResourceType.CONFIGMAP, short_names=("cm",)),
    Resource("Endpoints", "endpoints", ResourceType.ENDPOINTS, short_names=("ep",)),
    Resource("Event", "events", ResourceType.EVENT, short_names=("ev",)),
    Resource("Namespace", "namespaces", ResourceType.NAMESPACE, namespaced=False, short_names=("ns",)),
    Resource("Node", "nodes", ResourceType.NODE, namespaced=False, short_names=("no",), subresources=("status",)),
    Resource("PersistentVolumeClaim", "persistentvolumeclaims", ResourceType.PERSISTENT_VOLUME_CLAIM,
             short_names=("pvc",), subresources=("status",)),
    Resource("PersistentVolume", "persistentvolumes", ResourceType.PERSISTENT_VOLUME, namespaced=False,
             short_names=("pv",), subresources=("status",)),
    Resource("Pod", "pods", ResourceType.POD, short_names=("po",), categories=("all",), subresources=("log", "status")),
    Resource("Secret", "secrets", ResourceType.SECRET),
    Resource("Service", "services", ResourceType.SERVICE, short_names=("svc",), categories=("all",),
             subresources=("status",)),
    Resource("EndpointSlice", "endpointslices", ResourceType.ENDPOINTSLICE, group="discovery.k8s.io"),
    Resource("Lease", "leases", ResourceType.LEASE, group="coordination.k8s.io"),
    Resource("CSIDriver", "csidrivers", ResourceType.CSI_DRIVER, group=_STORAGE, namespaced=False),
    Resource("VolumeAttachment", "volumeattachments", ResourceType.VOLUME_ATTACHMENT, group=_STORAGE, namespaced=False,
             subresources=("status",)),
    Resource("DestinationRule", "destinationrules", ResourceType.DESTINATION_RULE, group=_ISTIO, version="v1alpha3"),
    Resource("Gateway", "gateways", ResourceType.GATEWAY, group=_ISTIO, version="v1alpha3"),
    Resource("VirtualService", "virtualservices", ResourceType.VIRTUAL_SERVICE, group=_ISTIO, version="v1alpha3"),
)  # fmt: skip

TOKENS: Final = frozenset(resource.token for resource in RESOURCES)
"""Type tokens of the kinds."""

_BY_PATH: Final = {(each.group, each.version, each.plural): each for each in RESOURCES}
_BY_TOKEN: Final = {each.token: each for each in RESOURCES}


def find(group: str, version: str, plural: str) -> Resource | None:
    """Return the resource of a path, None for a kind that this node does not store."""
    return _BY_PATH.get((group, version, plural))


def of_token(token: str) -> Resource:
    """Return the resource of a type token. Raise KeyError if it is not served."""
    return _BY_TOKEN[token]
