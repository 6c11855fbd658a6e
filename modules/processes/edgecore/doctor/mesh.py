"""Checks whether edgemesh can work on this machine. Nothing is changed."""

import os
import shutil
from pathlib import Path
from typing import Final

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.edge_mesh import FOREIGN_INTERFACE, DataPlaneKind
from modules.processes.edgecore.doctor.facts import MeshNeeds
from modules.processes.edgecore.doctor.oci import SEARCHED
from modules.processes.edgecore.rootless import is_rootless

_INTERFACES: Final = Path("/sys/class/net")


def needs(config: EdgeCoreConfig, interfaces: Path = _INTERFACES, searched: str = SEARCHED) -> MeshNeeds:
    """Return the facts about this machine.

    Args:
        config: of the node.
        interfaces: a directory with the machine's network interfaces.
        searched: directories of programs, separated by colons.
    """
    mesh, rootless = config.modules.edge_mesh, is_rootless(config)
    programs = {"nft": "nftables", "ip": "iproute2"} if mesh.data_plane is not DataPlaneKind.NONE else {}
    return MeshNeeds(
        missing=tuple(package for program, package in programs.items() if not shutil.which(program, path=searched)),
        may_change_rules=os.geteuid() == 0 or rootless,
        may_use_proxy=not rootless,
        has_names=mesh.dns,
        has_store=config.modules.meta_manager.enable,
        beside=FOREIGN_INTERFACE if (interfaces / FOREIGN_INTERFACE).exists() else "",
    )
