"""The kubelet's ports in the statuses of nodes with a tunnel."""

import logging
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.clock import Timer
from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import STRATEGIC, ApiCall, ApiResult
from modules.cloud.cloudstream.tunnels import Tunnels

_log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 20.0
"""Between two attempts to write a node's port, as in KubeEdge."""
QUIET_SECONDS: Final = 60.0
"""After which a port that another writer replaces is written again immediately."""
LONGEST_PAUSE: Final = 5.0
"""Seconds before it is written again while another writer goes on to replace it: a second cloudcore that has not
noticed yet that its tunnel of the node has ended, or an edge that insists on its own port.
"""
_FIRST_PAUSE: Final = 0.5
_REPLY_SECONDS: Final = 30.0


class _Port(msgspec.Struct):
    timer: Timer | None = None
    """Of the next write."""
    is_being_written: bool = False
    again: bool = False
    """Whether the Node has had another port since that write began."""
    failures: int = 0
    """In a row."""
    replaced_at: float = float("-inf")
    """Monotonic seconds of the last sight of another writer's port."""
    pause: float = 0.0


class NodePorts:
    """The port where the API server of a cluster reaches this cloudcore, written into the status of each node that has
    a tunnel here: when the tunnel opens, when the Node is made again, and when another writer has replaced it. A write
    that fails is repeated while the node has a tunnel; a Node that is not there is written when it is.

    Args:
        module: cloudstream, on whose thread this runs.
        tunnels: of the nodes.
        port: that is written.
    """

    def __init__(self, module: Module, tunnels: Tunnels, port: int) -> None:
        self._module = module
        self._tunnels = tunnels
        self._port = port
        self._ports: dict[str, _Port] = {}
        module.every(QUIET_SECONDS, self._forget_quiet)

    def opened(self, node: str) -> None:
        """Write the port of a node that has opened a tunnel."""
        self._write(node)

    def seen(self, node: str, port: int) -> None:
        """Compare the port that a Node has now."""
        if port == self._port or not self._tunnels.has(node):
            return
        state = self._ports.setdefault(node, _Port())
        now = self._module.clock.monotonic()
        quiet = now - state.replaced_at > QUIET_SECONDS
        state.pause = 0.0 if quiet else min(LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * state.pause))
        state.replaced_at = now
        if state.is_being_written:
            state.again = True
        elif state.timer is None or quiet:
            self._write_after(node, state, state.pause)

    def _forget_quiet(self) -> None:
        """Forget the nodes whose port is written, and was not replaced for a while."""
        since = self._module.clock.monotonic() - QUIET_SECONDS
        for node, state in list(self._ports.items()):
            if state.timer is None and not state.is_being_written and state.replaced_at < since:
                del self._ports[node]

    def _write_after(self, node: str, state: _Port, seconds: float) -> None:
        if state.timer is not None:
            state.timer.cancel()
        state.timer = self._module.after(seconds, lambda: self._write(node))

    def _write(self, node: str) -> None:
        if not self._tunnels.has(node):
            self._ports.pop(node, None)
            return
        state = self._ports.setdefault(node, _Port())
        if state.timer is not None:
            state.timer.cancel()
            state.timer = None
        if state.is_being_written:
            state.again = True
            return
        state.is_being_written, state.again = True, False
        body = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}}}}
        call = ApiCall(
            verb="patch", api_version="v1", plural="nodes", name=node, subresource="status", patch_type=STRATEGIC,
            body=body,
        )  # fmt: skip
        request = self._module.message(api_messages.RESOURCE, Verb.CALL, call)
        self._module.request(
            ModuleName.EDGECONTROLLER, request, _REPLY_SECONDS, lambda answer: self._answered(node, state, answer)
        )

    def _answered(self, node: str, state: _Port, answer: Message | BeehiveError) -> None:
        state.is_being_written = False
        code, why = _failure(answer)
        is_missing = code == HTTPStatus.NOT_FOUND
        state.failures = state.failures + 1 if why and not is_missing else 0
        if state.failures == 2:
            _log.warning("node %s: the port of its streams cannot be written: %s; tried again", node, why)
        elif why:
            _log.info("node %s: the port of its streams is not written: %s", node, why)
        if state.again:
            self._write_after(node, state, state.pause)
        elif state.failures:
            self._write_after(node, state, RETRY_SECONDS)


def _failure(answer: Message | BeehiveError) -> tuple[int, str]:
    """Return the status and the reason of a refused port, 0 and "" if it is written."""
    if not isinstance(answer, Message):
        return 0, str(answer)
    refusal = answer.content_as(ApiResult).refusal
    if refusal is None:
        return 0, ""
    code = refusal.get("code")
    return code if isinstance(code, int) else 0, f"{code} {refusal.get('message')}"
