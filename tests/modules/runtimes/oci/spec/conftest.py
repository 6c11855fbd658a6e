"""Fixtures: containers of crun and of runc."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.modules.runtimes.oci.spec.oci_runtime import Bench, missing


@pytest.fixture(params=["crun", "runc"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Containers of one runtime; skipped where they cannot run."""
    if reason := missing(request.param):
        pytest.skip(reason)
    with closing(Bench(request.param, tmp_path)) as made:
        yield made
