"""The link under load while it is cut, halved, stalled, delayed and taken over: nothing is lost or out of order."""

from pathlib import Path

import pytest

from tests.chaos.campaign import run


@pytest.mark.parametrize(
    ("seed", "compression"), [(2, True), pytest.param(1, False, marks=pytest.mark.slow)], ids=["compressed", "plain"]
)
def test_a_link_that_is_hurt_again_and_again_loses_nothing(tmp_path: Path, seed: int, *, compression: bool) -> None:
    """A dozen failures for each node, with a link that counts as steady early; `make chaos` makes 500, also of nodes
    that are just connecting.
    """
    quick = {"steady": 0.2, "reconnect_base": 0.2, "reconnect_limit": 1.0}
    result = run(tmp_path, seed, 12, nodes=2, pause=0.3, settled=True, compression=compression, **quick)
    print(result)  # noqa: T201 - shown by -s
    assert result.cuts >= 10
    assert result.messages > 100
    assert result.versions > 10
