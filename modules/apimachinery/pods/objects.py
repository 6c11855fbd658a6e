"""What the object of a pod says. A node or an earlier version may have written any of it."""

from typing import Final

from modules.apimachinery.kinds import JsonObject, is_being_deleted
from modules.apimachinery.pods.static import CONFIG_MIRROR

ENDED: Final = ("Succeeded", "Failed")
"""The phases of pods whose containers have ended for good."""


def is_mirror(pod: JsonObject) -> bool:
    """Return whether a node has made a pod for one of its static pods."""
    metadata = pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and CONFIG_MIRROR in annotations


def node_of(pod: JsonObject) -> str:
    """Return the node that a pod is bound to, or ""."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def phase_of(pod: JsonObject) -> str:
    """Return the phase of a pod; a pod that no node has reported is Pending."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def has_ended(pod: JsonObject) -> bool:
    """Return whether all containers of a pod have ended for good, so that it no longer takes room."""
    return (pod.get("status") or {}).get("phase") in ENDED


def is_active(pod: JsonObject) -> bool:
    """Return whether a pod runs or will, and counts as a replica."""
    return not has_ended(pod) and not is_being_deleted(pod)
