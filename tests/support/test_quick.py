"""Which tests `make quick` chooses, and in which order."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support import quick
from tests.support.quick import ROOT, SLOW, chosen, slow_of, steps

IMPORTERS = {
    "edged.volumes.empty": {"edged.volumes.all", "tests.edged.volumes.test_empty"},
    "edged.volumes.all": {"edged.module", "tests.edged.volumes.test_all", "tests.edged.pods.test_pods"},
    "edged.module": {"tests.edged.test_module", "tests.end_to_end.test_pod"},
    "tests.made": {"tests.edged.pods.test_pods"},
}
TESTS = [
    "tests/edged/pods/test_pods.py", "tests/edged/test_module.py", "tests/edged/volumes/test_all.py",
    "tests/edged/volumes/test_empty.py", "tests/end_to_end/test_pod.py", "tests/metamanager/test_store.py",
]  # fmt: skip


def test_steps_also_of_circles() -> None:
    """Each module counts once, with the shortest way."""
    assert steps(["a"], {"a": ["b", "c"], "b": ["c"], "c": ["a", "d"]}) == {"a": 0, "b": 1, "c": 1, "d": 2}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        # by steps, then those beside the tests of what has changed; no end-to-end test
        (["edged/volumes/empty.py"], ["volumes/test_empty", "volumes/test_all", "pods/test_pods", "test_module"]),
        (["tests/made.py"], ["pods/test_pods"]),
        (["tests/edged/volumes/test_all.py", "docs/volumes.md"], ["volumes/test_all"]),
        (["tests/edged/volumes/conftest.py"], ["volumes/test_all", "volumes/test_empty"]),
        (["docs/volumes.md"], []),
    ],
)
def test_the_nearest_first(paths: list[str], expected: list[str]) -> None:
    """What reaches no changed file is not there."""
    assert chosen(paths, IMPORTERS, TESTS) == [f"tests/edged/{name}.py" for name in expected]


def test_slow_tests_of_an_area_run_when_it_has_changed() -> None:
    survival = "tests/modules/runtimes/docker/test_survival.py"
    paths = [
        "modules/runtimes/docker/images.py",
        "modules/runtimes/docker/driver.py",
        "modules/runtimes/docker_notes.py",
    ]
    assert slow_of(paths) == [survival]
    assert slow_of(["edged/pods/model.py", "docs/oci.md"]) == []


@pytest.mark.parametrize("path", sorted({*SLOW, *(file for files in SLOW.values() for file in files)}))
def test_the_areas_and_their_slow_tests_are_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(
    ("until", "begun", "said"),
    [
        (0.0, ["tests/a.py::test_x"], "all of tests/b.py; `make test` runs them"),
        (0.0, ["tests/a.py::test_x", "tests/b.py::test_x[1]"], "the last tests; `make test` runs them"),
        (math.inf, [], ""),
        (None, [], ""),
    ],
)
def test_a_run_whose_time_is_over_says_what_it_left_out(until: float | None, begun: list[str], said: str) -> None:
    lines: list[str] = []
    stats = {"passed": [SimpleNamespace(nodeid=each) for each in begun], "warnings": ["odd"]}
    reporter = SimpleNamespace(stats=stats, write_line=lines.append)
    config = SimpleNamespace(getoption=lambda _: until, args=["tests/a.py", "tests/b.py"])
    quick.pytest_terminal_summary(cast("Any", reporter), cast("Any", config))
    assert [line.partition("left out: ")[2] for line in lines] == ([said] if said else [])
