"""The nodes of a pod: node affinity and operating system.

Pod affinity is left out: only the scheduler uses it.
"""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct


class NodeSelectorRequirement(KubeStruct, frozen=True):
    """A condition on one label (or field) of the node: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = field(default_factory=str)
    operator: str = field(default_factory=str)
    values: tuple[str, ...] = ()


class NodeSelectorTerm(KubeStruct, frozen=True):
    """Requirements that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(KubeStruct, frozen=True):
    """Terms, at least one of them must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = field(default_factory=tuple)


class NodeAffinity(KubeStruct, frozen=True):
    """The required nodes; preferred ones concern only the scheduler."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(KubeStruct, frozen=True):
    """The affinity of a pod."""

    node_affinity: NodeAffinity | None = None


class PodOS(KubeStruct, frozen=True):
    """The operating system of a pod: `linux`, `windows`."""

    name: str = field(default_factory=str)
