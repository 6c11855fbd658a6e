"""The rights that cloudcore needs in a cluster: the rights of the roles in `deploy/cloudcore.yaml`."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from modules.cloud.authorization.node_authorizer import LEASES as NODE_LEASES
from modules.cloud.coordination import leases
from modules.cloud.edgecontroller.state import node_states
from modules.cloud.identities import records

_Rules = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]


class Right(NamedTuple):
    """A verb on a resource."""

    group: str
    resource: str
    """With its subresource: `pods/status`."""
    verb: str
    namespace: str = ""
    """"" for all namespaces."""
    name: str = ""
    """"" for all names."""


class OptionalRole(NamedTuple):
    """A role that a cluster may do without."""

    rights: tuple[Right, ...]
    group: str
    """The only API group that needs it, or ""."""
    lack: str
    """The function that fails without it."""


_MIRRORED: Final = ("get", "list", "watch")
_RULES: Final[_Rules] = (
    ("", ("nodes", "pods", "configmaps", "secrets", "persistentvolumeclaims"), _MIRRORED),
    ("", ("persistentvolumes",), ("list", "watch")),
    ("storage.k8s.io", ("volumeattachments", "csidrivers"), _MIRRORED),
    ("", ("nodes",), ("create", "update", "patch")),
    ("", ("nodes/status", "pods/status"), ("update", "patch")),
    ("storage.k8s.io", ("csinodes",), ("get", "create", "update")),
    ("", ("pods",), ("create", "delete")),
    ("", ("events",), ("get", "create", "update", "patch")),
    ("", ("serviceaccounts/token",), ("create",)),
    ("", ("serviceaccounts",), ("get",)),
    ("", ("services", "endpoints", "namespaces"), _MIRRORED),
    ("discovery.k8s.io", ("endpointslices",), _MIRRORED),
)
_LEASES: Final = "coordination.k8s.io"
_LEASE_VERBS: Final = ("get", "create", "update", "patch", "delete")
_DEVICES: Final = "devices.kubeedge.io"
_SYNCS: Final = "reliablesyncs.kubeedge.io"
_STATE_GROUP: Final = node_states.API_VERSION.partition("/")[0]


def needed(namespace: str, *, keeps_state: bool = False) -> Iterator[Right]:
    """Yield the rights without which a node lacks something.

    Args:
        namespace: of the Leases of cloudcores.
        keeps_state: whether the versions that nodes have acknowledged are stored in the cluster, in that namespace.
    """
    yield from _rights(_RULES)
    yield from (Right(_LEASES, leases.PLURAL, verb, NODE_LEASES) for verb in _LEASE_VERBS)
    own = ("get", "list", "watch", "create", "update", "delete")
    yield from (Right(_LEASES, leases.PLURAL, verb, namespace) for verb in own)
    yield from (Right("", records.PLURAL, verb, namespace) for verb in ("create", "update", "delete"))
    if keeps_state:
        verbs = ("get", "list", "create", "update")
        yield from (Right(_STATE_GROUP, node_states.PLURAL, verb, namespace) for verb in verbs)


def _rights(rules: _Rules) -> Iterator[Right]:
    for group, resources, verbs in rules:
        yield from (Right(group, resource, verb) for resource in resources for verb in verbs)


OPTIONAL: Final[Mapping[str, OptionalRole]] = {
    "cloudcore-certificates": OptionalRole(
        (
            *_rights(
                (
                    ("certificates.k8s.io", ("certificatesigningrequests",), ("get", "list")),
                    ("", ("users",), ("impersonate",)),
                )
            ),
            *(Right("", "groups", "impersonate", name=name) for name in ("system:nodes", "system:authenticated")),
        ),
        "",
        "signing requests of nodes, and reads and reviews of their metaservers, are refused",
    ),
    "cloudcore-devices": OptionalRole(
        tuple(
            _rights(
                (
                    (_DEVICES, ("devices", "devicemodels"), ("list", "watch")),
                    (_DEVICES, ("devicestatuses",), ("get", "list", "create", "update")),
                )
            )
        ),
        _DEVICES,
        "devices are not served",
    ),
    "cloudcore-from-kubeedge": OptionalRole(
        tuple(_rights(((_SYNCS, ("objectsyncs", "clusterobjectsyncs"), ("list",)),))),
        _SYNCS,
        "nodes that come from KubeEdge are sent again what they have",
    ),
}
"""By name, the roles that a cluster may do without."""
