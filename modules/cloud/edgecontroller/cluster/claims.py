"""The claims of nodes by this cloudcore, when they connect."""

from collections.abc import Callable, Mapping

from modules.cloud.edgecontroller.cluster.state import ClusterState
from modules.cloud.edgecontroller.mirror.missing_bodies import MissingBodies
from modules.cloud.messages import ConnectEvent


class NodeClaims:
    """The claim on a node in the cluster if its state is there, and the read of what it needs and is not in the mirror.

    Args:
        state: the states of nodes in the cluster; None: they are in a database.
        bodies: reads what a node needs.
    """

    def __init__(self, state: ClusterState | None, bodies: MissingBodies) -> None:
        self._state = state
        self._bodies = bodies
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        """What waits for the claim of each node that is being claimed."""

    def claim(self, event: ConnectEvent, then: Callable[[], None], superseded: Callable[[], None]) -> None:
        """Claim a node.

        Args:
            event: the beginning of the node's connection.
            then: called when all that was done.
            superseded: called instead if the node has connected to another cloudcore since.
        """
        node = event.client_id

        def ended(follow: Callable[[], None]) -> None:
            waiting = self._waiting.pop(node, ())
            follow()
            for each in waiting:
                each()

        def read() -> None:
            self._bodies.read_for(node, lambda: ended(then))

        self._waiting.setdefault(node, [])
        if self._state is None:
            read()
        else:
            self._state.claim(node, event.began_at, read, lambda: ended(superseded))

    def is_claiming(self, node: str) -> bool:
        """Return whether a node is being claimed: what its former cloudcore has sent it is not known yet."""
        return node in self._waiting

    def must_wait(self, node: str, work: Callable[[], None]) -> bool:
        """Return whether a node is being claimed; then the work is done after the claim."""
        if not self.is_claiming(node):
            return False
        self._waiting[node].append(work)
        return True

    def holders(self, node: str, then: Callable[[Mapping[str, str]], None]) -> bool:
        """Read from the cluster the cloudcore of a node's last connection, "" for all nodes; return whether that is
        stored there. `then` takes the cloudcores by node.
        """
        if self._state is None:
            return False
        self._state.holders(node, then)
        return True
