"""The facts about a node's link, from its Node and from what cloudhub and the link journal know."""

from typing import Final, Protocol

from modules.tools.fleet.states import LinkFacts, NodeLinkFacts
from modules.tools.printing.ages import seconds_of
from modules.tools.printing.fields import JsonObject, objects_at, text_at

_READY: Final = "Ready"


class LinkPeriod(Protocol):
    """A connection in the link journal. Times are seconds since 1970."""

    @property
    def ended(self) -> float:
        """0 while it lasts, as far as is known."""

    @property
    def seen(self) -> float:
        """When the cloudcore of a connection that lasts has left its last sign of life."""


def facts_of(
    node: JsonObject | None, *, link: LinkFacts | None = None, holder: str = "", newest: LinkPeriod | None = None
) -> NodeLinkFacts:
    """Return the facts of a node.

    Args:
        node: the Node; None if it has not registered.
        link: its connection to the cloudcore that was asked.
        holder: another cloudcore that is alive and has it.
        newest: its newest connection in the link journal.
    """
    ready = next(
        (each for each in objects_at(node or {}, "status.conditions") if each.get("type") == _READY), JsonObject()
    )
    return NodeLinkFacts(
        link=link,
        holder=holder,
        ready=text_at(ready, "status"),
        ready_reason=text_at(ready, "reason"),
        ended=(newest.ended or newest.seen) if newest is not None else 0.0,
        heartbeat=seconds_of(text_at(ready, "lastHeartbeatTime")) or 0.0,
    )
