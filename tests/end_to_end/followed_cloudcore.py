"""`cloudcore` that writes down each call of some functions, as `followed_edgecore`."""

import sys

from modules.processes.cloudcore.__main__ import main
from tests.end_to_end.followed_edgecore import follow

if __name__ == "__main__":
    follow()
    sys.exit(main())
