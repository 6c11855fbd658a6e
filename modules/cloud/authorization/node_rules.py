"""The table of requests that nodes may make, as docs/authorization.md shows it; all others are refused.

It is Kubernetes' ClusterRole `system:node` narrowed by its node authorizer, as far as there are such objects here.
As in Kubernetes, the authorizer allows requests that NodeRestriction decides on (`RESTRICTED`).
"""

from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """The objects of a kind that a rule allows, in the words of docs/authorization.md."""

    ALL = "all"
    OWN_NODE = "its own Node"
    OWN_LEASE = "`kube-node-lease/NODE`"
    OWN_POD = "pods bound to it, or none of that name"
    OWN_PODS = "with the field selector `spec.nodeName=NODE`"
    RESTRICTED = "pods bound to it"
    MIRROR = "mirror pods on itself that refer to nothing"
    REFERRED = "named by its pods"
    BOUND_TOKEN = "bound to one of its pods, by name and uid, that runs as this account"  # noqa: S105 - no password
    OWN_ATTACHMENT = "with `spec.nodeName: NODE`, or none of that name"
    OWN_REQUEST = "made by it"
    ABOUT_ITSELF = "about itself and its pods"


READ_ALL: Final = {"get": Scope.ALL, "list": Scope.ALL}
_READ_REFERRED: Final = {"get": Scope.REFERRED, "list": Scope.REFERRED}
"""A list of one object, by the field selector `metadata.name=NAME`, is as a get."""

RULES: Final[dict[tuple[str, str], dict[str, Scope]]] = {
    ("", "pods"): {
        "get": Scope.OWN_POD,
        "list": Scope.OWN_PODS,
        "create": Scope.MIRROR,
        "delete": Scope.RESTRICTED,
    },
    ("", "pods/status"): {"update": Scope.RESTRICTED, "patch": Scope.RESTRICTED},
    ("", "secrets"): _READ_REFERRED,
    ("", "configmaps"): _READ_REFERRED,
    ("", "serviceaccounts"): {"get": Scope.REFERRED},
    ("", "serviceaccounts/token"): {"create": Scope.BOUND_TOKEN},
    ("", "persistentvolumeclaims"): {"get": Scope.REFERRED},
    ("", "persistentvolumes"): {"get": Scope.REFERRED},
    ("storage.k8s.io", "volumeattachments"): {"get": Scope.OWN_ATTACHMENT},
    ("storage.k8s.io", "csidrivers"): READ_ALL,
    ("", "nodes"): {
        "get": Scope.OWN_NODE,
        "list": Scope.OWN_NODE,
        "create": Scope.OWN_NODE,
        "update": Scope.OWN_NODE,
        "patch": Scope.OWN_NODE,
    },
    ("", "nodes/status"): {"update": Scope.OWN_NODE, "patch": Scope.OWN_NODE},
    ("coordination.k8s.io", "leases"): {
        "get": Scope.OWN_LEASE,
        "create": Scope.OWN_LEASE,
        "update": Scope.OWN_LEASE,
        "patch": Scope.OWN_LEASE,
        "delete": Scope.OWN_LEASE,
    },
    ("", "events"): {"create": Scope.ABOUT_ITSELF, "update": Scope.ABOUT_ITSELF, "patch": Scope.ABOUT_ITSELF},
    ("certificates.k8s.io", "certificatesigningrequests"): {"create": Scope.ALL, "get": Scope.OWN_REQUEST},
    ("", "services"): READ_ALL,
    ("", "endpoints"): READ_ALL,
    ("discovery.k8s.io", "endpointslices"): READ_ALL,
    ("", "namespaces"): READ_ALL,
}
"""By API group and resource, and by verb; a watch is allowed where a list is."""
