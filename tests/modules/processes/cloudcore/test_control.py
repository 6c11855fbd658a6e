"""The module control alone."""

import socket
from pathlib import Path

from beehive.hive import Hive
from beehive.runtime import Threads
from modules.cloud.apiserver.endpoints.subscriptions import WAITING
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.refusals import Refusals
from modules.cloud.storage.watch_history import ObjectChanged
from modules.processes.cloudcore.control import Control
from modules.processes.cloudcore.counters import Counters


def test_who_watches_and_does_not_read_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    """All that such a client may have waiting for it waits already."""
    runtime = Threads()
    hive = Hive(runtime)
    hive.add(Control, tmp_path / "control", Counters(Refusals(hive.clock), KnownCloudcores()))
    hive.start()
    running = hive.slot(Control.name).running
    assert running is not None
    control = running.ref._actor_weakref()
    assert isinstance(control, Control)
    slow = control._subscriptions.subscribe("Pod", of_client=True)
    for _ in range(WAITING + 1):
        control._subscriptions.publish(ObjectChanged("ADDED", {"kind": "Pod", "metadata": {"name": "web"}}))
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(tmp_path / "control"))
        hive.stop(60)
    assert not (tmp_path / "control").exists()
    waiting, ended = slow.drain()
    assert (len(waiting), ended) == (0, True)
    slow.close()
    runtime.close()
