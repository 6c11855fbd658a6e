"""The state of a node's link as cloudcore knows it, and as the node itself, for every command and page."""

from typing import Final

import msgspec

from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.fields import JsonObject, value_at

CONNECTED: Final = "connected"
BEHIND: Final = "behind"
LOST: Final = "lost"
AWAY: Final = "away"
NEVER: Final = "never"
UNLINKED: Final = frozenset({LOST, AWAY, NEVER})
"""The states without a connection."""
REFUSED: Final = "its connection is refused: "
"""Begins the reason of a node that this cloudcore lets not in."""

UPGRADING: Final = "it is being upgraded by "
SETTING: Final = "it is getting other settings by "
"""Begin the reason of a node that a job of the cloud may be starting again."""
CHANGING: Final = (UPGRADING, SETTING)

AWAY_AFTER: Final = 40.0
"""Seconds without a connection after which a node is away: the Lease of a kubelet lasts as long."""
_UNACKNOWLEDGED: Final = 60.0
"""Seconds after which a message that was not acknowledged counts."""
_MARGIN: Final = 5.0


class LinkFacts(msgspec.Struct, frozen=True):
    """The connection that a node has. Times are seconds until now."""

    connected_seconds: float
    keepalive_seconds: float = 0.0
    oldest_seconds: float = 0.0
    """Since the oldest message that the node has not acknowledged was sent; 0 without one."""
    is_slow: bool = False
    """Whether the node reads more slowly than cloudcore sends."""


class NodeLinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts of a node's link. Times are seconds since 1970."""

    link: LinkFacts | None = None
    """The connection to the cloudcore that was asked."""
    holder: str = ""
    """Another cloudcore that is alive and has the node."""
    is_registered: bool = True
    """Whether there is a Node."""
    ready: str = ""
    """The status of the Node's condition Ready; "" without a Node, or without the condition."""
    ready_reason: str = ""
    ended: float = 0.0
    """When its last connection has ended; 0 if the journal does not know."""
    heartbeat: float = 0.0
    """When the Node's status or Lease was renewed last; 0 if never."""
    keepalive_interval: float = 30.0
    is_link_known: bool = True
    """Whether a cloudcore was asked; else the condition Ready stands in."""


class NodeLinkState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a node's link."""

    word: str
    """`connected`, `behind`, `lost`, `away` or `never`."""
    since: float = 0.0
    """Seconds since 1970; 0 if that is not known."""
    reason: str = ""
    """Why it is behind, or what its state rests on."""


def state_of(facts: NodeLinkFacts, now: float) -> NodeLinkState:
    """Return the state of a node's link.

    - connected: it has a connection, its keepalives come, and it acknowledges what it is sent.
    - behind: it has one, but something is wrong; the reason names it.
    - lost: its connection has ended, less than `AWAY_AFTER` seconds ago.
    - away: it has had none for `AWAY_AFTER` seconds.
    - never: no cloudcore has had a connection of it.
    """
    if not facts.is_link_known:
        return _by_condition(facts)
    if facts.link is not None:
        since = now - facts.link.connected_seconds
        reason = _behind(facts, facts.link) or _not_ready(facts)
        return NodeLinkState(BEHIND if reason else CONNECTED, since, reason)
    if facts.holder:
        reason = _not_ready(facts)
        return NodeLinkState(BEHIND if reason else CONNECTED, 0.0, reason or f"at {facts.holder}")
    since = facts.ended or facts.heartbeat
    if not since:
        return NodeLinkState(NEVER)
    if now - since < AWAY_AFTER:
        ago = human_duration(int(max(0.0, now - since)))
        return NodeLinkState(LOST, since, f"its connection ended {ago} ago")
    return NodeLinkState(AWAY, since, "" if facts.ended else "since its last heartbeat; the link journal has no end")


def _by_condition(facts: NodeLinkFacts) -> NodeLinkState:
    """Return the state of a node by its condition Ready."""
    if facts.ready == "True":
        return NodeLinkState(CONNECTED, 0.0, "Ready; its link is not known")
    if facts.ready == "Unknown" and not facts.heartbeat:
        return NodeLinkState(NEVER)
    if facts.ready == "Unknown":
        return NodeLinkState(AWAY, facts.heartbeat, "Ready is Unknown: since its last heartbeat")
    if facts.ready:
        return NodeLinkState(BEHIND, 0.0, _not_ready(facts))
    return NodeLinkState(BEHIND, 0.0, "it has never said whether it is Ready")


def _behind(facts: NodeLinkFacts, link: LinkFacts) -> str:
    if link.keepalive_seconds > 2 * facts.keepalive_interval + _MARGIN:
        return f"no keepalive for {human_duration(int(link.keepalive_seconds))}"
    if link.oldest_seconds > _UNACKNOWLEDGED:
        return f"it has not acknowledged a message for {human_duration(int(link.oldest_seconds))}"
    return "it reads slowly" if link.is_slow else ""


def _not_ready(facts: NodeLinkFacts) -> str:
    if not facts.is_registered:
        return "it has not registered"
    if facts.ready in ("", "True"):
        return ""
    return f"not Ready{': ' + facts.ready_reason if facts.ready_reason else ''}"


def own_link(state: JsonObject) -> str:
    """Return `connected`, `away` or, without a cloud, `never`."""
    if value_at(state, "link.enabled") is not True:
        return NEVER
    return CONNECTED if isinstance(value_at(state, "link.connected_at"), int | float) else AWAY


def own_link_words(state: JsonObject, now: float) -> str:
    """Return the end of a sentence about the node."""
    link = own_link(state)
    if link == NEVER:
        return "has no cloud"
    if link == CONNECTED:
        return f"has been connected to its cloud for {age_of(state, 'link.connected_at', now)}"
    lost = age_of(state, "link.lost_at", now)
    if lost:
        return f"has had no link to its cloud for {lost} and goes on by itself"
    return f"has had no link to its cloud since edgecore started {age_of(state, 'started_at', now)} ago"


def age_of(state: JsonObject, path: str, now: float) -> str:
    """Return how long ago a moment of the state was; empty if there is none."""
    at = value_at(state, path)
    return human_duration(int(max(0.0, now - at))) if isinstance(at, int | float) else ""
