"""From the pods of an answer to rows: contents, order, selection."""

import pytest

from modules.apimachinery.printing.fields import JsonObject
from modules.processes.edgecore.top.pod_rows import SortKey, ordered, pod_rows, selected
from modules.processes.edgecore.top.spans import Tone
from tests.modules.processes.edgecore.top.made import ended, look, pod, running, waiting

CRASHER = pod("crasher", waiting("CrashLoopBackOff", "back-off 40s restarting failed container", restarts=4))
GREETER = pod("greeter", running(), running("second"), namespace="lab", ago=90)
DONE = pod("done", ended(), status_phase="Succeeded", ago=7)


def test_a_row_has_all_of_a_pod() -> None:
    row = pod_rows(look(CRASHER, stats={"crasher": (12, 34)}))[0]
    assert (row.title, row.ready, row.status, row.tone) == ("default/crasher", "0/1", "CrashLoopBackOff", Tone.BAD)
    assert (row.restarts, row.restarted, row.age) == (4, 9, 3600)
    assert (row.cpu, row.memory) == (12_000_000, 34 << 20)
    assert row.reason == "back-off 40s restarting failed container"


def test_a_pod_that_is_not_measured_has_no_figures() -> None:
    """None, as opposed to 0."""
    row = pod_rows(look(GREETER))[0]
    assert (row.cpu, row.memory, row.reason, row.tone) == (None, None, "", Tone.GOOD)


@pytest.mark.parametrize(
    ("made", "tone"),
    [
        (pod("p", running()), Tone.GOOD),
        (pod("p", running(ready=False)), Tone.BUSY),
        (pod("p", waiting("ContainerCreating"), status_phase="Pending"), Tone.BUSY),
        (pod("p", waiting("ImagePullBackOff"), status_phase="Pending"), Tone.BAD),
        (pod("p", ended(3), status_phase="Failed"), Tone.BAD),
        (DONE, Tone.FAINT),
        (pod("p", running(), metadata_deletionTimestamp="2026-01-01T00:00:20Z"), Tone.BUSY),
    ],
)
def test_the_tone_shows_whether_somebody_should_look(made: JsonObject, tone: Tone) -> None:
    assert pod_rows(look(made))[0].tone is tone


def test_running_init_containers_are_busy_and_failing_ones_bad() -> None:
    init = {"initContainers": [{"name": "first"}], "containers": [{"name": "app"}]}
    for status, tone in ((running("first", ready=False), Tone.BUSY), (waiting("CrashLoopBackOff"), Tone.BAD)):
        made = pod("p", waiting("PodInitializing"), status_phase="Pending")
        made["spec"], made["status"]["initContainerStatuses"] = init, [status | {"name": "first", "started": False}]
        assert pod_rows(look(made))[0].tone is tone


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (SortKey.NAME, ["crasher", "done", "greeter"]),
        (SortKey.STATUS, ["crasher", "greeter", "done"]),
        (SortKey.RESTARTS, ["crasher", "done", "greeter"]),
        (SortKey.CPU, ["done", "crasher", "greeter"]),
        (SortKey.MEMORY, ["crasher", "done", "greeter"]),
        (SortKey.AGE, ["done", "greeter", "crasher"]),
    ],
)
def test_order(key: SortKey, names: list[str]) -> None:
    """Figures from the largest, ages from the youngest, what is wrong before what is well."""
    rows = pod_rows(look(GREETER, DONE, CRASHER, stats={"crasher": (1, 9), "done": (5, 2)}))
    assert [row.name for row in ordered(rows, key)] == names


def test_the_keys_go_around() -> None:
    key = SortKey.NAME
    for _ in SortKey:
        key = key.following()
    assert key is SortKey.NAME


@pytest.mark.parametrize(
    ("words", "names"),
    [("", 3), ("lab/", 1), ("CRASH back-off", 1), ("default completed", 1), ("nothing", 0), ("  ", 3)],
)
def test_selection(words: str, names: int) -> None:
    """All words, in name, status or reason, whatever their case."""
    assert len(selected(pod_rows(look(CRASHER, GREETER, DONE)), words)) == names


def test_a_pod_with_every_fault_is_a_row() -> None:
    """What a node says is not to be relied on."""
    odd: JsonObject = {"metadata": None, "spec": {"containers": 3}, "status": {"containerStatuses": [1, {"state": []}]}}
    row = pod_rows(look(odd, {}))[0]
    assert (row.title, row.age, row.restarted) == ("/", None, None)
