"""Updates of cloudcore from a former release and back: nodes, their pods and the database stay."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.agents import Agent
from tests.chaos.cloudcores import Cloudcores
from tests.chaos.several import Bed
from tests.compatibility.former import unpack
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import config_map, is_ready, pod
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.directories import short_directory
from tests.support.patience import PATIENCE
from tests.support.postgresql import PrivatePostgresql, needs_postgresql

_NODES = 4


@pytest.fixture(params=["0.6.0", "0.5.0", pytest.param("0.4.0", marks=pytest.mark.slow)])
def former(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the code of a release."""
    return unpack(request.param, tmp_path)


@needs_postgresql
@pytest.mark.parametrize(
    "former", ["0.6.0", *(pytest.param(each, marks=pytest.mark.slow) for each in ("0.5.0", "0.4.0"))], indirect=True
)
def test_cloudcores_that_are_replaced_one_after_the_other_lose_and_double_nothing(former: Path) -> None:
    """Of a former release by this one, and back, on one PostgreSQL."""
    with PrivatePostgresql() as server:
        replace_all(server.url, former, REPOSITORY, former)


@pytest.mark.slow
def test_nor_do_those_on_one_file(tmp_path: Path) -> None:
    """Of this version: those of 0.3 may delete the log of a file that another one uses."""
    replace_all(str(tmp_path / "shared.db"), REPOSITORY, REPOSITORY)


def replace_all(database: str, former: Path, *trees: Path) -> None:
    """Replace two cloudcores on a database, by each tree in turn, while pods are written and nodes report; check that
    every node gets each pod once, in order, that all statuses arrive, and that no deletion is lost.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(short_directory("u-"))
        cores = stack.enter_context(Cloudcores(directory, 2, ["--database", database], tree=former))
        agents = [
            stack.enter_context(Agent(f"n{number}", cores.urls(f"n{number}", number % 2), directory))
            for number in range(_NODES)
        ]
        draw = random.Random("update")  # noqa: S311 - reproducible on purpose
        bed = Bed(cores, agents, lambda: [each.client for each in cores.all if each.is_ready], [], draw)
        wait_until(bed.has_all_nodes, "all nodes are connected", PATIENCE)
        bed.write()
        bed.load()
        try:
            for tree in trees:
                for core in cores.all:
                    assert core.stop() == 0
                    core.tree = tree
                    core.start()
                    core.wait()
                    wait_until(bed.has_all_nodes, "all nodes are connected", PATIENCE)
                    bed.wait_for_more()
        finally:
            bed.rest()
        bed.check()


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Return a machine on which nothing runs yet."""
    made = Machine(EmbeddedUnderTest())
    try:
        yield made
    except AssertionError as error:
        raise AssertionError(f"{error}\n{made.report()}") from None
    finally:
        made.close()


def started(machine: Machine, name: str) -> tuple[str, int]:
    """Return the id of a pod's container, and how often it was started again."""
    (status,) = machine.cloud.get("Pod", name)["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


def test_a_node_of_a_former_release_and_its_pods_stay(former: Path, machine: Machine) -> None:
    """While its cloudcore is brought forward and back; a pod of each time comes, runs and ends."""
    machine.cloud.options = ["--database", str(machine.directory / "cloud.db")]
    machine.cloud.tree = machine.edge.tree = former
    machine.start()
    machine.cloud.apply(pod("first", nodeName=NODE))
    machine.cloud.pods.wait("first", is_ready)
    kept = started(machine, "first")
    for number, tree in enumerate((REPOSITORY, former)):
        assert machine.cloud.stop() == 0
        machine.cloud.tree = tree
        machine.cloud.start()
        machine.cloud.apply(config_map("settings", number=str(number)), pod(f"p{number}", nodeName=NODE))
        machine.cloud.pods.wait(f"p{number}", is_ready)
        machine.cloud.delete("Pod", f"p{number}", grace=1)
        machine.cloud.pods.wait_gone(f"p{number}")
        assert started(machine, "first") == kept
