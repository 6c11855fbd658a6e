"""Which parts of its Node object a node decides, and which are others' (a kubelet's reconciliation): pure functions.

A node's own are: the conditions that it reports, the resources that it counts and those of its device plug-ins,
addresses, nodeInfo, images, volumesInUse, a kubelet's labels and annotations. Others' are: every other condition
(NetworkUnavailable of a network plug-in), extended resources that somebody has patched in, every other label and
annotation, the spec with its taints.
"""

from collections.abc import Iterable, Mapping

from edged.api import Node, NodeCondition, Quantity, parse_quantity
from edged.api.quantity import QuantityError
from edged.api.versions import version_number


def with_foreign_conditions(own: Iterable[NodeCondition], there: Iterable[NodeCondition]) -> tuple[NodeCondition, ...]:
    """The node's own conditions among those that are there, in the order in which they are; new ones come last."""
    ours = {condition.type: condition for condition in own}
    kept = [ours.pop(condition.type, condition) for condition in there]
    return (*kept, *ours.values())


def with_foreign_resources(
    own: Mapping[str, Quantity], there: Mapping[str, Quantity], capacity: Mapping[str, Quantity]
) -> dict[str, Quantity]:
    """The node's own resources, and the extended ones that somebody else has given it.

    An amount that is there in another notation stays as it is: an API server writes `1000` as `1k`.

    Args:
        own: amounts by name.
        there: what the cloud shows in their place.
        capacity: what it shows as capacity. Of others' resources all is allocatable (kubelet's MachineInfo).
    """
    foreign = {name: amount for name, amount in capacity.items() if "/" in name and name not in own}
    said = {name: there[name] if name in there and _same(there[name], value) else value for name, value in own.items()}
    return {**said, **foreign}


def is_newer(node: Node, known: Node | None) -> bool:
    """Whether a state of the Node object is not older than the known one. Of two objects of the name, the one that was
    made later is.
    """
    if known is None:
        return True
    if node.metadata.uid != known.metadata.uid:
        made = node.metadata.creation_timestamp
        return not made or made >= (known.metadata.creation_timestamp or "")
    version, before = (version_number(each.metadata.resource_version) for each in (node, known))
    return not version or version >= before


def _same(one: Quantity, other: Quantity) -> bool:
    try:
        return parse_quantity(one) == parse_quantity(other)
    except QuantityError:
        return False
