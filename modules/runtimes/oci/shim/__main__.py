"""Entry of the process: `python -I -S <this file>` and the arguments of conmon that `oci.crun` gives.

The parents of this package, and of the parts that it shares, are registered empty: their real `__init__` would import
gRPC, twenty megabytes for each container.
"""

import sys
from pathlib import Path
from types import ModuleType

_OCI = Path(__file__).resolve().parent.parent


def _register_empty_parents() -> None:
    runtimes = _OCI.parent
    packages = (
        ("beehive", runtimes.parent.parent / "beehive"),
        ("modules", runtimes.parent),
        ("modules.runtimes", runtimes),
        ("modules.runtimes.oci", _OCI),
    )
    for name, directory in packages:
        module = ModuleType(name)
        module.__path__ = [str(directory)]
        sys.modules[name] = module


if __name__ == "__main__":
    _register_empty_parents()

    from modules.runtimes.oci.shim.parent import main

    main(sys.argv[1:])
