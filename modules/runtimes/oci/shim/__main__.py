"""Entry of the process: `python -I -S <this file>` and conmon's arguments, as far as `modules.runtimes.oci.driver` gives them.

The parents of this package, and of the parts that it shares, are registered empty: their real `__init__` would import
gRPC, twenty megabytes for each container.
"""

import sys
from pathlib import Path
from types import ModuleType

_OCI = Path(__file__).resolve().parent.parent


def _register_empty_parents() -> None:
    for name, directory in (
        ("edged", _OCI.parent),
        ("modules.runtimes.oci", _OCI),
        ("modules.runtimes.process", _OCI.parent / "embedded"),
    ):
        module = ModuleType(name)
        module.__path__ = [str(directory)]
        sys.modules[name] = module


if __name__ == "__main__":
    _register_empty_parents()

    from modules.runtimes.oci.shim.parent import main

    main(sys.argv[1:])
