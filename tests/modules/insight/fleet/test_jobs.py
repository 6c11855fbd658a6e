"""The jobs of nodes in rows: what each part of a job says, how much of a large one is told, and what is held."""

from typing import Any

import msgspec
import pytest

from modules.apimachinery.node_job_kinds import JobKind
from modules.cloud.taskmanager.waves import PAUSE, WAVES
from modules.insight.fleet.jobs import (
    MOST_JOBS,
    MOST_NODES,
    JobCounts,
    changes_under_way,
    job_nodes,
    job_row,
    job_sentence,
    job_story,
    jobs_of,
    next_name,
    without_links,
)

Json = dict[str, Any]
CREATED = "2026-11-27T10:00:00Z"
UPGRADE = JobKind.NODE_UPGRADE


def task(name: str, phase: str = "Pending", reason: str = "", step: str = "") -> Json:
    """Return a job on a node; an action has failed where the node has."""
    status = "False" if phase == "Failure" else "True"
    flow = [{"action": step, "status": status, "time": "2026-11-27T10:05:00Z", "reason": reason}] if step else []
    return {"nodeName": name, "phase": phase, "actionFlow": flow}


def job(*tasks: Json, phase: str = "InProgress", reason: str = "", name: str = "up", **annotations: str) -> Json:
    """Return a NodeUpgradeJob."""
    keys = {"waves": WAVES, "pause": PAUSE}
    metadata = {
        "name": name,
        "creationTimestamp": CREATED,
        "annotations": {keys[key]: annotations[key] for key in annotations},
    }
    status = {"phase": phase, "reason": reason, "nodeStatus": list(tasks)}
    return {"metadata": metadata, "spec": {"version": "v1.1.0"}, "status": status}


DONE, FAILED, GOING = (
    task("n1", "Successful", step="Upgrade"),
    task("n2", "Failure", "no room", "Check"),
    task("n3", "InProgress"),
)


@pytest.mark.parametrize(
    ("made", "here", "held"),
    [
        (job(task("n1"), task("n2"), waves="1,all"), {"n1", "n2"}, ["", "the waves before it have not ended"]),
        (job(task("n1", "InProgress"), task("n2"), waves="1,all"), {"n1", "n2"},
         ["", "the wave before it has not ended"]),
        (job(DONE, task("n2"), waves="1,all", pause="600"), {"n1", "n2"}, ["", "it begins 10m after the last change"]),
        (job(DONE, task("n2"), waves="1,all"), {"n1", "n2"}, ["", ""]),
        (job(DONE, task("n2"), reason="the next wave waits: n1", waves="1,all"), {"n2"},
         ["", "the next wave waits: n1"]),
        (job(DONE, task("n2"), task("n3"), waves="1,2,3", pause="60"), {"n1"},
         ["", "it begins 60s after the last change", "the waves before it have not ended"]),
        (job(FAILED, task("n3"), phase="Failure", waves="1,all"), set(), ["", "the job has ended"]),
        (job(DONE, GOING, waves="1,1,all"), {"n1", "n3"}, ["", ""]),
        (job(DONE, task("n2"), waves="no"), set(), []),
        (job(waves="1,all"), set(), []),
    ],
)  # fmt: skip
def test_a_wave_says_why_it_has_not_begun(made: Json, here: set[str], held: list[str]) -> None:
    assert [wave.held for wave in job_row(UPGRADE, made, here).waves] == held


def test_a_wave_that_adds_no_node_keeps_its_number() -> None:
    """Events of the job count it, too (`WaveBegun`)."""
    made = job(DONE, GOING, waves="1,1,all")
    assert [wave.number for wave in job_row(UPGRADE, made, set()).waves] == [1, 3]
    assert [each.wave for each in job_nodes(UPGRADE, made, set())] == [1, 3]


def test_nodes_that_wait_are_away_only_for_who_may_know_it() -> None:
    made = job(task("n1"), task("n2"), DONE, FAILED, GOING, waves="2,all")
    assert job_row(UPGRADE, job(FAILED, task("n4", "Unknown")), None).counts.failed == 2
    row = job_row(UPGRADE, made, {"n1"})
    assert row.counts == JobCounts(nodes=5, done=1, failed=1, under_way=1, waiting=2, away=1)
    assert without_links(row) == job_row(UPGRADE, made, None)
    assert [each.state for each in job_nodes(UPGRADE, made, {"n1"})][:3] == ["Pending", "Pending (away)", "Successful"]
    assert {each.state for each in job_nodes(UPGRADE, made, None)} == {"Pending", "Successful", "Failure", "InProgress"}


def test_a_job_that_has_stopped_names_the_command_that_goes_on_until_it_does() -> None:
    stopped = job_row(UPGRADE, job(FAILED, task("n3"), phase="Failure", reason="too many"), set())
    assert stopped.resume == "cloudcore upgrade resume up"
    assert job_sentence(stopped) == "NodeUpgradeJob up: Failure: too many"
    alone = jobs_of([stopped])
    assert (alone.sentence, alone.rows[0].next) == ("1 job of nodes: 1 has stopped.", "")
    resumed = job_row(UPGRADE, job(GOING, name=next_name("up")), {"n3"})
    other = job_row(JobKind.IMAGE_PRE_PULL, job(GOING, name=next_name("up")), {"n3"})
    assert jobs_of([stopped, other]).rows[0].next == "", "of another kind"
    both = jobs_of([stopped, resumed])
    assert both.sentence == "2 jobs of nodes: 1 is under way, 1 has ended."
    assert [(row.next, row.resume) for row in both.rows] == [("up-2", ""), ("", "")]
    assert job_row(UPGRADE, job(DONE, phase="Completed"), set()).resume == "", "nothing is left"
    assert job_row(UPGRADE, job(DONE, task("n2"), phase="Completed"), set()).resume, "one was not reached"
    assert [next_name(each) for each in ("x", "x-1", "x-2", "x-98", "x-99")] == [
        "x-2",
        "x-1-2",
        "x-3",
        "x-99",
        "x-99-2",
    ]
    later = msgspec.structs.replace(alone.rows[0], name="y", created=(stopped.created or 0.0) + 1.0)
    assert [row.name for row in jobs_of([stopped, later, msgspec.structs.replace(later, name="z")]).rows] == [
        "y", "z", "up",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "spec", "about"),
    [
        (UPGRADE, {"version": "v1.1.0"}, "v1.1.0"),
        (JobKind.IMAGE_PRE_PULL, {"imagePrePullTemplate": {"images": ["a", "b", "c", "d"]}}, "a, b, c and 1 more"),
        (JobKind.IMAGE_PRE_PULL, {"imagePrePullTemplate": {"images": "a"}}, ""),
        (JobKind.CONFIG_UPDATE, {"updateFields": {"b.c": "1", "a": "secret"}}, "a, b.c"),
        (UPGRADE, {"version": "v" * 3000}, "v" * 500),
    ],
)
def test_a_job_says_what_it_is_about_without_values(kind: JobKind, spec: Json, about: str) -> None:
    assert job_row(kind, {"metadata": {"name": "x"}, "spec": spec}, set()).about == about


def flow(*actions: str, ok: bool = True) -> list[Json]:
    """Return actions that have ended, the last one with a result."""
    return [
        {"action": each, "status": str(ok or each != actions[-1]), "time": f"2026-11-27T10:0{number}:00Z"}
        for number, each in enumerate(actions)
    ]


@pytest.mark.parametrize(
    ("given", "expected", "is_changing"),
    [
        ({}, ("Check", None, "", "1.1.0"), False),
        ({"actionFlow": flow("Check")}, ("WaitingConfirmation", 0, "", "1.1.0"), False),
        ({"actionFlow": flow("Check", "WaitingConfirmation")}, ("BackUp", 1, "", "1.1.0"), True),
        ({"actionFlow": flow("Check", "WaitingConfirmation", "BackUp"), "currentVersion": "1.0.0"},
         ("Upgrade", 2, "1.0.0", "1.1.0"), True),
        ({"actionFlow": flow("Check", "Upgrade", ok=False), "historicVersion": "1.0.0", "currentVersion": "1.0.0"},
         ("RollBack", 1, "1.0.0", "1.1.0"), True),
        ({"actionFlow": flow("Check", "Upgrade"), "historicVersion": "1.0.0", "currentVersion": "1.1.0",
          "phase": "Successful"}, ("Upgrade", 1, "1.0.0", "1.1.0"), False),
        ({"actionFlow": flow("Upgrade", "RollBack"), "historicVersion": "1.0.0", "currentVersion": "1.0.0",
          "phase": "Failure"}, ("RollBack", 1, "1.0.0", "1.0.0"), False),
        ({"actionFlow": flow("Check", ok=False), "phase": "Failure"}, ("Check", 0, "", ""), False),
        ({"phase": "Pending"}, ("", None, "", "1.1.0"), False),
        ({"actionFlow": flow("Later")}, ("Later", 0, "", "1.1.0"), False),
    ],
)  # fmt: skip
def test_step_and_versions_are_those_of_the_moment(given: Json, expected: tuple[Any, ...], is_changing: bool) -> None:
    """The step that is under way, since the end of the one before."""
    made = job({"nodeName": "n1", "phase": "InProgress", **given})
    (found,) = job_nodes(UPGRADE, made, None)
    since = None if found.since is None else (found.since - 1795773600.0) / 60
    assert (found.step, since, found.before, found.after) == expected
    row = job_row(UPGRADE, made, None)
    assert row.changing == (("n1",) if is_changing else ())
    assert changes_under_way([row]) == ({"n1": "it is being upgraded by NodeUpgradeJob up"} if is_changing else {})


def test_a_job_that_waits_for_its_confirmation_changes_nothing_yet() -> None:
    made = job({"nodeName": "n1", "phase": "InProgress", "actionFlow": flow("Check", "WaitingConfirmation")})
    made["spec"]["requireConfirmation"] = True
    assert (job_nodes(UPGRADE, made, None)[0].step, job_row(UPGRADE, made, None).changing) == (
        "WaitingConfirmation",
        (),
    )


def test_nodes_that_a_job_has_left_get_no_version() -> None:
    assert job_nodes(UPGRADE, job(FAILED, task("n3"), phase="Failure"), None)[1].after == ""


@pytest.mark.parametrize(
    ("reason", "is_denied"),
    [
        ("this node's owner does not let jobs set modules.edged.enable (modules.taskManager.allowedKeys)", True),
        ("this node's owner does not allow ConfigUpdateJobs (modules.taskManager.allowedJobs)", True),
        ("modules.taskManager.enable is the owner's of this node: no job may set it", True), ("no room", False),
    ],
)  # fmt: skip
def test_what_the_owner_of_a_node_denies_is_not_resumed(reason: str, is_denied: bool) -> None:
    """Another job would have the same answer there; with a node that has failed otherwise it goes on."""
    denied = task("n1", "Failure", reason, "Check")
    assert (job_row(JobKind.CONFIG_UPDATE, job(denied, phase="Failure"), set()).resume == "") is is_denied
    assert job_row(JobKind.CONFIG_UPDATE, job(denied, FAILED, phase="Failure"), set()).resume


def test_a_story_has_the_troubled_nodes_first_and_finds_the_others() -> None:
    made = job(DONE, task("n0"), GOING, FAILED)
    story = job_story(UPGRADE, made, {"n0"})
    assert [each.node for each in story.nodes] == ["n2", "n3", "n0", "n1"]
    assert (story.nodes[0].reason, story.nodes[0].step, story.nodes[0].since) == ("no room", "Check", 1795773900.0)
    assert [each.node for each in job_story(UPGRADE, made, set(), "ROOM failure").nodes] == ["n2"]
    assert job_story(UPGRADE, made, set(), "room away").nodes == []


def test_a_job_of_ten_thousand_nodes_is_a_short_answer() -> None:
    """Whatever is written into its status: a cluster's API server may have taken more than cloudcore writes."""
    tasks = [task(f"n{number:0250}", "Failure", "\x00" * 2048, "Check") for number in range(10_000)]
    story = job_story(UPGRADE, job(*tasks, waves=",".join(map(str, range(1, 101)))), set())
    assert (len(story.nodes), story.more, len(story.row.waves)) == (MOST_NODES, 10_000 - MOST_NODES, 101)
    assert len(msgspec.json.encode(story)) < 1_500_000
    told = job_story(
        UPGRADE, job(task("n1", "Failure", "x" * 9000, "Check"), phase="Failure", reason="y" * 9000), set()
    )
    assert (len(told.nodes[0].reason), len(told.row.reason)) == (500, 500)
    many = jobs_of(job_row(UPGRADE, job(name=f"up{number}"), set()) for number in range(MOST_JOBS + 5))
    assert (len(many.rows), many.more) == (MOST_JOBS, 5)


@pytest.mark.parametrize("status", [None, 7, {"nodeStatus": "x"}, {"phase": 3}])
def test_a_status_that_cannot_be_read_has_not_begun(status: object) -> None:
    row = job_row(UPGRADE, {"metadata": {"name": "up"}, "status": status}, set())
    assert (job_sentence(row), row.counts, row.created) == ("NodeUpgradeJob up: has not begun", JobCounts(), None)
