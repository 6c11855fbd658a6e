"""The page of the pods: which do not run, and of which nobody knows it now."""

import pytest

from modules.insight.fleet.rows import FleetPodRow, NodeRow
from modules.insight.fleet.states import AWAY, CONNECTED, NEVER
from modules.page.pods import pods_answer

NODES = [NodeRow("n1", CONNECTED), NodeRow("n2", AWAY), NodeRow("n3", NEVER), NodeRow("n4", AWAY)]
PODS = [
    FleetPodRow("default", "a", "n1", "Running", "1/1"),
    FleetPodRow("default", "b", "n2", "Running", "1/1"),
    FleetPodRow("default", "c", "n3", "CrashLoopBackOff", "0/1", is_troubled=True),
    FleetPodRow("default", "d", "", "Pending", "0/1", is_troubled=True),
]


@pytest.mark.parametrize(("query", "unheard"), [("", ["n2", "n3"]), ("running", ["n2"]), ("n1", []), ("nothing", [])])
def test_what_nodes_that_are_away_reported_last_is_named(query: str, unheard: list[str]) -> None:
    """A pod that ran when its node was heard last may have ended since; only nodes of shown pods are named."""
    assert pods_answer(PODS, NODES, query).unheard == unheard
