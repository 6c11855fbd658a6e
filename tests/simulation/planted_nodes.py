"""Planted bugs in a node's knowledge of itself: a real cluster has shown each."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from edged.node.reporter import CORRECTIONS, NodeReporter
from modules.apimachinery.types import Node

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def a_label_of_the_node_is_not_heard() -> Iterator[None]:
    """edged keeps the labels of the node's registration."""
    hear = NodeReporter.handle_node_update

    def heard(self: NodeReporter, node: Node) -> None:
        known = self.registered_node
        labels = known.metadata.labels if known is not None else node.metadata.labels
        hear(self, replace(node, metadata=replace(node.metadata, labels=labels)))

    with patch.object(NodeReporter, "handle_node_update", heard):
        yield


@contextmanager
def what_others_write_into_the_node_is_not_put_right() -> Iterator[None]:
    """Ready stays Unknown, as the node controller has left it."""
    with patch.object(NodeReporter, "_may_correct", lambda _self: False):
        yield


@contextmanager
def what_was_put_right_three_times_is_never_again() -> Iterator[None]:
    """The limit of corrections is one for ever."""
    left = defaultdict[NodeReporter, int](lambda: CORRECTIONS)

    def may_correct(self: NodeReporter) -> bool:
        left[self] -= 1
        return left[self] >= 0

    with patch.object(NodeReporter, "_may_correct", may_correct):
        yield


@contextmanager
def a_deleted_node_is_not_made_again() -> Iterator[None]:
    """Whether its deletion says so, or a patch or a lease that is not found."""
    with patch.object(NodeReporter, "_lost", lambda _self: None):
        yield


NODES: tuple[Plant, ...] = (
    a_label_of_the_node_is_not_heard,
    what_others_write_into_the_node_is_not_put_right,
    what_was_put_right_three_times_is_never_again,
    a_deleted_node_is_not_made_again,
)
