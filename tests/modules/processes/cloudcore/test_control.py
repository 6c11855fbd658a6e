"""The module control alone."""

import queue
from pathlib import Path

from beehive.hive import Hive
from beehive.runtime import Threads
from modules.cloud.apiserver.commands import ObjectChanged
from modules.cloud.refusals import Refusals
from modules.processes.cloudcore.control import Control


def test_who_watches_and_does_not_read_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    """All that such a client may have waiting for it waits already."""
    runtime = Threads()
    hive = Hive(runtime)
    hive.add(Control, tmp_path / "control", Refusals(hive.clock))
    hive.start()
    running = hive.slot(Control.name).running
    assert running is not None
    control = running.ref._actor_weakref()
    assert isinstance(control, Control)
    changes: queue.Queue[ObjectChanged | None] = queue.Queue(1)
    changes.put(ObjectChanged("ADDED", {}))
    control._watching.append(changes)
    hive.stop(5)
    assert not (tmp_path / "control").exists()
    runtime.close()
