"""The facts about a node's link, from its Node, cloudhub and the link journal, and the row that is made of them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from modules.apimachinery.printing.ages import seconds_of
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.rows import LinkRow, NodeRow, PodCount, clock_error, node_row
from modules.insight.fleet.states import REFUSED, LinkFacts, NodeLinkFacts, state_of

_READY: Final = "Ready"
_NO_SESSION: Final = LinkSession("", "", "", 0.0)
_NEVER_UPDATED: Final = "NodeStatusNeverUpdated"
"""The reason that the node lifecycle gives a node it has never heard of; the heartbeat beside it is the time at which
the Node was made (kube-controller-manager's node_lifecycle_controller.go).
"""


class LinkKnowledge(msgspec.Struct, frozen=True):
    """The known facts about a node's link."""

    held: NodeConnection | None = None
    """Its connection to the cloudcore that was asked."""
    holder: str = ""
    """Another cloudcore that is alive and has it."""
    refused: str = ""
    """Why its connection is refused."""
    sessions: Sequence[LinkSession] = ()
    """Its connections in the link journal, the newest first."""
    is_known: bool = True
    """Whether a cloudcore was asked; else the condition Ready stands in."""


def linked_row(name: str, node: JsonObject | None, link: LinkKnowledge, pods: PodCount, now: float) -> NodeRow:
    """Return the row of a node, which is the same for each page and command.

    Args:
        name: its name.
        node: the Node; None if it has not registered.
        link: its link.
        pods: the pods bound to it.
        now: seconds since 1970.
    """
    held, newest = link.held, link.sessions[0] if link.sessions else _NO_SESSION
    is_lasting = held is not None or bool(link.holder)
    state = state_of(_facts_of(node, link), now)
    row = LinkRow(
        certificate_ends=newest.certificate_ends,
        address=newest.address,
        cloudcore=newest.cloudcore,
        last_word=link.refused or newest.reason,
        sessions=[(each.began, each.ended or (0.0 if is_lasting else each.seen)) for each in link.sessions],
    )
    if held is not None:
        row = msgspec.structs.replace(
            row,
            waiting=held.waiting + held.unacknowledged,
            oldest=now - held.oldest_seconds if held.unacknowledged else 0.0,
            certificate_ends=held.certificate_ends,
            address=held.address,
            last_word=held.last_error,
            clock_ahead=clock_error(held.clock_ahead_seconds),
        )
    elif link.refused:
        state = msgspec.structs.replace(state, reason=f"{REFUSED}{link.refused}")
    return node_row(name, node, state, pods, row, now)


def _facts_of(node: JsonObject | None, link: LinkKnowledge) -> NodeLinkFacts:
    ready = next(
        (each for each in objects_at(node or {}, "status.conditions") if each.get("type") == _READY), JsonObject()
    )
    newest, held = link.sessions[0] if link.sessions else _NO_SESSION, None
    if link.held is not None:
        oldest = link.held.oldest_seconds if link.held.unacknowledged else 0.0
        held = LinkFacts(link.held.connected_seconds, link.held.keepalive_seconds, oldest, link.held.is_behind)
    is_heard = text_at(ready, "reason") != _NEVER_UPDATED
    return NodeLinkFacts(
        link=held,
        holder=link.holder,
        is_registered=node is not None,
        ready=text_at(ready, "status"),
        ready_reason=text_at(ready, "reason"),
        ended=newest.ended or newest.seen,
        heartbeat=(is_heard and seconds_of(text_at(ready, "lastHeartbeatTime"))) or 0.0,
        is_link_known=link.is_known,
    )
