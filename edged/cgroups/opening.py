"""Finds out at the start whether pods can have control groups here, and makes those above them.

A kubelet does not start when it cannot have them. An edge node may run without root, in a container, or on a kernel
without them; there pods run without limits of their own, and one line in the log says why.
"""

import logging
import shutil
from pathlib import Path

from edged.api import QuantityError
from edged.cgroups.errors import CgroupError
from edged.cgroups.hierarchies import Hierarchy, read_hierarchies, with_unified_controllers
from edged.cgroups.knobs import CONTROLLERS
from edged.cgroups.limits import Node, limits_of_class, limits_of_pods, limits_of_reserved
from edged.cgroups.names import Names
from edged.cgroups.settings import CgroupSettings, Driver
from edged.cgroups.tree import CgroupFiles, Tree
from edged.pods.qos import QosClass

_log = logging.getLogger(__name__)

_WANTED = ("cpu", "memory", "pids")
MOUNTINFO = Path("/proc/self/mountinfo")
"""Where the kernel says what is mounted."""
_SYSTEMD = Path("/run/systemd/system")


def open_cgroups(
    settings: CgroupSettings, node: Node, mountinfo: Path = MOUNTINFO, systemd: Path = _SYSTEMD
) -> Tree | None:
    """The machine's control groups, with those of all pods and of the classes made; None when pods get none."""
    if not settings.per_qos:
        _log.info("pods have no cgroups of their own: cgroupsPerQOS is false, or the runtime is the embedded one")
        return None
    try:
        hierarchies = machine_hierarchies(mountinfo)
        tree: Tree = CgroupFiles(hierarchies)
        present = {controller for hierarchy in hierarchies for controller in hierarchy.controllers}
        if not present & set(CONTROLLERS):
            raise CgroupError("cannot limit anything", "cgroups", "none is mounted that has a controller")
        if settings.driver is Driver.SYSTEMD:
            if not systemd.is_dir() or shutil.which("systemctl") is None:
                raise CgroupError("cannot make slices", "cgroupDriver systemd", "systemd does not run this machine")
            from edged.cgroups.systemd import SystemdSlices  # noqa: PLC0415 - most nodes do without it

            tree = SystemdSlices(tree, unified=any(h.unified and "cpu" in h.controllers for h in hierarchies))
        prepare(tree, settings, node)
    except (CgroupError, QuantityError, OSError) as error:
        _log.warning("pods have no cgroups of their own and no limits in sum: %s", error)
        return None
    missing = [controller for controller in _WANTED if controller not in present]
    if missing:
        _log.warning("the kernel has no cgroup controller for %s: limits of it are not enforced", ", ".join(missing))
    return tree


def machine_hierarchies(mountinfo: Path = MOUNTINFO) -> list[Hierarchy]:
    """What is mounted on this machine, with its controllers. Raises OSError."""
    return with_unified_controllers(read_hierarchies(mountinfo.read_text()))


def prepare(tree: Tree, settings: CgroupSettings, node: Node) -> None:
    """Make and set what is above the pods' own cgroups. Raises CgroupError."""
    names = Names(settings.driver, settings.root)
    tree.make(names.pods)
    tree.set(names.pods, limits_of_pods(node, settings))
    for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
        tree.make(names.of_class(qos))
        tree.set(names.of_class(qos), limits_of_class(qos, 0))
    for what, reserved in (("kube-reserved", settings.kube_reserved), ("system-reserved", settings.system_reserved)):
        if what in settings.enforce and reserved.cgroup:
            tree.set(names.external(reserved.cgroup), limits_of_reserved(reserved))
