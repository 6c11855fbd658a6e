"""Starts a program where control groups v1 and v2 are side by side: in a mount namespace of this process.

`python -m tests.modules.runtimes.oci.crun.hybrid shared|private DIRECTORY`: whether mounts are passed on, and where
some are made. Prints as JSON what was seen.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from modules.runtimes.oci.crun.launching import Launcher, must_hide_unified
from modules.runtimes.oci.leftovers import mount_points
from modules.runtimes.shim import kernel

_CGROUPS: Final = Path("/sys/fs/cgroup")
_MS_SHARED: Final = 0x10_0000
_SCRIPT: Final = """
mount -t tmpfs tmpfs "$1/of-program"; echo mounted; read line; cat /proc/self/mountinfo; umount "$1/of-program"
"""


def _make_machine(propagation: str) -> None:
    """Nothing that is mounted from now on is seen outside of this process."""
    kernel.unshare(kernel.NEW_MOUNT_NAMESPACE)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.unmount(str(_CGROUPS), kernel.MNT_DETACH)
    kernel.mount("tmpfs", str(_CGROUPS), "tmpfs", 0)
    for name in ("unified", "memory"):
        (_CGROUPS / name).mkdir()
        kernel.mount("tmpfs", str(_CGROUPS / name), "tmpfs", 0)
    (_CGROUPS / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    if propagation == "shared":
        kernel.mount("", "/", "", kernel.MS_REC | _MS_SHARED)


def _mounted(table: bytes, directory: Path) -> set[str]:
    """Return the mount points of this test. Other tests' mounts vanish here, too, when they are removed."""
    return {path for path in mount_points(table) if path.startswith((str(_CGROUPS), f"{directory}/"))}


def _mounted_here(directory: Path) -> set[str]:
    return _mounted(Path("/proc/self/mountinfo").read_bytes(), directory)


def _main(propagation: str, directory: Path) -> None:
    _make_machine(propagation)
    for name in ("of-program", "of-edgecore"):
        (directory / name).mkdir()
    before = _mounted_here(directory)
    launcher = Launcher(hides_unified=must_hide_unified())
    program = launcher.start(
        ["sh", "-c", _SCRIPT, "sh", str(directory)],
        (subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL),
        creates=True,
    )
    assert program.stdin is not None and program.stdout is not None
    assert program.stdout.readline() == b"mounted\n"
    during = _mounted_here(directory)
    kernel.mount("tmpfs", str(directory / "of-edgecore"), "tmpfs", 0)
    theirs = _mounted(program.communicate(b"\n")[0], directory)
    kernel.unmount(str(directory / "of-edgecore"), 0)
    seen = {
        "program": sorted(theirs),
        "new in edgecore": sorted(during - before),
        "lost in edgecore": sorted(before - _mounted_here(directory)),
    }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
