"""Topics and topic filters of MQTT 3.1.1 (§4.7). Pure."""

from typing import Final

_LONGEST: Final = 1024
"""Bytes of a topic, as at the node."""


def is_topic(topic: str) -> bool:
    """Return whether something may be published under a topic."""
    return 0 < len(topic.encode()) <= _LONGEST and not set(topic) & set("+#\0") and topic.isprintable()


def is_topic_filter(topic: str) -> bool:
    """Return whether a topic, perhaps with wildcards, may be subscribed to."""
    if not 0 < len(topic.encode()) <= _LONGEST or not topic.isprintable():
        return False
    *levels, last = topic.split("/")
    return all(level == "+" or not set(level) & set("+#") for level in levels) and (
        last in ("+", "#") or not set(last) & set("+#")
    )


def has_wildcard(topic_filter: str) -> bool:
    """Return whether a filter matches more than one topic."""
    return "+" in topic_filter or "#" in topic_filter


def selects(topic_filter: str, topic: str) -> bool:
    """Return whether a filter matches a topic."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for at, each in enumerate(wanted):
        if each == "#":
            return True
        if at >= len(levels) or each not in ("+", levels[at]):
            return False
    return len(wanted) == len(levels)
