"""Our cloud with an edge that sends the recorded messages in other orders: late, twice, not at all, over connections
that
break in between, from a process that restarts in the middle, as real edges may.

In any order the cloud answers each request that the real cloud answered, under the same resource; nothing fails, and
the cloud keeps serving.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from beehive import Message
from beehive.decoding import convert
from tests.modules.cloud.objects import node, pod
from tests.modules.processes.cloudcore.stubs import Edge, Stub
from tests.modules.traces import Step, recordings, steps_of
from tests.support.control_client import Apply, Get

_NODES = {"2019": "lab-2019", "today": "lab-edge"}
"""The node of each recording: the cloud refuses its messages from another node."""


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with Stub(tmp_path) as running:
        yield running


def mutated(steps: list[Step], random: Random) -> list[Step]:
    """Return the steps in an order that a bad link and a restarted process may cause."""
    kept = [step for step in steps if random.random() > 0.15]
    kept += random.sample(kept, len(kept) // 10)
    for _ in range(len(kept) // 3):
        one = random.randrange(len(kept))
        other = min(len(kept) - 1, one + random.randint(1, 6))
        kept[one], kept[other] = kept[other], kept[one]
    cut = random.randrange(len(kept))
    return [*kept[cut:], *kept] if random.random() < 0.5 else kept


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("year", ["today", "2019"])
def test_every_question_is_answered_in_whatever_order_it_comes(stub: Stub, year: str, seed: int) -> None:
    random = Random(f"{year} {seed}")  # noqa: S311 - reproducible on purpose
    steps = [step for path in recordings(year) for step in steps_of(path)]
    answered = {step.parent: step.resource for step in steps if not step.from_edge and step.parent}
    asked = 0
    with ExitStack() as link:
        edge = link.enter_context(stub.edge(_NODES[year]))
        for number, step in enumerate(mutated([step for step in steps if step.from_edge], random)):
            if random.random() < 0.05:
                link.close()
                edge = link.enter_context(stub.edge(_NODES[year]))
            asked += _says(edge, step, number, answered.get(step.id))
    assert asked > 8
    assert set(stub.core.hive.restarts().values()) == {0}
    assert not list(stub.core.hive.dead_letters)
    _serves(stub)


def _says(edge: Edge, step: Step, number: int, answer: str | None) -> bool:
    """Send a message under a new id; return whether it was answered."""
    recorded = convert(step.message, Message)
    message = recorded.with_header(msg_id=f"{recorded.id[:-4]}{number:04d}")
    if answer is None:
        edge.send(message)
        return False
    assert edge.answer_to(message).route.resource == answer, step.resource
    return True


def _serves(stub: Stub) -> None:
    """Check that a new node receives a pod and reports its status."""
    with stub.edge("n1") as edge:
        edge.ask("null/node/n1", "insert", node())
        stub.client.run(Apply([pod("another")]))
        while (message := edge.next()).route.resource != "default/pod/another":
            edge.acknowledge(message)
        edge.acknowledge(message)
        uid = message.content_as(dict)["metadata"]["uid"]
        report = json.dumps({"metadata": {"uid": uid}, "status": {"phase": "Running"}})
        assert edge.ask("default/podpatch/another", "patch", report).content_as(dict)["Err"] is None
    (item,) = stub.client.run(Get("pod", "another"))
    assert item.object is not None
    assert item.object["status"]["phase"] == "Running"
