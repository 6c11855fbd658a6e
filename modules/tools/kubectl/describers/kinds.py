"""Chooses the description of a kind."""

from collections.abc import Callable
from typing import Final

from modules.tools.kubectl.describers.common import Related
from modules.tools.kubectl.describers.config import describe_config_map, describe_namespace, describe_secret
from modules.tools.kubectl.describers.generic import describe_any
from modules.tools.kubectl.describers.node import describe_node
from modules.tools.kubectl.describers.pod import describe_pod
from modules.tools.kubectl.describers.service import describe_endpoints, describe_service
from modules.tools.kubectl.describers.storage import describe_claim, describe_volume
from modules.tools.printing.fields import JsonObject, text_at

_DESCRIBERS: Final[dict[tuple[str, str], Callable[[JsonObject, Related, float], str]]] = {
    ("v1", "ConfigMap"): describe_config_map,
    ("v1", "Endpoints"): describe_endpoints,
    ("v1", "Namespace"): describe_namespace,
    ("v1", "Node"): describe_node,
    ("v1", "PersistentVolume"): describe_volume,
    ("v1", "PersistentVolumeClaim"): describe_claim,
    ("v1", "Pod"): describe_pod,
    ("v1", "Secret"): describe_secret,
    ("v1", "Service"): describe_service,
}


def describe_object(obj: JsonObject, related: Related, now: float) -> str:
    """Return the description of an object of any kind, with a line break at its end.

    Args:
        obj: the object.
        related: its related objects.
        now: seconds since the epoch, for ages.
    """
    key = text_at(obj, "apiVersion"), text_at(obj, "kind")
    return _DESCRIBERS.get(key, describe_any)(obj, related, now)
