"""The link of a node as the node itself tells it (`/edgecore/state`)."""

from modules.tools.fleet.states import AWAY, CONNECTED, NEVER
from modules.tools.printing.ages import human_duration
from modules.tools.printing.fields import JsonObject, value_at


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
