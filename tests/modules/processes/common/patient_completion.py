"""Runs the program whose module is named, which waits longer for an answer than a person would who presses Tab.

The machine may be busy.
"""

import runpy
import sys
from unittest.mock import patch

from modules.processes.common import completion

if __name__ == "__main__":
    with patch.object(completion, "SECONDS", 60.0):
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
