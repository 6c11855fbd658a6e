"""Entry of the process: `python -I -S <this file> CONTROL DIRECTORY [KIND...]`, see `process` beside this module.

The parents of this package, and of the system calls that it shares, are registered empty: their real `__init__` would
import gRPC, and delay the pod.
"""

import os
import sys
from types import ModuleType

_PARENTS = ("modules.runtimes.oci.network", "modules.runtimes.oci", "modules.runtimes", "modules")


def _register_empty_parents() -> None:
    directory = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib costs a third of the process
    for name in _PARENTS:
        directory = os.path.dirname(directory)  # noqa: PTH120
        module = ModuleType(name)
        module.__path__ = [directory]
        sys.modules[name] = module


if __name__ == "__main__":
    _register_empty_parents()

    from modules.runtimes.oci.network.pause.process import main

    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
