"""edged keeps the steps of pods over its restarts: alone on the bus, in virtual time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from beehive.decoding import decode_json
from edged.chains.chains import NEW_SECONDS
from edged.chains.file import NAME, ChainFile
from edged.chains.model import Chain, ChainStep
from tests.edged.conftest import Bench, pod

Make = Callable[[], Bench]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes edged, each time with the same directory."""
    return lambda: Bench(tmp_path)


def steps(bench: Bench, name: str = "web") -> list[ChainStep]:
    assert bench.snapshots.reports is not None
    content = bench.snapshots.reports.chain("default", name)
    return [] if content is None else decode_json(content, Chain).steps


def reasons(bench: Bench, name: str = "web") -> list[str]:
    return [step.reason for step in steps(bench, name)]


def test_the_way_of_a_pod(make: Make) -> None:
    bench = make()
    bench.start(pod(volumes=[{"name": "tmp", "emptyDir": {}}]), wait=NEW_SECONDS)
    assert reasons(bench) == [
        "Taken", "Starting", "VolumesReady", "SandboxCreated", "Pulled", "Created", "Started", "Ready",
    ]  # fmt: skip
    bench.tell("delete", pod(), wait=60)
    assert steps(bench) == []
    bench.stop()


def test_a_failure_is_known_after_a_restart(make: Make) -> None:
    bench = make()
    bench.start()
    needs = {"name": "main", "image": "busybox:1.36", "envFrom": [{"configMapRef": {"name": "nowhere"}}]}
    bench.tell("insert", pod(containers=[needs]), wait=1800)
    [failed] = [step for step in steps(bench) if step.reason == "Failed"]
    assert "nowhere" in failed.text
    assert failed.count > 3
    bench.stop()
    after = make()
    after.meta.objects["default/pod/web"] = pod(containers=[needs])
    after.start()
    [again] = [step for step in steps(after) if step.reason == "Failed"]
    assert (again.at, again.text) == (failed.at, failed.text)
    assert again.count > failed.count
    after.stop()


def test_a_container_that_ends_is_a_step_with_its_exit_code(make: Make) -> None:
    bench = make()
    bench.start(pod(containers=[{"name": "main", "image": "busybox:1.36", "command": ["exit", "3"]}]), wait=60)
    [ended] = [step for step in steps(bench) if step.reason == "Ended"]
    assert (ended.text, ended.is_warning) == ("container main ended with exit code 3", True)
    assert ended.count > 1
    assert "BackOff" in reasons(bench)
    bench.stop()


def test_a_failure_of_edged_loses_nothing(make: Make) -> None:
    bench = make()
    bench.meta.objects["default/pod/web"] = pod()
    bench.start()
    before = reasons(bench)
    bench.poison(wait=5)
    assert bench.bee.hive.restarts()["edged"] == 1
    assert reasons(bench)[: len(before)] == before
    bench.stop()


def test_steps_are_on_the_disk_within_seconds(make: Make) -> None:
    bench = make()
    bench.start(pod(), wait=NEW_SECONDS + 1)
    [chain] = ChainFile(bench.settings.root).read()
    assert chain.steps[0].reason == "Taken"
    bench.stop()


def test_a_damaged_file_stops_no_start(make: Make) -> None:
    bench = make()
    bench.settings.root.mkdir()
    (bench.settings.root / NAME).write_bytes(b"\x00" * 4096 + b"\n")
    bench.start(pod())
    assert bench.running() == ["main"]
    assert "Taken" in reasons(bench)
    bench.stop()
