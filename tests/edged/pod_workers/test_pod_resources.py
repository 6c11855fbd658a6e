"""The order in which a pod gives its resources back."""

from unittest.mock import Mock, call

from edged.pod_workers.pod_resources import PodResources
from edged.pods.model import PodRef, PodUid

_REF = PodRef(PodUid("u1"), "default", "web")


def _resources() -> tuple[Mock, PodResources]:
    parts = Mock()
    return parts, PodResources(parts.directories, parts.cgroups, parts.devices, parts.meta, parts.tokens, parts.host)


def test_a_pod_that_has_ended_keeps_its_logs() -> None:
    """Its processes are gone before its devices and volumes."""
    parts, resources = _resources()
    resources.release(_REF)
    released = call.cgroups.remove("u1"), call.devices.release("u1"), call.directories.remove_volumes(_REF)
    assert tuple(parts.mock_calls) == released


def test_a_pod_that_leaves_the_node_is_forgotten_last() -> None:
    """An interrupted removal is tried again. Its directory, with its volumes, is gone through once."""
    parts, resources = _resources()
    resources.remove(_REF)
    released = call.cgroups.remove("u1"), call.devices.release("u1"), call.directories.remove(_REF)
    assert tuple(parts.mock_calls) == (*released, call.cgroups.forget_pod("u1"), call.tokens.forget_pod("u1"))
