"""Kills an ordinary user's OCI runtime, the holder of its namespaces, slirp4netns and conmon: see `tests.chaos.oci`."""

import shutil

from tests.chaos import oci
from tests.chaos.oci_node import with_own_image
from tests.chaos.oci_server import ROOTLESS
from tests.end_to_end.processes import mounts_below, processes_of
from tests.modules.runtimes.oci.rootless.node import reason_missing
from tests.support.directories import short_directory
from tests.support.images import busybox_image, docker_archive

__all__ = ["reason_missing", "run"]


def run(seed: int, kills: int, conmons: int) -> oci.Survived:
    """Kill them so many times. Raises AssertionError: something was lost, doubled or left over."""
    with short_directory("rlc-", mode=0o755) as directory:
        (directory / "archives").mkdir()
        shutil.move(docker_archive(busybox_image(), directory), directory / "archives" / "busybox.tar")
        with_own_image(directory)
        result = oci.run(directory, seed, kills, conmons, kind=ROOTLESS)
        assert not (directory / "state").exists(), "files are left"
        assert mounts_below(directory) == []
        assert processes_of(directory) == []
        return result
