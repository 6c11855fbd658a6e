"""The custom resources of node groups and of applications for them (KubeEdge's `apps.kubeedge.io`)."""

from typing import Final

from modules.apimachinery.kinds import JsonObject, Kind, is_custom, key_kind, kind_named

_API_VERSION: Final = "apps.kubeedge.io/v1alpha1"
NODE_GROUP: Final = Kind(
    "NodeGroup", _API_VERSION, "nodegroups", namespaced=False, short_names=("ng",), counts_generations=True,
    is_custom=True,
)  # fmt: skip
EDGE_APPLICATION: Final = Kind(
    "EdgeApplication", _API_VERSION, "edgeapplications", short_names=("eapp",), counts_generations=True, is_custom=True
)
_CUSTOM: Final = {kind.key_name: kind for kind in (NODE_GROUP, EDGE_APPLICATION)}
BELONGING_TO: Final = "apps.kubeedge.io/belonging-to"
"""Label of a Node and of an EndpointSlice: the node group."""
TOPOLOGY: Final = "apps.kubeedge.io/service-topology"
"""Annotation of a Service."""
RANGE_NODE_GROUP: Final = "range-nodegroup"
"""The topology of a Service whose clients reach the endpoints of their own node group only."""


def kind_of(obj: JsonObject) -> Kind:
    """Return the kind of an object that controllers read or write.

    Raises:
        KeyError: it is of another custom kind.
        UnknownKindError: it is of no kind of the API server.
    """
    return _CUSTOM[key_kind(obj)] if is_custom(obj) else kind_named(obj["kind"])
