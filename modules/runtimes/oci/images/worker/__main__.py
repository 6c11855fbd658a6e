"""Entry of a worker's process: `python -I -S <this file> [FD SETTINGS]`; see `conversation` beside this module.

With a descriptor of a socket, it is the process of a pull that unpacks (`unpacker`).

The parents of this package, and the package of the bus with its `files`, are registered empty: their real `__init__`
would import gRPC, twenty megabytes in every worker.
"""

import sys
from pathlib import Path
from types import ModuleType

_IMAGES = Path(__file__).resolve().parent.parent


def _register_empty_parents() -> None:
    oci = _IMAGES.parent
    packages = (
        ("modules", oci.parents[1]),
        ("modules.runtimes", oci.parent),
        ("modules.runtimes.oci", oci),
        ("modules.runtimes.oci.images", _IMAGES),
        ("beehive", oci.parents[2] / "beehive"),
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
