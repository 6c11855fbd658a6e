"""Simulated processes: they end as processes do."""

import gc
import weakref
from pathlib import Path

import pytest

from metamanager.rows import Cause, Row
from metamanager.sqlite_store import SqliteStore
from metamanager.unreferenced import UNUSED
from modules.lab.simulate.disk import DATABASE, Disk, SimulatedStore, copy_after_kill
from modules.lab.simulate.row_watch import RowWatch
from modules.lab.simulate.wire_watch import dropped_in, rows_in
from modules.lab.simulate.world import Process, WallClock, World

ROW = Row(key="default/pod/a", type="pod", value="{}", uid="u", resource_version=3)


def test_of_a_killed_process_nothing_runs_any_more() -> None:
    """No timer, no answer, no `finally`."""
    told: list[str] = []
    with World(1) as world:
        process = Process(world, "p", WallClock())

        def body() -> None:
            try:
                process.sleep(5)
                told.append("woke")
            finally:
                told.append("cleaned up")

        process.run(body)
        process.clock.after(5, lambda: told.append("timer"))
        world.run_for(1)
        process.kill()
        world.run_for(10)
        assert told == []


def test_nothing_of_a_world_that_is_over_is_kept() -> None:
    """Whether it was killed or waits still, even for a second time on its way out: thousands of worlds follow it."""
    kept: list[weakref.ref[object]] = []

    def live(*, killed: bool) -> None:
        with World(1) as world:
            process = Process(world, "p", WallClock())

            def body() -> None:
                held = WallClock()
                kept.append(weakref.ref(held))
                try:
                    process.future().get()
                finally:
                    process.future().get()

            process.run(body)
            world.run_for(1)
            if killed:
                process.kill()
            kept.append(weakref.ref(world))

    live(killed=True)
    live(killed=False)
    gc.collect()
    assert [one() for one in kept] == [None] * 4


@pytest.mark.parametrize("steps", range(1, 5))
def test_a_process_dies_after_the_steps_it_was_given(steps: int) -> None:
    """It gets as far as to the step before."""
    done: list[int] = []
    with World(1) as world:
        process = Process(world, "p", WallClock())

        def body() -> None:
            for number in range(10):
                process.point()
                done.append(number)

        process.doom(steps, process.kill)
        process.run(body)
        world.run_for(1)
        assert len(done) == steps - 1


def test_a_wall_clock_jumps_and_timers_do_not_notice() -> None:
    fired: list[float] = []
    with World(1) as world:
        wall = WallClock()
        process = Process(world, "p", wall)
        before = process.clock.now()
        process.clock.after(2, lambda: fired.append(world.now()))
        wall.offset = 3600
        world.run_for(5)
        assert fired == [2.0]
        assert process.clock.now() == before + 3605


def test_after_a_kill_committed_rows_are_there(tmp_path: Path) -> None:
    """The rest of the transaction is gone."""
    with World(1) as world:
        process = Process(world, "p", WallClock())
        (tmp_path / "old").mkdir()

        def body() -> None:
            store = SimulatedStore(tmp_path / "old" / DATABASE, process, Disk(), RowWatch(world, "n"))
            store.put(ROW)
            store.commit()
            store.put(Row(key="default/pod/b", type="pod", value="{}", uid="v"))
            copy_after_kill(tmp_path / "old", tmp_path / "new", None)
            store.close()

        process.run(body)
        world.run_for(1)
        assert world.violations == []
    assert rows_in(tmp_path / "new") == {"default/pod/a": ("u", 3)}


def test_only_rows_that_the_store_recorded_as_unused_count_as_dropped(tmp_path: Path) -> None:
    """Not what it lost or deleted, nor what came again since."""
    store = SqliteStore(tmp_path / DATABASE)
    keys = {name: f"default/secret/{name}" for name in ("dropped", "deleted", "again")}
    for name, key in keys.items():
        row = Row(key=key, type="secret", value="{}", uid=name, cause=Cause("edgecontroller update"))
        store.put(row)
        store.delete(key, name, Cause("edgecontroller delete" if name == "deleted" else UNUSED))
        if name == "again":
            store.put(row)
    store.commit()
    store.close()
    assert dropped_in(tmp_path) == {keys["dropped"]}
    assert dropped_in(tmp_path / "nowhere") == set()


def test_an_error_in_the_log_is_a_violation() -> None:
    """In production nobody else would learn of it."""
    with World(1) as world:
        process = Process(world, "p", WallClock())
        process.run(lambda: print(1 / 0))  # noqa: T201 - never printed
        world.run_for(1)
        assert "ZeroDivisionError" in str(world.violations)
