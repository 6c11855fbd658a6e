"""Decisions on jobs: who is next, what a report changes, how a job ends."""

from typing import Any

import pytest

from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import (
    ANOTHER_CHANGE,
    FLOWS,
    LONGEST_REASON,
    MOST_IMAGES,
    MOST_NODES,
    Action,
    ActionReport,
    ConfigSpec,
    ImageResult,
    JobAddress,
    read_images,
)
from modules.cloud.taskmanager.deadlines import Deadlines
from modules.cloud.taskmanager.events import notes_of
from modules.cloud.taskmanager.progress import (
    AWAY,
    BOTH,
    EDGE,
    NO_NODES,
    TIMED_OUT,
    JobLimits,
    accept,
    advance,
    begin,
)
from modules.cloud.taskmanager.statuses import ActionStatus, JobStatus, NodeTask

Json = dict[str, Any]
PULL, UPGRADE = JobKind.IMAGE_PRE_PULL, JobKind.NODE_UPGRADE
LIMITS = JobLimits(2, 0.5, 60.0)


def node(name: str, *, edge: bool = True, **labels: str) -> Json:
    """A Node."""
    return {"metadata": {"name": name, "labels": {**({EDGE: ""} if edge else {}), **labels}}}


def in_phases(**phases: str) -> JobStatus:
    """A job that has begun."""
    return JobStatus("InProgress", "", [NodeTask(name, phase) for name, phase in phases.items()])


def said(action: str, reason: str = "", extend: str = "", at: str = "") -> ActionReport:
    """A report of a success, or of a failure with its reason."""
    return ActionReport(action, not reason, at, reason, extend)


def phases_of(status: JobStatus) -> list[str]:
    return [task.phase for task in status.node_status]


def go_on(status: JobStatus, *connected: str, overdue: str = "", stalled: bool = False) -> list[str]:
    """Bring a status up to date."""
    return advance(status, LIMITS, connected, lambda task: task.node_name == overdue, is_stalled=stalled)


def test_nodes_are_chosen_by_name_or_by_label() -> None:
    nodes = [node("b", site="x"), node("a", site="x"), node("c"), node("server", edge=False, site="x")]
    named = begin(ConfigSpec(node_names=["c", "server", "gone", "c"]), nodes)
    assert [(task.node_name, task.phase, task.reason) for task in named.node_status] == [
        ("c", "Pending", ""),
        ("server", "Failure", f"the node has no label {EDGE}"),
        ("gone", "Failure", 'failed to get node, err: Node "gone" not found'),
    ]
    selected = begin(ConfigSpec(label_selector={"matchLabels": {"site": "x"}}), nodes)
    assert [task.node_name for task in selected.node_status] == ["a", "b"]
    both = ConfigSpec(node_names=["c"], label_selector={"matchLabels": {"site": "x"}})
    assert begin(both, nodes) == JobStatus("Failure", BOTH)
    for selector in (None, {}, {"matchLabels": {"site": "y"}}):
        assert begin(ConfigSpec(label_selector=selector), nodes) == JobStatus("Failure", NO_NODES)


@pytest.mark.parametrize(
    ("version", "is_known"),
    [
        ("v1.26.7-kubeedge-v1.16.0", False), ("v1.30.7-kubeedge-v1.20.1-beta.0.3+1a2b3c", False),
        ("v1.30.7-kubeedge-v1.21.0", True), ("v1.32.10-kubeedge-v1.23.0", True), ("v2.0.0-kubeedge-v2.0.0", True),
        ("v1.32.10-kubeedge-v0.0.0-master+$Format:%H$", True), ("v1.32.10", True), ("", True),
    ],
)  # fmt: skip
def test_a_kubeedge_that_answers_no_such_job_fails_at_once(version: str, *, is_known: bool) -> None:
    """Up to 1.20 it logs the message only, and the job would wait for its time-out."""
    old = {**node("a"), "status": {"nodeInfo": {"kubeletVersion": version}}}
    for spec in (ConfigSpec(node_names=["a"]), ConfigSpec(label_selector={"matchLabels": {EDGE: ""}})):
        [task] = begin(spec, [old]).node_status
        assert task.phase == ("Pending" if is_known else "Failure")
        assert is_known or "1.21 is the first" in task.reason


def test_a_job_is_bounded() -> None:
    """In its nodes, of which a label may select many, and in those that have it at a time."""
    spec = ConfigSpec(label_selector={"matchLabels": {"site": "x"}}, concurrency=10**6)
    assert JobLimits.of(spec).concurrency == 1000
    nodes = [node(f"n{each}", site="x") for each in range(MOST_NODES + 1)]
    assert [begin(spec, some).phase for some in (nodes, nodes[1:])] == ["Failure", "Init"]


def test_texts_of_a_node_are_bounded_and_plain() -> None:
    status = in_phases(a="InProgress")
    report = ActionReport("BackUp", succ=True, finish_time="\x1b[2J", extend=f"{'1' * 100},2")
    assert accept(UPGRADE, status, "a", report) == ""
    (task,) = status.node_status
    assert (task.action_flow[0].time, task.current_version) == ("", "1" * 64)


def test_a_node_that_is_given_up_and_succeeds_after_all_is_told() -> None:
    notes = notes_of(PULL, "j", in_phases(a="Unknown"), in_phases(a="Successful"), None)
    assert [(each.node, each.reason) for each in notes] == [("a", "NodeJobSucceeded")]


def test_as_many_nodes_as_the_concurrency_have_their_turn() -> None:
    status = JobStatus("Init", "", [NodeTask(name, "Pending") for name in "abcd"])
    assert go_on(status, "b", "c", "d") == ["b", "c"]
    assert (status.phase, phases_of(status)) == ("InProgress", ["Pending", "InProgress", "InProgress", "Pending"])
    assert go_on(status, "a", "d") == []


def test_a_time_out_makes_room() -> None:
    """A node that does not answer holds its slot only so long (kubeedge/kubeedge#7049)."""
    status = in_phases(a="InProgress", b="InProgress", c="Pending", d="Pending")
    assert go_on(status, "c", "d", overdue="a") == ["c"]
    assert (status.node_status[0].phase, status.node_status[0].reason) == ("Unknown", TIMED_OUT)


def test_a_job_ends_when_too_many_have_failed_and_the_others_are_left_alone() -> None:
    status = in_phases(a="Failure", b="Failure", c="Failure", d="Pending", e="Pending")
    for task in status.node_status[:3]:
        assert accept(PULL, status, task.node_name, ActionReport("Check", succ=False)) != ""
        task.action_flow = [ActionStatus("Check", "False")]
    assert go_on(status, "d", "e") == []
    assert status.phase == "Failure"
    assert status.reason == "the number of failed nodes is 3/5, which exceeds the failure tolerance threshold"
    assert phases_of(status)[3:] == ["Pending", "Pending"]
    assert go_on(status, "d", "e") == []


def test_a_job_within_its_tolerance_is_complete() -> None:
    status = in_phases(a="Failure", b="Successful", c="Unknown", d="Successful")
    assert go_on(status) == []
    assert (status.phase, status.reason) == ("Completed", "")


@pytest.mark.parametrize(
    ("failed", "number", "tolerance", "phase"),
    [
        (1, 8, "0.12", "Failure"), (1, 8, "0.125", "Failure"), (1, 8, "0.13", "Completed"), (1, 200, "0", "Failure"),
        (1, 3, "0.33", "Completed"), (2, 3, "0.66", "Failure"), (1, 201, "0", "Completed"),
    ],
)  # fmt: skip
def test_the_share_of_failed_nodes_is_rounded_as_in_kubeedge(
    failed: int, number: int, tolerance: str, phase: str
) -> None:
    status = in_phases(**{f"n{at}": "Failure" if at < failed else "Successful" for at in range(number)})
    assert advance(status, JobLimits.of(ConfigSpec(failure_tolerate=tolerance)), (), lambda _task: False) == []
    assert status.phase == phase


def test_nodes_that_stay_away_are_given_up_when_nothing_happens() -> None:
    status = in_phases(a="InProgress", b="Pending")
    go_on(status, stalled=True)
    assert phases_of(status) == ["InProgress", "Pending"], "its turn may come"
    status = in_phases(a="Successful", b="Pending")
    assert go_on(status) == []
    assert status.phase == "InProgress"
    assert go_on(status, stalled=True) == []
    assert (status.phase, status.node_status[1].phase, status.node_status[1].reason) == ("Completed", "Unknown", AWAY)


@pytest.mark.parametrize(
    ("action", "reason", "phase"),
    [
        ("Check", "", "InProgress"),
        ("Check", "x" * 9000, "Failure"),
        ("Pull", "", "Successful"),
        ("Pull", "x" * 9000, "Failure"),
    ],
    ids=range(4),
)
def test_a_report_ends_a_task_if_no_action_follows(action: str, reason: str, phase: str) -> None:
    status = in_phases(a="InProgress")
    assert accept(PULL, status, "a", said(action, reason)) == ""
    [task] = status.node_status
    assert (task.phase, [each.action for each in task.action_flow]) == (phase, [action])
    assert len(task.action_flow[0].reason) == min(len(reason), LONGEST_REASON)


@pytest.mark.parametrize("phase", ["Pending", "Successful", "Failure"])
def test_only_a_node_whose_turn_it_is_reports(phase: str) -> None:
    status = in_phases(a=phase)
    assert accept(PULL, status, "a", ActionReport("Pull", succ=True)) != ""
    assert accept(PULL, status, "b", ActionReport("Pull", succ=True)) != ""
    assert status == in_phases(a=phase)


def test_each_action_is_reported_once_and_belongs_to_the_kind() -> None:
    status = in_phases(a="InProgress")
    assert accept(PULL, status, "a", ActionReport("Check", succ=True)) == ""
    assert accept(PULL, status, "a", ActionReport("Check", succ=False)) != ""
    assert accept(PULL, status, "a", ActionReport("Upgrade", succ=True)) != ""
    assert accept(PULL, status, "a", ActionReport("Dance", succ=True)) != ""
    assert len(status.node_status[0].action_flow) == 1


def test_a_node_that_was_given_up_may_still_report() -> None:
    status = in_phases(a="Unknown")
    status.node_status[0].reason = TIMED_OUT
    assert accept(PULL, status, "a", ActionReport("Pull", succ=True)) == ""
    assert (status.node_status[0].phase, status.node_status[0].reason) == ("Successful", "")


def test_a_node_that_has_gone_back_has_failed() -> None:
    """KubeEdge counts it as successful, because its RollBack was."""
    status = in_phases(a="InProgress")
    assert accept(UPGRADE, status, "a", said("Upgrade", "it ended 3 times", "1.0.0,1.1.0")) == ""
    assert status.node_status[0].phase == "InProgress"
    assert accept(UPGRADE, status, "a", said("RollBack", extend="1.1.0,1.0.0")) == ""
    [task] = status.node_status
    assert (task.phase, task.reason) == ("Failure", "rolled back: it ended 3 times")
    assert (task.historic_version, task.current_version) == ("1.0.0", "1.0.0")


@pytest.mark.parametrize(
    ("reports", "versions"),
    [
        ([said("BackUp", extend=",1.0.0")], ("", "1.0.0")),
        ([said("BackUp", extend="1.0.0,1.1.0")], ("", "1.0.0")),
        ([said("BackUp", extend=",1.0.0"), said("Upgrade", extend="1.0.0,1.1.0")], ("1.0.0", "1.1.0")),
        ([said("BackUp", extend=",1.0.0"), said("Upgrade", "x", ",")], ("1.0.0", "1.0.0")),
        ([said("BackUp", extend=",1.0.0"), said("Upgrade", "x", ","), said("RollBack", "y", ",")], ("1.0.0", "1.0.0")),
        ([said("BackUp", extend=",1.0.0"), said("RollBack", extend="1.1.0,1.0.0")], ("", "1.0.0")),
        ([said("BackUp", extend="x")], ("", "")),
    ],
    ids=range(7),
)
def test_the_current_version_is_the_one_that_runs(reports: list[ActionReport], versions: tuple[str, str]) -> None:
    """KubeEdge's edge names none in a report of a failed keadm; our nodes up to 0.3 named the next one in BackUp."""
    status = in_phases(a="InProgress")
    for report in reports:
        assert accept(UPGRADE, status, "a", report) == ""
    [task] = status.node_status
    assert (task.historic_version, task.current_version) == versions


def test_a_failed_job_is_judged_anew_when_its_last_nodes_report() -> None:
    """One that was given up may be confirmed on the node later; KubeEdge counts upgrades anew, too."""
    status = in_phases(a="InProgress", b="InProgress", c="Successful")
    assert go_on(status, overdue="a") == []
    assert accept(UPGRADE, status, "b", said("Check", "no room")) == ""
    assert go_on(status) == []
    assert (status.phase, status.reason.partition(",")[0]) == ("Failure", "the number of failed nodes is 2/3")
    assert accept(UPGRADE, status, "a", said("WaitingConfirmation")) == ""
    assert go_on(status) == []
    assert (status.phase, status.reason) == ("InProgress", "")
    assert accept(UPGRADE, status, "a", said("Upgrade")) == ""
    assert go_on(status) == []
    assert (status.phase, phases_of(status)) == ("Completed", ["Successful", "Failure", "Successful"])


def test_a_failed_job_that_has_left_nodes_alone_stays_so() -> None:
    """Or they would have their turn after all. A node that has begun ends, or its time does."""
    status = in_phases(a="Failure", b="Failure", c="InProgress", d="Pending")
    for task in status.node_status[:2]:
        task.action_flow = [ActionStatus("Check", "False")]
    status.phase, status.reason = "Failure", "x"
    assert go_on(status, "d", overdue="c") == []
    assert (status.phase, status.reason, phases_of(status)[2:]) == ("Failure", "x", ["Unknown", "Pending"])
    assert accept(PULL, status, "c", said("Pull")) == ""
    assert go_on(status, "d") == []
    assert (status.phase, phases_of(status)[2:]) == ("Failure", ["Successful", "Pending"])


def test_a_job_that_another_change_has_kept_from_its_own_has_changed_nothing() -> None:
    status, why = in_phases(a="InProgress"), f"edgecore: {ANOTHER_CHANGE}: 1.2.0 is on probation"
    assert accept(UPGRADE, status, "a", said("Upgrade", why, "1.0.0,1.1.0")) == ""
    assert accept(UPGRADE, status, "a", said("RollBack", extend="1.1.0,1.0.0")) == ""
    [task] = status.node_status
    assert (task.phase, task.reason) == ("Failure", f"nothing was changed: {why}")


def test_a_status_has_room_for_many_nodes() -> None:
    """An API server refuses an object of more than 1.5 MB."""
    status = JobStatus("InProgress", "", [NodeTask(f"n{number}", "InProgress") for number in range(5000)])
    for task, long in zip(status.node_status[:2], (500, 60), strict=True):
        images = ",".join(f'{{"image":"i{number}","status":"False","reason":"{"y" * long}"}}' for number in range(200))
        report = said("Pull", "x" * 9000, f"[{images}]")
        assert accept(PULL, status, task.node_name, report) == ""
        assert len(task.action_flow[0].reason) <= 110
        assert len(task.image_status) == 1


@pytest.mark.parametrize("text", ["[", "{}", '[{"image": 7}]', "[" * 9000, "\ud800"], ids=range(5))
def test_images_that_cannot_be_read_are_left_out(text: str) -> None:
    assert read_images(text) == []
    one = '{"image":"x","status":"True"}'
    assert read_images(f"[{one}]") == [ImageResult("x", "True")]
    assert len(read_images(f"[{','.join([one] * 300)}]")) == MOST_IMAGES


@pytest.mark.parametrize("text", ["x", "2", "-1", "nan", "inf"])
def test_a_tolerance_is_a_share(text: str) -> None:
    with pytest.raises(ValueError, match=r"fail|could not"):
        JobLimits.of(ConfigSpec(failure_tolerate=text))
    assert JobLimits.of(ConfigSpec()) == JobLimits(1, 0.0, 3600.0)


def test_a_task_is_overdue_when_it_has_shown_nothing_for_its_time() -> None:
    """By the cloud's own clock, whatever times the node writes."""
    status, deadlines = in_phases(a="InProgress", b="Pending"), Deadlines()
    [task, _] = status.node_status
    deadlines.observe(status, LIMITS, 0.0)
    assert not deadlines.is_overdue(task)
    accept(PULL, status, "a", said("Check", at="1970-01-01T00:00:00Z"))
    deadlines.observe(status, LIMITS, 59.0)
    deadlines.observe(status, LIMITS, 118.0)
    assert (deadlines.is_overdue(task), deadlines.is_stalled) == (False, False)
    deadlines.observe(status, LIMITS, 119.0)
    assert (deadlines.is_overdue(task), deadlines.is_stalled) == (True, True)


def test_addresses_name_kind_job_and_node() -> None:
    for kind in JobKind:
        address = JobAddress(kind, "up-1", "edge-1")
        assert JobAddress.read(address.resource) == address
        assert Action.CHECK in FLOWS[kind]
    assert JobAddress.read("operations.kubeedge.io/v1alpha2/pods/x/node/n") is None
