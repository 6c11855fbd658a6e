"""The link under load while it is cut, halved, stalled, delayed and taken over: nothing is lost or out of order."""

from pathlib import Path

import pytest

from tests.chaos.campaign import run


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_link_that_is_hurt_again_and_again_loses_nothing(tmp_path: Path, seed: int) -> None:
    """`make chaos` does it 500 times; here it is a dozen each, with a link that counts as steady early."""
    result = run(tmp_path, seed, 12, nodes=2, pause=0.3, steady=0.2, reconnect_base=0.2, reconnect_limit=1.0)
    print(result)  # noqa: T201 - shown by -s
    assert result.cuts >= 10
    assert result.messages > 100
    assert result.versions > 10
