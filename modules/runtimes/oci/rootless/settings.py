"""The settings of the OCI runtime for an ordinary user."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beehive import Clock
from beehive.node_namespaces import DIRECTORY
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.programs import INSTALL, ProgramMissingError, Programs
from modules.runtimes.oci.rootless.node_network import NodeNetwork
from modules.runtimes.oci.rootless.pod_network import RootlessPodNetwork

_LEASES: Final = DIRECTORY / "cni"


def rootless_settings(
    programs: Programs, clock: Clock, ranges: Sequence[str], registries: Path, archives: Path, *, keep_blobs: bool
) -> OciSettings:
    """Return the settings for a process in the namespaces of a node. Raises ProgramMissingError.

    Args:
        programs: of this machine.
        clock: for deadlines.
        ranges: addresses for pods; empty for the default.
        registries: containerd's `certs.d` directory.
        archives: of images that are imported at the start.
        keep_blobs: whether layers are kept as they came.
    """
    if not programs.is_crun:
        raise ProgramMissingError("start the OCI runtime without root", "crun not found: runc wants root", INSTALL)
    network = RootlessPodNetwork(NodeNetwork(), clock, ranges, _LEASES)
    return OciSettings(programs, network, registries, archives, keep_blobs=keep_blobs, rootless=True)
