"""The OCI runtime of an ordinary user as a program, as `tests.modules.runtimes.process.served`."""

import sys
from pathlib import Path
from typing import Final

from beehive.clock import Clock, RealClock
from beehive.files.removal import remove_tree
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.programs import find_programs
from modules.runtimes.oci.rootless.entering import end_namespaces, enter
from modules.runtimes.oci.rootless.settings import rootless_settings
from tests.modules.runtimes.process.served import serve

RANGES: Final = "ranges"
"""File beside the state: addresses for pods; empty for the default."""


def _settings_of(state: Path, clock: Clock) -> OciSettings:
    above = state.parent
    ranges = (above / RANGES).read_text().split()
    return rootless_settings(find_programs(), clock, ranges, above / "certs.d", above / "archives", keep_blobs=False)


def _new_runtime(state: Path, socket: Path, clock: Clock) -> CriServer:
    return CriServer(state, socket, clock, _settings_of(state, clock))


if __name__ == "__main__":
    enter(Path(sys.argv[2]).with_name("namespaces"))
    if sys.argv[1] == "serve":
        serve(_new_runtime)
    else:
        directory, clock = Path(sys.argv[2]), RealClock()
        purge(directory, clock, _settings_of(directory, clock))
        remove_tree(directory)
        end_namespaces()
