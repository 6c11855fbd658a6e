"""Which Rule a request or a message matches, whatever comes in whatever order."""

from itertools import permutations
from typing import Any

import pytest

from modules.apimachinery.kinds import key_of
from modules.cloud.router import routing_table
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


def of_tenant(namespace: str, created: str) -> list[dict[str, Any]]:
    """A Rule that names the same URL for the same node as others' do, with its RuleEndpoints."""
    made = [*endpoints(), from_url(URL, name="orders")]
    return [
        {**each, "metadata": {**each["metadata"], "namespace": namespace, "creationTimestamp": created}}
        for each in made
    ]


def test_of_several_rules_with_one_url_the_oldest_has_it_whatever_happens() -> None:
    """A tenant with a right to Rules of its own namespace got the calls of another one, and answered them."""
    bank, evil = of_tenant("bank", "2026-01-01T00:00:00Z"), of_tenant("a", "2026-01-01T00:00:01Z")
    theirs, its = bank[-1], evil[-1]
    for several in permutations([theirs, its]):
        table = table_of(*bank[:-1], *evil[:-1], *several)

        def seen(table: RoutingTable = table) -> tuple[list[str], list[str]]:
            routes = table.for_message("n1", "http://cap.example/call")
            faults = [table.fault(key_of(each)) for each in (theirs, its)]
            return [each.rule.key.namespace for each in routes], [each.reason if each else "" for each in faults]

        assert seen() == (["bank"], ["", "URLTaken"])
        changed = {**theirs, "spec": {**theirs["spec"], "targetResource": {"resource": "http://new.example/"}}}
        table.put(ObjectChanged("MODIFIED", changed))
        assert seen() == (["bank"], ["", "URLTaken"])
        told = table.put(ObjectChanged("DELETED", theirs))
        assert key_of(its) in {each.key for each in told}, "its status is written again"
        assert seen()[0] == ["a"]
        assert table.fault(key_of(its)) is None
        told = table.put(ObjectChanged("ADDED", theirs))
        assert key_of(its) in {each.key for each in told}
        assert seen() == (["bank"], ["", "URLTaken"])
        for each in several:
            table.put(ObjectChanged("DELETED", each))
        assert not table._found


def test_a_url_is_kept_for_its_rule_until_the_endpoints_come() -> None:
    """An old Rule without its RuleEndpoints would take the URL of a younger one when they come."""
    old, young = of_tenant("a", "2026-01-01T00:00:00Z"), of_tenant("bank", "2026-01-01T00:00:01Z")
    late, its = key_of(old[-1]), key_of(young[-1])
    for several in permutations([old[-1], *young]):
        table = table_of(*several)

        def seen(table: RoutingTable = table) -> tuple[list[str], list[str]]:
            routes = table.for_message("n1", "http://cap.example/call")
            faults = [table.fault(key) for key in (late, its)]
            return [each.rule.key.namespace for each in routes], [each.reason if each else "" for each in faults]

        assert seen() == ([], ["EndpointNotFound", "URLTaken"])
        assert not any(each.new for each in table.put(ObjectChanged("ADDED", old[0])))
        assert seen() == ([], ["EndpointNotFound", "URLTaken"])
        for each in old[1:-1]:
            table.put(ObjectChanged("ADDED", each))
        assert seen() == (["a"], ["", "URLTaken"])
        told = table.put(ObjectChanged("DELETED", old[0]))
        assert [(each.key, each.old is not None, each.new) for each in told] == [(late, True, None)]
        assert seen() == ([], ["EndpointNotFound", "URLTaken"])
        told = table.put(ObjectChanged("DELETED", old[-1]))
        assert its in {each.key for each in told}, "its status is written again"
        assert seen() == (["bank"], ["", ""])


def test_a_namespace_has_the_urls_of_its_oldest_rules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant with a thousand Rules kept another namespace's URL off the node. What has no room claims nothing."""
    monkeypatch.setattr(routing_table, "MOST_URLS", 2)
    asked = {"r0": "http://0.example/", "r1": "http://1.example/", "r2": "http://bank.example/"}
    many = [from_url(URL, url, name=name) for name, url in asked.items()]
    bank = [
        {**each, "metadata": {**each["metadata"], "namespace": "bank", "creationTimestamp": "2026-12-01T00:00:00Z"}}
        for each in (*endpoints(), from_url(URL, asked["r2"], name="late"))
    ]

    def faults(table: RoutingTable) -> list[str]:
        found = [table.fault(key_of(each)) for each in (*many, bank[-1])]
        return [each.reason if each else "" for each in found]

    def told(table: RoutingTable) -> list[str]:
        return sorted(each.rule.key.name for each in table.of_node("n1"))

    for several in permutations((*many, bank[-1])):
        table = table_of(*endpoints(), *bank[:-1], *several)
        assert (faults(table), told(table)) == (["", "", "TooManyURLs", ""], ["late", "r0", "r1"])
        assert [each.rule.key.namespace for each in table.for_message("n1", asked["r2"])] == ["bank"]
        changes = table.put(ObjectChanged("MODIFIED", from_url(URL, asked["r0"], node="n2", name="r0")))
        by_name = {each.key.name: (each.old is not None, each.new is not None) for each in changes}
        assert by_name == {"r0": (True, True), "r2": (False, True), "late": (True, True)}
        assert (faults(table), told(table)) == (["", "", "", "URLTaken"], ["late", "r1", "r2"])
        changes = table.put(ObjectChanged("MODIFIED", many[0]))
        by_name = {each.key.name: (each.old is not None, each.new is not None) for each in changes}
        assert by_name == {"r0": (True, True), "r2": (True, False), "late": (True, True)}
        assert (faults(table), told(table)) == (["", "", "TooManyURLs", ""], ["late", "r0", "r1"])


def test_of_several_rules_with_one_path_the_later_ones_say_that_they_get_no_call() -> None:
    """The names in braces do not matter; another namespace, or another path that matches the same call, does."""
    made = {"b": "2026-01-01T00:00:00Z", "a": "2026-01-01T00:00:01Z", "c": "2026-01-01T00:00:00Z"}
    rules = [to_topic("/door/{id}", name="b"), to_service("/door/{number}", name="a"), to_topic("/door/{x}", name="c")]
    for each in rules:
        each["metadata"]["creationTimestamp"] = made[each["metadata"]["name"]]
    keys = {each["metadata"]["name"]: key_of(each) for each in rules}
    foreign = [{**each, "metadata": {**each["metadata"], "namespace": "a"}} for each in (*endpoints(), rules[1])]
    others = [to_topic("/door", name="short"), to_topic("/door/7", name="literal"), *foreign]

    def late(table: RoutingTable) -> dict[str, str]:
        return {name: fault.reason for name, key in keys.items() if (fault := table.fault(key)) is not None}

    for several in permutations(rules):
        table = table_of(*endpoints(), *several, *others)
        assert late(table) == {"a": "PathTaken", "c": "PathTaken"}
        assert all(table.fault(key_of(each)) is None for each in others)
        told = table.put(ObjectChanged("DELETED", rules[0]))
        assert {each.key for each in told} == {keys["b"], keys["c"]}, "the status of who takes over is written"
        assert (called(table, "/n/cap/door/8"), late(table)) == ("c", {"a": "PathTaken"})
        told = table.put(ObjectChanged("MODIFIED", to_topic("/gate", name="c")))
        assert keys["a"] in {each.key for each in told}
        assert (called(table, "/n/cap/door/8"), late(table)) == ("a", {})
        told = table.put(ObjectChanged("ADDED", rules[0]))
        assert keys["a"] in {each.key for each in told}
        assert (called(table, "/n/cap/door/8"), late(table)) == ("b", {"a": "PathTaken"})


def test_nothing_is_kept_of_rules_that_are_gone() -> None:
    table = table_of(*endpoints())
    lost = from_url(URL, name="lost")
    lost["spec"]["source"] = "missing"
    rules = [to_topic("/a"), to_service("/a"), from_url(URL), from_url(URL, name="later"), from_topic(URL), lost]
    for change in ("ADDED", "DELETED"):
        for each in rules:
            table.put(ObjectChanged(change, each))
    assert not any((table._claims, table._urls, table._by_path, table._by_resource, table._of_node, table._found))
    assert not table._reserved


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
        (rule("r", "rest", {"path": "/a", "target_url": URL}, "eb", {"topic": "t"}), "InvalidResource", "servicebus"),
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
