"""The journal: objects survive a restart of the stub, with their uids and versions."""

from pathlib import Path

import pytest

from beehive.simulation import Simulation
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.journal import Journal, JournalError
from modules.edgecontroller.kinds import ObjectKey
from tests.modules.edgecontroller.objects import configmap, pod

WEB = ObjectKey("Pod", "default", "web")


def opened(path: Path, seed: int) -> tuple[Cluster, Journal]:
    cluster = Cluster(Simulation(seed).clock)
    return cluster, Journal(path, cluster.store)


def write_all(cluster: Cluster, journal: Journal) -> None:
    for event in cluster.store.take_events():
        journal.write(event)


def test_objects_come_back_as_they_were(tmp_path: Path) -> None:
    cluster, journal = opened(tmp_path / "state", 1)
    kept, _ = cluster.apply(pod())
    cluster.apply(configmap())
    cluster.delete(ObjectKey("ConfigMap", "default", "settings"))
    write_all(cluster, journal)
    journal.close()
    restarted, again = opened(tmp_path / "state", 2)
    assert restarted.store.find(WEB) == kept
    assert restarted.store.find(ObjectKey("ConfigMap", "default", "settings")) is None
    later, _ = restarted.apply(pod("later"))
    assert int(later["metadata"]["resourceVersion"]) > int(kept["metadata"]["resourceVersion"])
    again.close()


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    cluster, journal = opened(tmp_path / "state", 1)
    cluster.apply(pod())
    write_all(cluster, journal)
    journal.close()
    with (tmp_path / "state").open("ab") as file:
        file.write(b'{"change": "ADD')
    restarted, again = opened(tmp_path / "state", 2)
    assert restarted.store.find(WEB) is not None
    again.close()


def test_a_damaged_journal_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"nonsense\n{}\n")
    with pytest.raises(JournalError, match="state:1"):
        opened(tmp_path / "state", 1)


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    _, journal = opened(tmp_path / "state", 1)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
    journal.close()
