"""Containers on a machine without overlayfs."""

import errno
import json
import os
from pathlib import Path

import pytest

from modules.runtimes.oci.images import root_filesystems
from modules.runtimes.oci.sandbox_files import paths_of
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.node import OciNode


def test_a_container_without_overlayfs(node_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in a copy of its image, whose size is its writable layer's; removing it removes the copy."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr(root_filesystems, "mount", refuse)
    with OciNode(node_root) as node:
        info = node.cri.Status(cri.StatusRequest(verbose=True)).info
        assert (info["rootfs"], json.loads(info["pulls"])) == ("copy", {})
        assert node.run("echo written > /new && cat /new") == "written\n"
        (container,) = node.states()
        root = node.state / "containers" / container / "rootfs"
        assert (root / "new").read_text() == "written\n"
        usage = node.cri.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats.writable_layer
        assert usage.used_bytes.value > 500_000
        (all_containers,) = node.images.ImageFsInfo(cri.ImageFsInfoRequest()).container_filesystems
        (sandbox,) = (node.state / "sandboxes").iterdir()
        files = sum(path.stat().st_blocks * 512 for path in paths_of(sandbox))
        assert all_containers.used_bytes.value == usage.used_bytes.value - files, (
            "what its pod's files take is not in it"
        )
        assert all_containers.inodes_used.value == usage.inodes_used.value
        assert node.run("ls /new 2>&1 || true").endswith("No such file or directory\n")
        node.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
        assert not root.parent.exists()
