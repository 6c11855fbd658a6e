"""What nodes are refused: counted by closed sets, logged at a rate, with nothing of theirs that makes a line."""

import pytest

from beehive.simulation import Simulation
from modules.cloud.refusals import Refusals


def test_they_are_counted_by_reason_and_kind() -> None:
    """All of them, whatever the log leaves out."""
    refusals = Refusals(Simulation(1).clock)
    for number in range(500):
        refusals.record("n1", "not authorized", "secrets", f"secret {number}")
    assert refusals.counts == {("not authorized", "secrets"): 500}


def test_a_node_that_asks_a_thousand_times_makes_ten_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The next line, when there is one, says how many there were meanwhile; another node has lines of its own."""
    simulation = Simulation(1)
    refusals = Refusals(simulation.clock)
    for _ in range(1000):
        refusals.record("n1", "r", "k", "x")
    assert len(caplog.records) == 10
    refusals.record("n2", "r", "k", "x")
    assert len(caplog.records) == 11
    simulation.run_for(10)
    refusals.record("n1", "r", "k", "x")
    assert caplog.records[-1].getMessage() == "node n1: refused: r: x (990 more of this node since the last line)"
    simulation.run_for(10)
    refusals.record("n1", "r", "k", "x")
    assert caplog.records[-1].getMessage() == "node n1: refused: r: x"


def test_a_line_names_the_reason_even_if_nothing_else_is_known(caplog: pytest.LogCaptureFixture) -> None:
    """A message without operation and resource, as KubeEdge's edge sends one at its start."""
    Refusals(Simulation(1).clock).record("n1", "not a message of an edge", "", " ")
    assert caplog.records[-1].getMessage() == "node n1: refused: not a message of an edge"


def test_a_line_is_short_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """What a node writes can forge no line and command no terminal."""
    Refusals(Simulation(1).clock).record("n1", "r", "k", "a\nforged\x1b[2J" + "é" * 100_000)
    text = caplog.records[0].getMessage()
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 2000


def test_the_memory_of_nodes_is_bounded() -> None:
    """A million names are not a million rates."""
    refusals = Refusals(Simulation(1).clock)
    for number in range(5000):
        refusals.record(f"n{number}", "r", "k", "x")
    assert len(refusals._of) <= 1000
