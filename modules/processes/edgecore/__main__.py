"""`python -m modules.processes.edgecore` and the console script `edgecore`."""

import sys

from modules.processes.edgecore.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
