"""What the checks of jobs know of this machine."""

import os
from pathlib import Path

import pytest

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.machine_usage import MachineUsage

BLOCK = 4096


@pytest.mark.parametrize(
    ("blocks", "free", "available", "used"),
    [
        pytest.param(250, 200, 50, 0.5, id="blocks kept for root"),
        pytest.param(100, 20, 20, 0.8, id="none kept"),
        pytest.param(100, 5, 0, 1.0, id="full for all but root"),
        pytest.param(100, 100, 0, 0.0, id="all kept"),
    ],
)
def test_a_disk_is_as_full_as_df_says(
    blocks: int, free: int, available: int, used: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubeEdge's check, too: a node whose disk is half full took no job, because of what ext4 keeps for root."""
    found = os.statvfs_result((BLOCK, BLOCK, blocks, free, available, 9, 9, 9, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    disks = MachineUsage(EdgeCoreConfig.below(tmp_path)).read().disks
    assert disks == {"/": used, str(tmp_path / "edged"): used}
