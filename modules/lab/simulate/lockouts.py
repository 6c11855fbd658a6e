"""An administrator who locks nodes out and lets them in again, and what must hold meanwhile."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.names import Operation
from modules.cloud.identities import messages
from modules.cloud.identities.messages import KeyEnrolment, Revocation, TokenSettings
from modules.cloud.identities.records import JoinToken
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.world import Process, World

_ANSWER_WITHIN: Final = 30.0
_ENDED_WITHIN: Final = 2.0
"""Seconds after the administrator's command within which the node's connection ends."""
_HANDLED_WITHIN: Final = 10.0
"""Seconds after the administrator's command during which a message of the node may still be handled."""


class _Command(NamedTuple):
    """A request of the administrator to the module `identities`."""

    operation: str
    content: object


class Lockouts:
    """The administrator's commands, repeated until a cloudcore has carried them out, and the check that a node that is
    locked out has no connection, and does not renew its lease.

    Args:
        world: the world of the run.
        cloud: the cloud.
        nodes: the nodes.
    """

    def __init__(self, world: World, cloud: SimulatedCloud, nodes: Sequence[SimulatedNode]) -> None:
        self._world = world
        self._cloud = cloud
        self._nodes = {node.name: node for node in nodes}
        self._wanted: dict[str, _Command] = {}
        """The first command for each node that is not carried out yet."""
        self._asked: dict[str, Process | None] = {}
        """The cloudcore that is carrying out a node's command."""
        self._since: dict[str, float | None] = {}
        """When a node that is locked out was; None until that is stored."""
        self._renewed: dict[str, str] = {}
        """The last renewals of such nodes' leases."""
        self._keys = 0

    def lock(self, node: str) -> None:
        """Lock a node out."""
        self._since[node] = None
        self._order(node, _Command(messages.REVOKE, Revocation(kind="node", name=node)))

    def allow(self, node: str) -> None:
        """Accept the certificate of a node that is locked out again."""
        self._since.pop(node, None)
        self._order(node, _Command(messages.ALLOW, Revocation(kind="node", name=node)))

    def replace(self, node: str) -> None:
        """Let a node that is locked out join with another key."""
        self._since.pop(node, None)
        self._order(node, _Command(messages.MAKE_TOKEN, TokenSettings(node=node, replace=True)))

    def repeat(self) -> None:
        """Lock nodes out again, as the cloud has lost its objects, or has older ones."""
        for node in self._since:
            self.lock(node)

    def check(self, behind: float) -> None:
        """Make the commands that wait, and check.

        Args:
            behind: seconds during which a cloudcore may not know of a change.
        """
        for node in sorted(self._wanted):
            if self._cloud.process is not None and self._asked.get(node) is not self._cloud.process:
                self._asked[node] = self._cloud.process
                self._ask(node, self._wanted[node])
        for node, since in self._since.items():
            if since is not None:
                self._check(node, self._world.now() - since, behind)

    def disagreements(self) -> Iterator[str]:
        """Yield the commands that no cloudcore has carried out."""
        for node, command in self._wanted.items():
            yield f"{command.operation} of {node} is not carried out"

    def _order(self, node: str, command: _Command) -> None:
        self._wanted[node] = command
        self._asked.pop(node, None)
        self._renewed.pop(node, None)

    def _ask(self, node: str, first: _Command, further: _Command | None = None) -> None:
        """Ask for a command, or for one that follows from its answer."""
        process, hive = self._cloud.process, self._cloud.hive
        if process is None or hive is None:
            return
        command = further or first

        def answered(answer: Message | BeehiveError) -> None:
            if self._wanted.get(node) is not first:
                return
            if isinstance(answer, BeehiveError) or answer.route.operation == Operation.ERROR:
                self._world.log_line("admin", f"{command.operation} of {node} is refused: {answer}"[:300])
                self._asked.pop(node, None)
            elif command.operation == messages.MAKE_TOKEN:
                token = answer.content_as(JoinToken).name
                key = f"key {self._keys} of {node}"
                self._ask(node, first, _Command(messages.ENROL, KeyEnrolment(node=node, key=key, token=token)))
            else:
                self._carried_out(node, command, process)

        request = Message.new(
            process.clock, source="control", resource=messages.RESOURCE, operation=command.operation,
            content=command.content,
        )  # fmt: skip
        hive.request_then(messages.NAME, request, _ANSWER_WITHIN, answered)

    def _carried_out(self, node: str, command: _Command, process: Process) -> None:
        self._world.log_line("admin", f"{command.operation} of {node} is carried out")
        del self._wanted[node]
        if command.operation == messages.REVOKE:
            self._since[node] = self._world.now()
        elif isinstance(command.content, KeyEnrolment):
            self._keys += 1
            line, begins = self._nodes[node].line, float(int(process.clock.now()))
            line.certificate = msgspec.structs.replace(line.certificate, begins=begins, key=command.content.key)

    def _check(self, node: str, seconds: float, behind: float) -> None:
        others_know = seconds > _ENDED_WITHIN + behind
        at = self._cloud.endpoint.connected_to(node)
        if at is not None and seconds > _ENDED_WITHIN and (others_know or at is self._cloud.process):
            self._world.violated("a node that is locked out has no connection", f"{node}: {seconds:g} s after that")
        if seconds > _HANDLED_WITHIN + behind:
            lease = self._cloud.find("Lease", "kube-node-lease", node)
            renewed = "" if lease is None else lease["spec"]["renewTime"]
            if renewed and renewed > self._renewed.setdefault(node, renewed):
                text = f"{node} has renewed its lease at {renewed}, {seconds:g} s after that"
                self._world.violated("nothing of a node that is locked out is accepted", text)
