"""The order of containers' ends when a pod ends."""

import pytest

from edged.lifecycle.termination_ordering import stop_order
from edged.pods.model import PodFacts
from tests.edged.pods.builders import a_container, a_pod, exited, facts, running

A, B = a_container("a"), a_container("b")
INIT = a_container("init")
S1, S2 = (a_container(name, restart_policy="Always") for name in ("s1", "s2"))
POD = a_pod(A, B, init=(S1, INIT, S2))


@pytest.mark.parametrize(
    ("known", "order"),
    [
        pytest.param(facts(running(A), running(B)), {}, id="nobody waits without sidecars"),
        pytest.param(
            facts(running(A), running(B), running(S1), running(S2)),
            {"s2-0": {"a-0", "b-0"}, "s1-0": {"a-0", "b-0", "s2-0"}},
            id="sidecars wait for all others and for later sidecars",
        ),
        pytest.param(
            facts(exited(A), running(B), running(S1), exited(S2, 1)),
            {"s1-0": {"b-0"}},
            id="what has ended is not waited for",
        ),
        pytest.param(
            facts(exited(A), exited(B), running(S1), running(S2)),
            {"s2-0": set(), "s1-0": {"s2-0"}},
            id="when the others are done only sidecars are left",
        ),
        pytest.param(facts(running(INIT), running(S1)), {"s1-0": {"init-0"}}, id="during initialization"),
        pytest.param(
            facts(running(a_container("stray")), running(S2)),
            {"s2-0": {"stray-0"}},
            id="nobody's container comes first",
        ),
    ],
)
def test_sidecars_go_last_and_in_reverse_order(known: PodFacts, order: dict[str, set[str]]) -> None:
    assert stop_order(POD, known.containers) == order
