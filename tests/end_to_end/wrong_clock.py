"""`edgecore` on a machine whose clock is wrong: `AHEAD=3600 python -m tests.end_to_end.wrong_clock run …`."""

import os
import sys
import time
from typing import Final

from modules.processes.edgecore.__main__ import main

_right: Final = time.time
_AHEAD: Final = float(os.environ["AHEAD"])


def _time() -> float:
    return _right() + _AHEAD


if __name__ == "__main__":
    time.time = _time
    sys.exit(main())
