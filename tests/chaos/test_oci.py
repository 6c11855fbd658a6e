"""`kill -9` of the OCI runtime and of conmon at drawn points; `make chaos` does it 1,000 times and 100 times."""

import shutil

import pytest

from tests.chaos.oci import run
from tests.chaos.oci_node import with_own_image
from tests.chaos.oci_server import KINDS, RUNC
from tests.modules.runtimes.oci.network.machine import PLUGINS
from tests.modules.runtimes.oci.node import node_directory


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_oci_runtime_that_is_killed_again_and_again_loses_and_leaves_nothing(kind: str) -> None:
    """Neither do kills of conmon: each ends its container, and no other."""
    if kind == RUNC and shutil.which(RUNC) is None:
        pytest.skip("runc is not installed")
    with node_directory() as directory:
        with_own_image(directory)
        result = run(directory, 3, 6, 1, network=(PLUGINS / "bridge").exists(), kind=kind)
    assert result.kills.total() >= 6
    assert result.conmons.total() >= 1
