"""The garbage collector while a process starts, in processes of their own."""

import subprocess
import sys
from pathlib import Path
from typing import Final

_COMMAND: Final = """
import gc, sys
from modules.processes.edgecore.__main__ import main
usual, sys.argv[1:] = gc.get_threshold()[0], ["version"]
looks = gc.get_stats()[1]["collections"]
main()
import modules.processes.edgecore.process, modules.runtimes.oci.driver
print(gc.get_threshold()[0] >= 30 * usual, gc.get_stats()[1]["collections"] - looks)
"""
_NODE: Final = """
import gc, sys
from modules.processes.edgecore import cli
from modules.processes.edgecore.__main__ import main
def looks():
    return [generation["collections"] for generation in gc.get_stats()]
imported = cli._imported
def run(function):
    if function != cli.PROCESS:
        return imported(function)
    begun = looks()
    import modules.processes.edgecore.process, modules.runtimes.oci.driver
    print([now - before for now, before in zip(looks(), begun)])
    return lambda *_, **__: 0
cli._imported = run
sys.argv[1:] = ["run", "--root", sys.argv[1], "--allow-unisolated-root"]
before = looks()
main()
print([now - then for now, then in zip(looks(), before)])
"""
_AS_USUAL: Final = """
import gc
from modules.processes.common.start_collector import collect_as_usual, collect_new_rarely
usual = gc.get_threshold()
collect_new_rarely()
starting, kept = gc.get_threshold(), [[] for _ in range(1000)]
collect_as_usual()
print(starting != usual, gc.get_threshold() == usual, gc.get_freeze_count() > len(kept))
"""


_CLOUD: Final = """
import gc, signal, sys
from modules.processes.cloudcore.__main__ import main
from modules.processes.common.shutdown import Shutdown
usual, root = gc.get_threshold(), sys.argv[1]
def wait(shutdown):
    new, *older = gc.get_threshold()
    print(10 * usual[0] <= new < 30 * usual[0], older == [*usual[1:]], gc.get_freeze_count() > 1000)
    return signal.SIGTERM
Shutdown.wait = wait
sys.argv[1:] = ["run", "--root", root, "--socket", root + "/c.sock", "--listen", "127.0.0.1:0"]
sys.exit(main())
"""


def _printed(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_it_runs_rarely_in_a_process_that_starts_and_never_through_older_objects() -> None:
    assert _printed(_COMMAND).splitlines()[-1] == "True 0"


def test_it_runs_once_in_an_agent_that_starts_before_the_modules(tmp_path: Path) -> None:
    assert _printed(_NODE, str(tmp_path)).splitlines()[-2:] == ["[0, 0, 0]", "[1, 0, 0]"]


def test_afterwards_it_runs_as_usual_without_the_lasting_objects() -> None:
    assert _printed(_AS_USUAL) == "True True True"


def test_in_a_running_cloudcore_it_goes_on_rarely_and_leaves_out_the_objects_of_the_start(tmp_path: Path) -> None:
    """With many nodes it took a tenth of the processor time, and found next to nothing."""
    assert _printed(_CLOUD, str(tmp_path)).splitlines()[-1] == "True True True"
