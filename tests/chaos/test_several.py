"""`kill -9` of one of three cloudcores under load; `make chaos` does it a hundred times and more."""

import pytest

from tests.chaos.several import Shared, run
from tests.support.postgresql import needs_postgresql


@needs_postgresql
@pytest.mark.slow
@pytest.mark.modules_fail  # with the connections to a PostgreSQL that is restarted
def test_the_nodes_of_a_cloudcore_that_is_killed_lose_nothing_with_the_others_on_postgresql() -> None:
    """Every pod comes as it was written last, in order and once, deletions come, and all statuses get there."""
    result = run(1, 2, nodes=3)
    assert result.versions >= 2


@pytest.mark.slow
def test_the_nodes_of_a_cloudcore_that_is_killed_lose_nothing_with_the_others_of_a_cluster() -> None:
    """The state of the nodes is in the cluster, too."""
    result = run(2, 2, nodes=3, shared=Shared.CLUSTER)
    assert result.versions >= 2


@needs_postgresql
@pytest.mark.slow
@pytest.mark.modules_fail  # with the connections to a PostgreSQL that is restarted
def test_the_nodes_lose_nothing_when_the_api_server_and_postgresql_are_restarted_too() -> None:
    """Both are away before some kills, and during some."""
    result = run(3, 6, nodes=3, shared=Shared.BOTH)
    assert result.restarts
