"""`kill -9` of what an ordinary user's node consists of; `make chaos ARGS="--only rootless"` does it 1,000 times."""

import pytest

from tests.chaos.rootless import run
from tests.modules.runtimes.oci.rootless.node import reason_missing


def test_a_node_of_an_ordinary_user_that_is_killed_again_and_again_loses_and_leaves_nothing() -> None:
    """edgecore, the holder of its namespaces, slirp4netns, all of them, and parents of containers."""
    if reason := reason_missing():
        pytest.skip(reason)
    result = run(1, 6, 1)
    assert result.kills.total() >= 6
    assert result.conmons.total() >= 1
