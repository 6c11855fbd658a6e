"""`kill -9` at random moments under load; `make chaos` does it 200 times to edgecore and 100 times to cloudcore."""

import pytest

from tests.chaos.kills import run
from tests.modules.runtimes.oci.node import reason_missing

pytestmark = pytest.mark.slow


def test_edgecore_that_is_killed_again_and_again_loses_nothing_and_restarts_no_pod() -> None:
    """On the process runtime, with a configmap and its pods changing all the while."""
    assert run(1, 4).versions >= 4


def test_edgecore_on_the_oci_runtime_that_is_killed_again_and_again_keeps_its_containers() -> None:
    """The whole agent, with its pods in containers; at the end no mount, address, control group or process is left."""
    if reason := reason_missing():
        pytest.skip(reason)
    assert run(3, 4, oci=True).versions >= 4


def test_cloudcore_that_is_killed_again_and_again_loses_nothing_and_restarts_no_pod() -> None:
    """Its database keeps its objects and its unacknowledged messages."""
    assert run(2, 3, cloud=True).versions >= 3
