"""Paths of callers and of rules, and topics."""

import pytest

from modules.cloud.router.paths import CallerPath, read_path, read_pattern
from modules.cloud.router.topics import is_topic, is_topic_filter, selects
from tests.support.presence import present


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/n1/cap/a", CallerPath("n1", "cap", ("a",), "")),
        ("/n1/cap/a/", CallerPath("n1", "cap", ("a",), "/")),
        ("/n1/cap/a/?x=1", CallerPath("n1", "cap", ("a",), "/?x=1")),
        ("/n1/cap/a/sub?x=1", CallerPath("n1", "cap", ("a", "sub"), "?x=1")),
        ("/n1/cap/a?", CallerPath("n1", "cap", ("a",), "?")),
        ("/n1/cap/%61", CallerPath("n1", "cap", ("a",), "")),
        ("/n1/cap/a?t=10:30", CallerPath("n1", "cap", ("a",), "?t=10:30")),
    ],
)
def test_a_path_is_read(target: str, path: CallerPath) -> None:
    """Node, namespace, and the parts after them."""
    assert read_path(target) == path


@pytest.mark.parametrize(
    "target",
    [
        "", "/", "/n1", "/n1/cap", "/n1/cap/", "n1/cap/a", "//n1/cap/a", "/n1//cap/a", "/n1/cap//a", "/n1/cap/a//",
        "/n1/cap/..", "/n1/cap/a/../b", "/n1/cap/%2e%2e/b", "/n1/cap/.", "/n1/cap/%2E/a", "/n1/cap/a%2fb",
        "/n1/cap/%00", "/n1/cap/%ff", "/n1/cap/a%0d%0ab", "/../cap/a", "http://x/n1/cap/a", "/n1/cap/" + "a/" * 100,
        "/n1/cap/" + "a" * 5000, "/n1/cap/a%5cb", "/n1/cap/a?" + "b" * 8193,
    ],
)  # fmt: skip
def test_tricks_are_no_paths(target: str) -> None:
    """Nothing that a server behind might read as another path."""
    assert read_path(target) is None


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a", "a", True),
        ("a", "a", True),
        ("/a", "a/sub", True),
        ("/a", "abc", False),
        ("/a", "x/a", False),
        ("/a.b", "aXb", False),
        ("/door/{id}/open", "door/7/open", True),
        ("/door/{id}/open", "door/7/close", False),
        ("/door/{id}/open", "door/7", False),
        ("/door/{id}", "door/7/8", True),
        ("/A", "a", False),
    ],
)
def test_a_rule_matches_whole_parts_from_the_beginning(pattern: str, path: str, matches: bool) -> None:
    """KubeEdge's is a regular expression that matches anywhere."""
    assert present(read_pattern(pattern)).matches(path.split("/")) is matches


@pytest.mark.parametrize("pattern", ["", "/", "//", "/a//b", "/a/../b", "/a/%2f/" + "x" * 5000])
def test_what_no_request_can_have_is_no_rules_path(pattern: str) -> None:
    assert read_pattern(pattern) is None


def test_the_rest_of_a_path_is_quoted_again() -> None:
    path = present(read_path("/n1/cap/a/b%20c/d:e?x=y z".replace(" ", "%20")))
    assert path.rest(1) == "/b%20c/d:e?x=y%20z"
    assert path.rest(3) == "?x=y%20z"
    assert present(read_path("/n1/cap/a/+/%23/")).rest(1) == "/%2B/%23/", "no wildcards of MQTT"


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [
        ("ns/a", "ns/a", True),
        ("ns/a", "ns/a/b", False),
        ("ns/+/b", "ns/a/b", True),
        ("ns/+", "ns/a/b", False),
        ("ns/#", "ns/a/b", True),
        ("ns/#", "ns", True),
        ("ns/a/#", "ns/ab", False),
        ("#", "$SYS/x", False),
    ],
)
def test_filters_match_as_in_mqtt(topic_filter: str, topic: str, matches: bool) -> None:
    assert selects(topic_filter, topic) is matches


def test_which_texts_are_topics() -> None:
    """Wildcards are for filters, each a level of its own."""
    assert is_topic("a/b?x=1")
    assert not any(map(is_topic, ("", "a/#", "+", "a\0", "é" * 600, "a\nb")))
    assert all(map(is_topic_filter, ("a/+/#", "#", "a")))
    assert not any(map(is_topic_filter, ("", "a#", "#/a", "a+/b", "a\0")))


def test_a_rule_has_as_many_parts_as_a_path_with_its_node_and_namespace_may_have() -> None:
    """One with more would be in force, and never be called."""
    for parts, is_path in ((62, True), (63, False)):
        path = "/a" * parts
        assert (read_pattern(path) is not None, read_path(f"/n1/cap{path}") is not None) == (is_path, is_path)
