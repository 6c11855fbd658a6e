"""Entry of the shim spawner's process: `python -I -S <this file> FD`; FD is its end of a socket pair.

The parents of this package, and the package of the bus with its `files`, are registered empty: their real `__init__`
would import gRPC, twenty megabytes in every shim.
"""

import sys
from pathlib import Path
from types import ModuleType

_RUNTIMES = Path(__file__).resolve().parent.parent


def _register_empty_parents() -> None:
    modules = _RUNTIMES.parent
    packages = (
        ("modules", modules),
        ("modules.runtimes", _RUNTIMES),
        ("beehive", modules.parent / "beehive"),
    )
    for name, directory in packages:
        module = ModuleType(name)
        module.__path__ = [str(directory)]
        sys.modules[name] = module


if __name__ == "__main__":
    _register_empty_parents()

    from modules.runtimes.shim.spawner import serve

    serve(int(sys.argv[1]))
