"""The parts of the Node object that the node decides, and the parts of others (kubelet's reconciliation): pure
functions.

The node decides the conditions that it reports, the resources of the machine and of its device plug-ins, its
addresses, nodeInfo, images, volumesInUse, and a kubelet's labels and annotations. Others decide every other condition
(NetworkUnavailable of a network plug-in), extended resources that were patched in, every other label and annotation,
and the spec with its taints.
"""

from collections.abc import Iterable, Mapping

from modules.apimachinery.extended_resources import foreign_resources
from modules.apimachinery.types import Node, NodeCondition, Quantity, parse_quantity
from modules.apimachinery.types.quantity import QuantityError
from modules.apimachinery.types.versions import order_of_making


def with_foreign_conditions(own: Iterable[NodeCondition], there: Iterable[NodeCondition]) -> tuple[NodeCondition, ...]:
    """Return the present conditions with the node's own ones updated, in the present order; new ones come last."""
    ours = {condition.type: condition for condition in own}
    kept = [ours.pop(condition.type, condition) for condition in there]
    return (*kept, *ours.values())


def with_foreign_resources(
    own: Mapping[str, Quantity], there: Mapping[str, Quantity], capacity: Mapping[str, Quantity]
) -> dict[str, Quantity]:
    """Return the node's own resources, and the extended resources that others have added.

    An equal amount in another notation stays as it is: an API server writes `1000` as `1k`.

    Args:
        own: amounts by name.
        there: amounts by name that the cloud has.
        capacity: capacity by name that the cloud has. Resources of others are allocatable wholly (kubelet's
            MachineInfo).
    """
    said = {name: there[name] if name in there and _same(there[name], value) else value for name, value in own.items()}
    return {**said, **foreign_resources(own, capacity)}


def is_newer(node: Node, known: Node | None) -> bool:
    """Return whether a Node object is at least as new as the known one. Of two objects with different uids, the one
    that was created later is newer; of two of one second, the one with the higher resourceVersion.
    """
    if known is None:
        return True
    (made, version), before = order_of_making(node.metadata), order_of_making(known.metadata)
    if node.metadata.uid != known.metadata.uid and (not made or made != before[0]):
        return not made or made > before[0]
    return not version or version >= before[1]


def _same(one: Quantity, other: Quantity) -> bool:
    if one == other:
        return True
    try:
        return parse_quantity(one) == parse_quantity(other)
    except QuantityError:
        return False
