"""Entry of the process: `python -I -S <this file> CONTROL DIRECTORY [KIND...]`, see `process` beside this module.

The parents of this package, and of the system calls that it shares, are registered empty: their real `__init__` would
import gRPC, and delay the pod.
"""

import sys
from pathlib import Path
from types import ModuleType

_NETWORK = Path(__file__).resolve().parent.parent


def _register_empty_parents() -> None:
    oci = _NETWORK.parent
    packages = (
        ("modules", oci.parents[1]),
        ("modules.runtimes", oci.parent),
        ("modules.runtimes.oci", oci),
        ("modules.runtimes.oci.network", _NETWORK),
    )
    for name, directory in packages:
        module = ModuleType(name)
        module.__path__ = [str(directory)]
        sys.modules[name] = module


if __name__ == "__main__":
    _register_empty_parents()

    from modules.runtimes.oci.network.pause.process import main

    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
