"""A pod comes by HTTP, without a cloud, and runs (`modules.dbTest`)."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import phase, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


@pytest.fixture
def node() -> Iterator[Machine]:
    """A node with testManager; its cloud is never started."""
    with closing(Machine(EmbeddedUnderTest())) as machine:
        machine.edge.test_port = free_port()
        machine.edge.start(machine.cloud.address)
        yield machine


def test_a_posted_pod_runs_and_ends(node: Machine) -> None:
    wait_until(lambda: _ask(node, "GET")[0] == 200 or not node.edge.process.runs, "testManager serves")
    assert node.edge.process.runs, node.edge.tail()
    assert _ask(node, "GET", token="wrong" * 5)[0] == 401
    status, made = _ask(node, "POST", pod("web"))
    assert status == 201, made
    wait_until(lambda: phase(node.edge.pods().get("web", {})) == "Running", "the pod runs")
    assert node.edge.pods()["web"]["metadata"]["uid"] == json.loads(made)["metadata"]["uid"]
    assert _ask(node, "DELETE", pod("web"))[0] == 202
    wait_until(lambda: "web" not in node.edge.pods(), "the pod is gone")


def _ask(node: Machine, method: str, body: Any = None, token: str = "") -> tuple[int, str]:
    """Status and body of an answer; status 0 when nobody answers yet."""
    file = node.edge.root / "testmanager.token"
    if not file.exists():
        return 0, ""
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.edge.test_port}/pods",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token or file.read_text().strip()}"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - http, as above
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""
