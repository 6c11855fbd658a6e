"""`python -m modules.edgecore` and the console script `edgecore`."""

import sys

from modules.edgecore.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
