"""The state of a node's link, as a table."""

import msgspec
import pytest

from modules.cloud.messages import LinkSession, NodeConnection
from modules.insight.fleet.facts import LinkKnowledge, linked_row
from modules.insight.fleet.rows import NodeRow, PodCount
from modules.insight.fleet.states import LinkFacts, NodeLinkFacts, NodeLinkState, state_of

NOW = 100_000.0
READY = {"type": "Ready", "status": "True", "lastHeartbeatTime": "1970-01-02T03:46:00Z"}


@pytest.mark.parametrize(
    ("facts", "word", "since", "reason"),
    [
        (NodeLinkFacts(link=LinkFacts(3600.0, 5.0), ready="True"), "connected", 96_400.0, ""),
        (NodeLinkFacts(link=LinkFacts(3600.0, 65.0), ready="True"), "connected", 96_400.0, ""),
        (NodeLinkFacts(link=LinkFacts(3600.0, 65.1), ready="True"), "behind", 96_400.0, "no keepalive for 65s"),
        (NodeLinkFacts(link=LinkFacts(9.0, 1.0, 60.0)), "connected", 99_991.0, ""),
        (
            NodeLinkFacts(link=LinkFacts(90.0, 1.0, 61.0)),
            "behind", 99_910.0, "it has not acknowledged a message for 61s",
        ),
        (NodeLinkFacts(link=LinkFacts(9.0, is_slow=True)), "behind", 99_991.0, "it reads slowly"),
        (
            NodeLinkFacts(link=LinkFacts(9.0), ready="False", ready_reason="KubeletNotReady"),
            "behind", 99_991.0, "not Ready: KubeletNotReady",
        ),
        (NodeLinkFacts(link=LinkFacts(9.0), ready="Unknown"), "behind", 99_991.0, "not Ready"),
        (NodeLinkFacts(holder="b", ready="True"), "connected", 0.0, "at b"),
        (NodeLinkFacts(holder="b", ready="False"), "behind", 0.0, "not Ready"),
        (NodeLinkFacts(ended=NOW - 39.0, ready="True"), "lost", NOW - 39.0, "its connection ended 39s ago"),
        (NodeLinkFacts(ended=NOW - 40.0, ready="True"), "away", NOW - 40.0, ""),
        (NodeLinkFacts(ended=NOW - 500.0, heartbeat=NOW - 900.0), "away", NOW - 500.0, ""),
        (
            NodeLinkFacts(heartbeat=NOW - 900.0),
            "away", NOW - 900.0, "since its last heartbeat; the link journal has no end",
        ),
        (NodeLinkFacts(ended=NOW + 5.0), "lost", NOW + 5.0, "its connection ended 0s ago"),
        (NodeLinkFacts(is_link_known=False, ready="True"), "connected", 0.0, "Ready; its link is not known"),
        (
            NodeLinkFacts(is_link_known=False, ready="Unknown", heartbeat=NOW - 900.0),
            "away", NOW - 900.0, "Ready is Unknown: since its last heartbeat",
        ),
        (
            NodeLinkFacts(is_link_known=False, ready="False", ready_reason="KubeletNotReady"),
            "behind", 0.0, "not Ready: KubeletNotReady",
        ),
        (NodeLinkFacts(is_link_known=False), "behind", 0.0, "it has never said whether it is Ready"),
        (NodeLinkFacts(), "never", 0.0, ""),
        (
            NodeLinkFacts(link=LinkFacts(9.0), is_registered=False), "behind", 99_991.0, "it has not registered",
        ),
    ],
)  # fmt: skip
def test_a_state(facts: NodeLinkFacts, word: str, since: float, reason: str) -> None:
    assert state_of(facts, NOW) == NodeLinkState(word, since, reason)


def row(node: dict[str, object] | None, **link: object) -> NodeRow:
    """Return the row of a node without pods."""
    return linked_row("n1", node, LinkKnowledge(**link), PodCount(), NOW)  # type: ignore[arg-type]


def test_a_row_is_made_of_the_node_the_connection_and_the_journal() -> None:
    node: dict[str, object] = {"status": {"conditions": [{"type": "Other"}, READY]}}
    found = row(node)
    assert (found.state, found.since) == ("away", 99_960.0), "by its last heartbeat"
    found = row(node, sessions=[LinkSession("n1", "c", "a", 1.0, seen=99_000.0, certificate_ends=5.0)])
    assert (found.state, found.since, found.certificate_ends) == ("away", 99_000.0, 5.0)
    held = NodeConnection("n1", 60.0, 1.0, 2, 3, 9.0, clock_ahead_seconds=-3599.9, certificate_ends=7.0)
    found = row(node, held=held, sessions=[LinkSession("n1", "c", "a", 1.0, certificate_ends=5.0)])
    assert (found.state, found.waiting, found.oldest, found.clock_ahead) == ("connected", 5, NOW - 9.0, -3600)
    assert found.certificate_ends == 7.0
    assert row(None).state == row({"status": {"conditions": "odd"}}).state == "never"


def test_the_texts_of_a_node_are_cut() -> None:
    """It, and whoever ended its connection, may say megabytes."""
    long = "x" * 100_000
    conditions = [{"type": f"{long}{each}Pressure", "status": "True"} for each in range(20)]
    info = {"kubeletVersion": long, "architecture": long}
    node: dict[str, object] = {"metadata": {"labels": {"topology.kubernetes.io/zone": None, "a": long}}}
    node["status"] = {"conditions": [{**READY, "status": "False", "reason": long}, *conditions], "nodeInfo": info}
    ended = LinkSession("n1", "c", "a", 1.0, NOW - 9.0, long)
    for link in ({"sessions": [ended]}, {"refused": long}, {"held": NodeConnection("n1", 9.0, 1.0, last_error=long)}):
        found = row(node, **link)
        assert (found.zone, len(found.marks), max(map(len, found.marks)) <= 500) == ("", 8, True)
        assert len(msgspec.json.encode(found)) < 10_000, link.keys()


def test_a_row_has_the_labels_that_tell_nodes_apart() -> None:
    """So many that a node which invents labels fills no memory."""
    own = {"site": "kiel", "apps.kubeedge.io/belonging-to": "north"}
    labels = {"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "z", **own}
    assert row({"metadata": {"labels": labels}}).labels == ("apps.kubeedge.io/belonging-to=north", "site=kiel")
    assert len(row({"metadata": {"labels": {f"l{number}": "x" for number in range(1000)}}}).labels) == 32


@pytest.mark.parametrize("is_known", [True, False])
def test_a_node_that_was_never_heard_of_stays_so_once_the_node_lifecycle_has_marked_it(*, is_known: bool) -> None:
    """The mark has the time at which the Node was made for a heartbeat."""
    never = {**READY, "status": "Unknown", "reason": "NodeStatusNeverUpdated"}
    assert row({"status": {"conditions": [never]}}, is_known=is_known).state == "never"
    heard = {**READY, "status": "Unknown", "reason": "NodeStatusUnknown"}
    assert row({"status": {"conditions": [heard]}}, is_known=is_known).state == "away"


def test_a_refusal_is_the_reason_of_a_node_that_is_away() -> None:
    sessions = [LinkSession("n1", "c", "a", 1.0, NOW - 90.0, "closed")]
    found = row(None, refused="its certificate is revoked", sessions=sessions)
    assert (found.state, found.reason) == ("away", "its connection is refused: its certificate is revoked")
    assert found.last_word == "its certificate is revoked"
    found = row(None, held=NodeConnection("n1", 1.0, 1.0), refused="once", sessions=sessions)
    assert found.reason == "it has not registered"


def test_a_connection_that_lasts_has_no_end_in_the_journal() -> None:
    """It has only been seen; `seen` is the last mark of a cloudcore that may be dead."""
    node: dict[str, object] = {"status": {"conditions": [READY]}}
    periods = [LinkSession("n1", "c", "a", NOW - 900.0, seen=NOW - 300.0)]
    lasting = row(node, held=NodeConnection("n1", 900.0, 1.0, oldest_seconds=99.0), sessions=periods)
    assert (lasting.state, lasting.gaps, lasting.oldest) == ("connected", (), 0.0)
    assert row(node, holder="b", sessions=periods).gaps == (), "another cloudcore has it"
    ended = row(node, sessions=periods)
    assert (ended.state, ended.gaps) == ("away", ((NOW - 300.0, 0.0),))
