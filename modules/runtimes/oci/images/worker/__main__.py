"""Entry of a worker's process: `python -I -S <this file> [FD SETTINGS]`; see `modules.runtimes.oci.images.worker.conversation`.

With a descriptor of a socket, it is the process of a pull that unpacks (`modules.runtimes.oci.images.worker.unpacker`).

The parents of this package, and the package of the bus with its `files`, are registered empty: their real `__init__`
would import gRPC, twenty megabytes in every worker.
"""

import sys
from pathlib import Path
from types import ModuleType

_IMAGES = Path(__file__).resolve().parent.parent


def _register_empty_parents() -> None:
    edged = _IMAGES.parents[1]
    packages = (
        ("edged", edged),
        ("modules.runtimes.oci", _IMAGES.parent),
        ("modules.runtimes.oci.images", _IMAGES),
        ("beehive", edged.parent / "beehive"),
    )
    for name, directory in packages:
        module = ModuleType(name)
        module.__path__ = [str(directory)]
        sys.modules[name] = module


if __name__ == "__main__":
    _register_empty_parents()

    if len(sys.argv) > 1:
        from modules.runtimes.oci.images.worker.unpacker import serve_unpacking

        serve_unpacking(int(sys.argv[1]), sys.argv[2])
    else:
        from modules.runtimes.oci.images.worker.work import serve

        serve()
