"""Topics and topic filters of MQTT 3.1.1 (§4.7) in Rules. Pure."""

from modules.apimachinery import device_topics


def is_topic(topic: str) -> bool:
    """Return whether something may be published under a topic; without characters that nobody sees."""
    return device_topics.is_topic(topic) and topic.isprintable()


def is_topic_filter(topic: str) -> bool:
    """Return whether a topic, perhaps with wildcards, may be subscribed to."""
    return device_topics.is_filter(topic) and topic.isprintable()


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
