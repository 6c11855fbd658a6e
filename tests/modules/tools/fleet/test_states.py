"""The state of a node's link, as a table."""

import pytest

from modules.tools.fleet.facts import facts_of
from modules.tools.fleet.states import LinkFacts, NodeLinkFacts, NodeLinkState, state_of

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
        (NodeLinkFacts(ended=NOW - 39.0, ready="True"), "behind", NOW - 39.0, "its connection ended 39s ago"),
        (NodeLinkFacts(ended=NOW - 40.0, ready="True"), "away", NOW - 40.0, ""),
        (NodeLinkFacts(ended=NOW - 500.0, heartbeat=NOW - 900.0), "away", NOW - 500.0, ""),
        (
            NodeLinkFacts(heartbeat=NOW - 900.0),
            "away", NOW - 900.0, "since its last heartbeat; the link journal has no end",
        ),
        (NodeLinkFacts(ended=NOW + 5.0), "behind", NOW + 5.0, "its connection ended 0s ago"),
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
    ],
)  # fmt: skip
def test_a_state(facts: NodeLinkFacts, word: str, since: float, reason: str) -> None:
    assert state_of(facts, NOW) == NodeLinkState(word, since, reason)


class Lasting:
    """A connection that the journal does not know to have ended."""

    ended = 0.0
    seen = 99_000.0


def test_the_facts_come_from_the_node_and_the_journal() -> None:
    node = {"status": {"conditions": [{"type": "Other"}, READY]}}
    assert facts_of(node) == NodeLinkFacts(ready="True", heartbeat=99_960.0)
    assert facts_of(node, newest=Lasting()).ended == 99_000.0
    assert facts_of(None) == NodeLinkFacts()
    assert facts_of({"status": {"conditions": "odd"}}) == NodeLinkFacts()
