"""Planted bugs in a node's knowledge of itself: a real cluster has shown each."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from edged.api import Node
from edged.node.reporter import NodeReporter
from edged.node.token_bucket import TokenBucket

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
    with patch.object(TokenBucket, "try_accept", lambda _self: False):
        yield


@contextmanager
def what_was_put_right_three_times_is_never_again() -> Iterator[None]:
    """The limit of corrections is one for ever."""

    def take(self: TokenBucket) -> bool:
        self._left -= 1
        return self._left >= 0

    with patch.object(TokenBucket, "try_accept", take):
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
