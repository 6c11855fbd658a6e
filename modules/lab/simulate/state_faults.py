"""Faults of the state of nodes that cloudcore keeps when it works with the API server of a cluster: its SQL database,
or NodeStates in the cluster (docs/cloudcore.md).
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from modules.lab.simulate.clustered_cloud import ClusteredCloud
from modules.lab.simulate.failing_database import remove_database
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.plan import Fault, FaultKind
from modules.lab.simulate.undo import Undo, nothing

_Begin = Callable[[ClusteredCloud, SimulatedNode, Fault], Undo]

_PAGE: Final = 4096
"""Bytes of a page of SQLite."""
DAMAGES: Final = (
    ("cluster_syncs", "version = 'damaged'"),
    ("cluster_syncs", "version = 1.5"),
    ("cluster_syncs", "version = x'00ff'"),
    ("cluster_syncs", "kind = 'Damaged'"),
    ("cluster_syncs", "namespace = ''"),
    ("cluster_syncs", "name = x'00ff'"),
    ("cluster_syncs", "uid = ''"),
    ("cluster_syncs", "node = 'another'"),
    ("cluster_node_states", "node_uid = 'another'"),
    ("cluster_node_states", "node_uid = x'00ff'"),
    ("cluster_node_states", "epoch = 99"),
    ("cluster_node_states", "epoch = 'damaged'"),
    ("cluster_sessions", "cloudcore = 'another', revision = 4611686018427387904"),
    ("cluster_epochs", "epoch = 'damaged'"),
    ("cluster_epochs", "newest = 'damaged'"),
    ("cluster_epochs", "newest = 4611686018427387904"),
    ("cluster_epochs", "epoch = -1, newest = -1"),
)
"""Damages of a row: the table, and the values that its columns are set to."""


def _lose(cloud: ClusteredCloud, _node: SimulatedNode, _fault: Fault) -> Undo:
    _stop(cloud)
    remove_database(cloud.state_path)
    if cloud.keeps_state:
        cloud.states.replace([])
    return _starting(cloud)


def _age(cloud: ClusteredCloud, _node: SimulatedNode, fault: Fault) -> Undo:
    """Make a copy; in the end cloudcore is killed and started with it."""
    if cloud.keeps_state:
        return _age_objects(cloud)
    if not cloud.state_path.exists():
        return nothing
    copy = cloud.state_path.with_name(f"cloud-{fault.at:.3f}-{fault.node}.db")
    with closing(sqlite3.connect(cloud.state_path)) as database, closing(sqlite3.connect(copy)) as to:
        database.backup(to)

    def restore() -> None:
        was_running = cloud.process is not None
        _stop(cloud)
        remove_database(cloud.state_path)
        copy.replace(cloud.state_path)
        if was_running:
            cloud.start()

    return restore


def _age_objects(cloud: ClusteredCloud) -> Undo:
    copies = cloud.states.copies()

    def restore() -> None:
        was_running = cloud.process is not None
        _stop(cloud)
        cloud.states.replace(copies)
        if was_running:
            cloud.start()

    return restore


def _damage_file(cloud: ClusteredCloud, _node: SimulatedNode, fault: Fault) -> Undo:
    """Stop cloudcore; in the end overwrite a page of its database, and start it (`ClusteredCloud.opened`)."""
    if cloud.keeps_state:
        return nothing
    _stop(cloud)

    def end() -> None:
        if cloud.process is None:
            cloud.stop_second()
            _overwrite_page(cloud.state_path, int(fault.amount))
            cloud.start()

    return end


def _overwrite_page(path: Path, number: int) -> None:
    if path.exists():
        path.with_name(path.name + "-wal").unlink(missing_ok=True)
        with path.open("r+b") as file:
            file.seek(number * _PAGE % max(path.stat().st_size, _PAGE))
            file.write(b"damaged " * (_PAGE // 8))


def _damage(cloud: ClusteredCloud, _node: SimulatedNode, fault: Fault) -> Undo:
    _stop(cloud)
    if cloud.keeps_state:
        cloud.world.log_line("cloud", cloud.states.damage(int(fault.amount)))
        return _starting(cloud)
    if not cloud.state_path.exists():
        return _starting(cloud)
    number, which = divmod(int(fault.amount), len(DAMAGES))
    table, columns = DAMAGES[which]
    with closing(sqlite3.connect(cloud.state_path)) as database, database:
        rows = [row for (row,) in database.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]  # noqa: S608
        if rows:
            row = rows[number % len(rows)]
            database.execute(f"UPDATE OR IGNORE {table} SET {columns} WHERE rowid = ?", (row,))  # noqa: S608 - of the table above
            cloud.world.log_line("cloud", f"{table}: {columns} in row {row}")
    return _starting(cloud)


def _stop(cloud: ClusteredCloud) -> None:
    cloud.stop_second()
    cloud.stop()


def _starting(cloud: ClusteredCloud) -> Undo:
    def end() -> None:
        if cloud.process is None:
            cloud.start()

    return end


STATE_FAULTS: Final[Mapping[FaultKind, _Begin]] = {
    FaultKind.STATE_LOST: _lose,
    FaultKind.STATE_OLDER: _age,
    FaultKind.STATE_DAMAGED: _damage,
    FaultKind.STATE_FILE_DAMAGED: _damage_file,
}
"""Each function begins a fault, and returns the function that ends it."""
