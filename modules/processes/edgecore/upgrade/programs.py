"""The programs of an installation: the launcher, and a copy of the updater.

| below `upgrade/` | what |
|---|---|
| `updater_DIGEST/` | the package of the updater; complete since it has this name, and never changed |
| `updater.py` | starts the updater of one such package, and gives the launcher its `launch` |

Versions before 0.7 have all of the updater in `updater.py`. Any launcher imports, and any version starts,
whichever of the two was written last.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Final

from beehive.files.durable import make_directories, put_in_place, replace_file, write_file
from beehive.on_failure import on_failure
from modules.processes.edgecore.upgrade import updater
from modules.processes.edgecore.upgrade.staging import base_interpreter
from modules.processes.edgecore.upgrade.updater.files import sync_directory
from modules.processes.edgecore.upgrade.updater.installation import Installation

PACKAGE: Final = Path(updater.__file__).parent
_PREFIX: Final = "updater_"
_DIGITS: Final = 16
_LAUNCHER: Final = """\
#!{python} -I
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {state!r})
from pathlib import Path
from updater import launch
launch(Path({root!r}), sys.argv[1:])
"""
_UPDATER: Final = """\
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {state!r})
from {package}.starting import launch
if __name__ == "__main__":
    from {package}.__main__ import main
    sys.exit(main(sys.argv[1:]))
"""


def write_programs(installation: Installation, package: Path | None = None) -> None:
    """Write the launcher and the updater, which are this version's until the next upgrade. Raises OSError.

    Args:
        installation: to which they belong.
        package: of the updater; None for this version's.
    """
    make_directories(installation.launcher.parent, 0o755)
    state, updater_file = installation.state, installation.state / "updater.py"
    name = _copied(package or PACKAGE, state, updater_file.read_bytes() if updater_file.exists() else b"")
    replace_file(updater_file, _UPDATER.format(state=str(state), package=name).encode(), 0o644)
    text = _LAUNCHER.format(python=base_interpreter(), state=str(state), root=str(installation.root))
    replace_file(installation.launcher, text.encode(), 0o755)


def _copied(package: Path, state: Path, used: bytes) -> str:
    """Copy the package, unless it is there; return the name of the copy. Of the others, one that a text names stays: a
    launcher may be reading it.
    """
    files = {file.name: file.read_bytes() for file in sorted(package.glob("*.py"))}
    digest = hashlib.sha256(repr(files).encode()).hexdigest()[:_DIGITS]
    place, making = state / f"{_PREFIX}{digest}", state / f".{_PREFIX}new"
    for other in (*state.glob(f"{_PREFIX}*"), making):
        if other != place and other.name.encode() not in used:
            shutil.rmtree(other, ignore_errors=True)
    if not place.exists():
        with on_failure(lambda: shutil.rmtree(making, ignore_errors=True)):
            make_directories(making, 0o755)
            for name, content in files.items():
                write_file(making / name, content, 0o644)
            sync_directory(making)
            put_in_place(making, place)
    return place.name
