"""Opens the machine's control groups at the start.

kubelet does not start without them. An edge node may run without root, in a container, or on a kernel without cgroups;
there pods run without limits of their own, and the log has the reason.
"""

import logging
import shutil
from pathlib import Path

from edged.cgroups.errors import CgroupError
from edged.cgroups.hierarchies import Hierarchy, read_hierarchies, with_unified_controllers
from edged.cgroups.knobs import CONTROLLERS
from edged.cgroups.names import CgroupNames
from edged.cgroups.resource_config import (
    NodeCapacity,
    resource_config_for_class,
    resource_config_for_pods,
    resource_config_for_reserved,
)
from edged.cgroups.tree import CgroupFiles, CgroupTree
from edged.settings.cgroups import CgroupDriver, CgroupSettings
from modules.apimachinery.pods.qos import QosClass
from modules.apimachinery.types import QuantityError

_log = logging.getLogger(__name__)

_WANTED = ("cpu", "memory", "pids")
MOUNTINFO = Path("/proc/self/mountinfo")
"""The kernel's table of mounts."""
_SYSTEMD = Path("/run/systemd/system")


def open_cgroups(
    settings: CgroupSettings, node: NodeCapacity, mountinfo: Path = MOUNTINFO, systemd: Path = _SYSTEMD
) -> CgroupTree | None:
    """Return the machine's control groups, with all pods' and the classes' made; None when pods get none."""
    if not settings.per_qos:
        _log.info("pods have no cgroups of their own: cgroupsPerQOS is false, or this user or the runtime makes none")
        return None
    try:
        hierarchies = machine_hierarchies(mountinfo)
        tree: CgroupTree = CgroupFiles(hierarchies)
        present = {controller for hierarchy in hierarchies for controller in hierarchy.controllers}
        if not present & set(CONTROLLERS):
            raise CgroupError("cannot limit anything", "cgroups", "no mounted cgroup file system has a controller")
        if settings.driver is CgroupDriver.SYSTEMD:
            if not systemd.is_dir() or shutil.which("systemctl") is None:
                raise CgroupError("cannot make slices", "cgroupDriver systemd", "systemd does not run this machine")
            from edged.cgroups.systemd import SystemdSlices  # noqa: PLC0415 - most nodes do without it

            tree = SystemdSlices(tree, unified=any(h.unified and "cpu" in h.controllers for h in hierarchies))
        prepare(tree, settings, node)
    except (CgroupError, QuantityError, OSError) as error:
        _log.warning("pods have no cgroups of their own, and no limit on all of them: %s", error)
        return None
    missing = [controller for controller in _WANTED if controller not in present]
    if missing:
        _log.warning("the kernel has no cgroup controller for %s: its limits are not enforced", ", ".join(missing))
    return tree


def machine_hierarchies(mountinfo: Path = MOUNTINFO) -> list[Hierarchy]:
    """Return the cgroup mounts of this machine, with their controllers. Raises OSError."""
    return with_unified_controllers(read_hierarchies(mountinfo.read_text(errors="surrogateescape")))


def prepare(tree: CgroupTree, settings: CgroupSettings, node: NodeCapacity) -> None:
    """Make and set the cgroups above the pods' own. Raises CgroupError."""
    names = CgroupNames(settings.driver, settings.root)
    tree.make(names.pods)
    tree.set(names.pods, resource_config_for_pods(node, settings))
    for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
        tree.make(names.of_class(qos))
        tree.set(names.of_class(qos), resource_config_for_class(qos, 0))
    for what, reserved in (("kube-reserved", settings.kube_reserved), ("system-reserved", settings.system_reserved)):
        if what in settings.enforce and reserved.cgroup:
            tree.set(names.external(reserved.cgroup), resource_config_for_reserved(reserved))
