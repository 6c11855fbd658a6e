"""Extended resources of a node: those that neither the node nor its device plug-ins have added."""

from collections.abc import Container, Mapping

from modules.apimachinery.types import Quantity


def foreign_resources(own: Container[str], capacity: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return the extended resources in a node's capacity that are not its own."""
    return {name: amount for name, amount in capacity.items() if "/" in name and name not in own}
