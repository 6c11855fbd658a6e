"""The rights that cloudcore needs in a cluster: those of the ClusterRole `cloudcore` and the Role `cloudcore-leases` in
`deploy/cloudcore.yaml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from modules.cloud.coordination import lease_settings, leases

if TYPE_CHECKING:
    from collections.abc import Iterator


class Right(NamedTuple):
    """A verb on a resource."""

    group: str
    resource: str
    """With its subresource: `pods/status`."""
    verb: str
    namespace: str = ""
    """"" for all namespaces."""


_MIRRORED: Final = ("get", "list", "watch")
_RULES: Final[tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]] = (
    ("", ("nodes", "pods", "configmaps", "secrets", "persistentvolumeclaims"), _MIRRORED),
    ("", ("persistentvolumes",), ("list", "watch")),
    ("storage.k8s.io", ("volumeattachments", "csidrivers"), _MIRRORED),
    ("", ("nodes",), ("create", "update", "patch")),
    ("", ("nodes/status", "pods/status"), ("update", "patch")),
    ("", ("pods",), ("create", "delete")),
    ("coordination.k8s.io", ("leases",), ("get", "create", "update", "patch", "delete")),
    ("", ("events",), ("get", "create", "update", "patch")),
    ("", ("serviceaccounts/token",), ("create",)),
    ("", ("serviceaccounts",), ("get",)),
    ("", ("services", "endpoints"), _MIRRORED),
    ("discovery.k8s.io", ("endpointslices",), _MIRRORED),
)


def needed() -> Iterator[Right]:
    """Yield the rights without which a node lacks something."""
    for group, resources, verbs in _RULES:
        yield from (Right(group, resource, verb) for resource in resources for verb in verbs)
    yield from (
        Right("coordination.k8s.io", leases.PLURAL, verb, lease_settings.NAMESPACE) for verb in ("list", "watch")
    )
