"""On which nodes a pod may be: node affinity and the operating system it is made for.

Of affinity only the node's part is here: what pods want of each other is the scheduler's alone.
"""

from msgspec import field

from edged.api.base import KubeStruct


class NodeSelectorRequirement(KubeStruct, frozen=True):
    """What one label (or field) of the node has to be: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = field(default_factory=str)
    operator: str = field(default_factory=str)
    values: tuple[str, ...] = ()


class NodeSelectorTerm(KubeStruct, frozen=True):
    """Requirements that hold together."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(KubeStruct, frozen=True):
    """Terms of which one has to hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = field(default_factory=tuple)


class NodeAffinity(KubeStruct, frozen=True):
    """What a node must be; what it had better be is the scheduler's."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(KubeStruct, frozen=True):
    """Where a pod may be."""

    node_affinity: NodeAffinity | None = None


class PodOS(KubeStruct, frozen=True):
    """The operating system a pod is made for: `linux`, `windows`."""

    name: str = field(default_factory=str)
