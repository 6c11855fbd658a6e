"""Upgrades of an installed node that are killed at random steps; `make upgrades` does 1,000 of them."""

import os
import shutil

import pytest

from tests.chaos.upgrades import run
from tests.modules.runtimes.oci.node import reason_missing

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("runtime", ["embedded", "oci"])
def test_upgrades_that_are_killed(runtime: str) -> None:
    """One of the two versions runs, no container is restarted, and no change of an object is lost."""
    if reason := reason_missing() if runtime == "oci" else "":
        pytest.skip(reason)
    assert run(1, 3, 3, oci=runtime == "oci").upgrades == 3


@pytest.mark.parametrize("runtime", ["embedded", "oci"])
def test_upgrades_in_which_the_power_fails(runtime: str) -> None:
    """What was not flushed is lost."""
    if reason := reason_missing() if runtime == "oci" else "":
        pytest.skip(reason)
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root may mount")
    assert run(2, 3, 3, oci=runtime == "oci", power=True).upgrades == 3
