"""Which Rule a request or a message matches, whatever comes in whatever order."""

from itertools import permutations
from typing import Any

import pytest

from modules.apimachinery.kinds import key_of
from modules.cloud.router.paths import read_path
from modules.cloud.router.routing_table import RoutingTable
from modules.cloud.router.status_writer import MOST_ERRORS, status_of
from modules.cloud.storage.watch_history import ObjectChanged
from tests.modules.cloud.router.rules import (
    MQTT,
    REST,
    endpoint,
    endpoints,
    from_topic,
    from_url,
    rule,
    to_service,
    to_topic,
)
from tests.support.presence import present

URL = "http://server.example/x"


def table_of(*objects: dict[str, Any]) -> RoutingTable:
    """A table with these objects."""
    table = RoutingTable()
    for each in objects:
        table.put(ObjectChanged("ADDED", each))
    return table


def called(table: RoutingTable, target: str) -> str:
    """The name of the Rule that a request matches, or ""."""
    path = present(read_path(target))
    found = table.for_caller(path)
    return found.rule.key.name if found is not None else ""


def test_the_longest_path_wins_and_then_the_literal_one() -> None:
    """A Rule of another namespace is another one."""
    table = table_of(
        *endpoints(), to_topic("/a", name="short"), to_topic("/a/{x}", name="any"), to_topic("/a/b", name="literal"),
        to_topic("/{x}", name="all"),
    )  # fmt: skip
    targets = ("/n/cap/a", "/n/cap/a/c/d", "/n/cap/a/b", "/n/cap/ab", "/n/other/a")
    assert [called(table, each) for each in targets] == ["short", "any", "literal", "all", ""]
    parts = table_of(*endpoints(), to_topic("/a/b", name="literal"), to_topic("/{x}/{y}/{z}", name="longer"))
    assert called(parts, "/n/cap/a/b/c") == "longer"


def test_of_equal_paths_the_oldest_rule_wins_and_then_the_first_name() -> None:
    """Whichever comes first."""
    made = {"b": "2026-01-01T00:00:00Z", "a": "2026-01-01T00:00:01Z", "c": "2026-01-01T00:00:00Z"}
    rules = [to_topic("/a", name=name) for name in made]
    for each in rules:
        each["metadata"]["creationTimestamp"] = made[each["metadata"]["name"]]
    for several in permutations(rules):
        assert called(table_of(*endpoints(), *several), "/n/cap/a") == "b"


def test_a_rule_works_whichever_comes_first() -> None:
    """Its endpoints may come after it, and go again."""
    for objects in permutations((*endpoints(), to_service())):
        table = table_of(*objects)
        assert called(table, "/n/cap/svc") == "r3"
        table.put(ObjectChanged("DELETED", endpoint(REST, "rest")))
        assert called(table, "/n/cap/svc") == ""
        assert table.fault(key_of(to_service())).reason == "EndpointNotFound"  # type: ignore[union-attr]


def test_a_changed_rule_is_another_one() -> None:
    """KubeEdge ignores changes."""
    table = table_of(*endpoints(), to_topic("/a"))
    table.put(ObjectChanged("MODIFIED", to_topic("/b")))
    assert (called(table, "/n/cap/a"), called(table, "/n/cap/b")) == ("", "r1")
    assert table.put(ObjectChanged("MODIFIED", {**to_topic("/b"), "status": {"successMessages": 7}})) == []
    table.put(ObjectChanged("MODIFIED", rule("r1", "other", {"path": "/b"}, MQTT, {"topic": "capt"})))
    assert table.put(ObjectChanged("DELETED", endpoint(REST, "rest"))) == [], "it names another endpoint now"
    table.put(ObjectChanged("DELETED", to_topic("/b")))
    assert called(table, "/n/cap/b") == ""


def test_messages_match_on_their_node_only() -> None:
    """By topic with wildcards, or by URL."""
    table = table_of(
        *endpoints(), from_topic(URL, "up", name="exact"), from_topic(URL, "up/+", name="plus"),
        from_topic(URL, "#", name="all"), from_url(URL, name="url"), from_topic(URL, "up", node="n2", name="other"),
    )  # fmt: skip

    def found(node: str, resource: str) -> list[str]:
        return sorted(route.rule.key.name for route in table.for_message(node, resource))

    assert found("n1", "cap/up") == ["all", "exact"]
    assert found("n1", "cap/up/x") == ["all", "plus"]
    assert found("n1", "http://cap.example/call") == ["url"]
    assert found("n2", "cap/up") == ["other"]
    assert found("n2", "http://cap.example/call") == []
    assert found("n1", "") == []


def test_the_path_of_a_service_has_no_query() -> None:
    table = table_of(*endpoints(), rule("r", "rest", {"path": "/a"}, "sb", {"path": "/b?c#d%20"}))
    route = present(table.for_caller(present(read_path("/n/cap/a"))))
    assert present(route.service).path == "/b%3Fc%23d%20"


@pytest.mark.parametrize("topic", ["up/x", "/up/x", "up/x/", "//up//x//"])
def test_a_topic_has_no_empty_levels(topic: str) -> None:
    """Nodes are told the same topic as by KubeEdge, whose `path.Join` leaves empty levels out."""
    asked = from_topic(URL, topic)
    (route,) = table_of(*endpoints(), asked).of_node("n1")
    assert route.resource == "cap/up/x"


@pytest.mark.parametrize(
    ("wrong", "reason", "text"),
    [
        (rule("r", "rest", {"path": "/a"}, "rest", {"resource": URL}), "PairNotSupported", "one of the two"),
        (rule("r", "rest", {"path": "/a/../b"}, "eb", {"topic": "t"}), "InvalidResource", "sourceResource.path"),
        (rule("r", "rest", {"path": "/a"}, "eb", {"topic": "t/#"}), "InvalidResource", "targetResource.topic"),
        (rule("r", "rest", {"path": "/a"}, "sb", {"path": "api"}), "InvalidResource", "targetResource.path"),
        (rule("r", "rest", {"path": "/a"}, "none", {"path": "/"}), "EndpointNotFound", "RuleEndpoint none"),
        (rule("r", "rest", {"path": "/a"}, "portless", {"path": "/"}), "InvalidEndpoint", "service_port"),
        (from_topic("ftp://x/y"), "InvalidResource", "targetResource.resource"),
        (from_topic("http://user:word@x/y"), "InvalidResource", "targetResource.resource"),
        (from_topic("http://x:99999/y"), "InvalidResource", "targetResource.resource"),
        (from_topic(f"http://x/{'y' * 1024}"), "InvalidResource", "targetResource.resource"),
        (rule("r", "rest", {"path": "/a"}, "sb", {"path": "/a\x1b"}), "InvalidResource", "targetResource.path"),
        (from_topic(URL, "a#"), "InvalidResource", "sourceResource.topic"),
        (from_topic(URL, node="a/b"), "InvalidResource", "sourceResource.node_name"),
        (from_url(URL, "no url"), "InvalidResource", "sourceResource.target_url"),
    ],
)
def test_wrong_rules_are_reported(wrong: dict[str, Any], reason: str, text: str) -> None:
    """With the field; and no word of a password."""
    portless = endpoint("portless", "servicebus", service_port="70000")
    fault = present(table_of(*endpoints(), portless, wrong).fault(key_of(wrong)))
    assert (fault.reason, text in fault.message, "word" in fault.message) == (reason, True, False)


def test_a_status_counts_on_and_keeps_the_last_errors() -> None:
    """The condition keeps the time of its last change; what others wrote stays."""
    fault = table_of(*endpoints(), from_topic("x")).fault(key_of(from_topic("x")))
    first = status_of(None, (2, 1, ("e0",)), None, "t1")
    assert (first["successMessages"], first["failMessages"], first["errors"]) == (2, 1, ["e0"])
    more = tuple(f"e{at}" for at in range(1, 12))
    second = status_of({**first, "mine": 1}, (1, 11, more), fault, "t2")
    assert (second["successMessages"], second["failMessages"], second["mine"]) == (3, 12, 1)
    assert second["errors"] == list(more[-MOST_ERRORS:])
    assert [(each["status"], each["lastTransitionTime"]) for each in (*first["conditions"], *second["conditions"])] == [
        ("True", "t1"),
        ("False", "t2"),
    ]
    third = status_of(second, (0, 0, ()), fault, "t3")
    assert third == second
    wrong = status_of({"successMessages": "3", "failMessages": True}, (2, 1, ()), None, "t1")
    assert (wrong["successMessages"], wrong["failMessages"]) == (2, 1)
