"""ConfigUpdateJobs on a node: their program, restarts in the middle, and the keys that no cloud can set."""

from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.node_jobs import API_VERSION
from modules.edge.taskmanager.programs import LOST, ProgramEnd
from modules.edge.taskmanager.settings_updates import INTERRUPTED, NO_FILE, SettingsState
from tests.modules.edge.taskmanager.jobs import ROW, FakeConfiguration, Node

Json = dict[str, Any]
JOB = "configupdatejob/conf-1"
KEYS = ("modules.edgeHub.heartbeat", "modules.edged.tailoredKubeletConfig.maxPods")
FIELDS = {KEYS[0]: "20", KEYS[1]: "50"}
SPEC: Json = {"nodeNames": ["n1"], "timeoutSeconds": 60, "updateFields": FIELDS, "failureTolerate": "0.1"}


def row(action: str) -> Json:
    """A job that was under way."""
    return {"resource": f"{API_VERSION}/{JOB}/node/n1", "spec": SPEC, "action": action}


def test_the_owners_command_checks_the_settings_and_then_sets_them(bee: Harness) -> None:
    """In one change; the keys in any case, as in the file."""
    configuration = FakeConfiguration()
    node = Node(bee, configuration=configuration, keys=(KEYS[0].lower(), KEYS[1]))
    node.job(JOB, SPEC, wait=60)
    assert configuration.begun == [(FIELDS, True), (FIELDS, False)]
    assert node.ends() == [("Check", True, ""), ("BackUp", True, ""), ("Update", True, "")]
    assert ROW not in node.rows


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("modules.edgeHub.token", "does not let jobs set modules.edgeHub.token"),
        ("modules.edgeHub", "does not let jobs set"),
        (f"{KEYS[0]}2", "does not let jobs set"),
        ("--config", "does not let jobs set"),
        ("upgrade.trustedKeys", "no job may set it"),
        ("Modules.TaskManager.allowedKeys", "no job may set it"),
    ],
)
def test_a_key_that_is_not_a_jobs_ends_it(bee: Harness, key: str, reason: str) -> None:
    """Also where the owner lists what opens the node to the cloud."""
    configuration = FakeConfiguration()
    node = Node(
        bee, configuration=configuration, keys=(*KEYS, "upgrade.trustedKeys", "modules.taskManager.allowedKeys")
    )
    node.job(JOB, {**SPEC, "updateFields": {**FIELDS, key: "x"}}, wait=10)
    assert reason in node.failure("Check")
    assert configuration.begun == []


def test_a_job_without_settings_and_a_node_without_a_file(bee: Harness) -> None:
    configuration = FakeConfiguration()
    node = Node(bee, configuration=configuration, keys=KEYS)
    node.job(JOB, {"nodeNames": ["n1"]}, wait=10)
    configuration.now = None
    node.job(JOB, SPEC, wait=10)
    assert node.ends() == [("Check", False, "the job names no setting"), ("Check", False, NO_FILE)]


def test_a_value_that_the_command_refuses_ends_the_job_with_its_words(bee: Harness) -> None:
    configuration = FakeConfiguration()
    configuration.ends[True] = ProgramEnd(3, "modules.edgeHub.heartbeat: got another value")
    node = Node(bee, configuration=configuration, keys=KEYS)
    node.job(JOB, SPEC, wait=10)
    assert node.ends() == [("Check", False, "modules.edgeHub.heartbeat: got another value")]
    assert configuration.begun == [(FIELDS, True)]


@pytest.mark.parametrize(
    ("then", "ends"),
    [
        (SettingsState(is_set=True, is_under_way=False), [("Update", True, "")]),
        (
            SettingsState(is_set=False, is_under_way=False, report="not well within 600 s"),
            [("Update", False, "not well within 600 s"), ("RollBack", True, "")],
        ),
        (SettingsState(is_set=False, is_under_way=False), [("Update", False, INTERRUPTED), ("RollBack", True, "")]),
    ],
)
def test_the_edgecore_that_was_restarted_by_the_change_reports_its_end(
    bee: Harness, then: SettingsState, ends: list[tuple[str, bool, str]]
) -> None:
    """At the end of the probation. KubeEdge's job ends by its time-out: the restart ends whoever would report."""
    configuration = FakeConfiguration()
    configuration.now = SettingsState(is_set=False, is_under_way=True)
    node = Node(bee, configuration=configuration, keys=KEYS, row=row("Update"))
    bee.run_for(600)
    assert node.ends() == []
    configuration.now = then
    bee.run_for(10)
    assert node.ends() == ends
    assert configuration.begun == []
    assert ROW not in node.rows


def test_a_key_that_the_owner_has_taken_back_is_not_set_after_a_restart(bee: Harness) -> None:
    configuration = FakeConfiguration()
    node = Node(bee, configuration=configuration, keys=KEYS[:1], row=row("BackUp"))
    bee.run_for(10)
    assert [(action, succeeded) for action, succeeded, _ in node.ends()] == [
        ("BackUp", True), ("Update", False), ("RollBack", True)
    ]  # fmt: skip
    assert configuration.begun == []


def test_a_node_that_has_the_settings_is_ready(bee: Harness) -> None:
    configuration = FakeConfiguration()
    configuration.now = SettingsState(is_set=True, is_under_way=False)
    node = Node(bee, configuration=configuration, keys=KEYS)
    node.job(JOB, SPEC, wait=10)
    assert [succeeded for _, succeeded, _ in node.ends()] == [True] * 3
    assert [only_check for _, only_check in configuration.begun] == [True]


def test_a_change_that_another_has_begun_is_not_waited_for(bee: Harness) -> None:
    """The command refuses, and the job ends with its words: nothing of it is done later, when nobody expects it."""
    configuration = FakeConfiguration()
    configuration.now = SettingsState(is_set=False, is_under_way=True)
    configuration.ends[False] = ProgramEnd(11, "the configuration is on probation")
    node = Node(bee, configuration=configuration, keys=KEYS)
    node.job(JOB, SPEC, wait=60)
    assert node.ends()[2:] == [("Update", False, "the configuration is on probation")]
    configuration.now = SettingsState(is_set=False, is_under_way=False)
    bee.run_for(10)
    assert node.ends()[3:] == [("RollBack", True, "")]
    assert [only_check for _, only_check in configuration.begun] == [True, False]


def test_no_action_begins_before_the_store_has_what_was_done(bee: Harness) -> None:
    """A restart would begin with the one before."""
    configuration = FakeConfiguration()
    configuration.ends[True] = None
    node = Node(bee, configuration=configuration, keys=KEYS)
    node.job(JOB, SPEC, wait=10)
    node.is_silent = True
    configuration.ends[True] = ProgramEnd(0, "")
    bee.run_for(30)
    assert node.ends() == [("Check", True, "")]


@pytest.mark.parametrize(("seconds", "waits"), [(60, 900), (3600, 3600)])
def test_a_change_whose_updater_is_lost_is_followed_for_a_bounded_time(bee: Harness, seconds: int, waits: int) -> None:
    """Else the node would be busy until it starts again, and take no other job."""
    configuration = FakeConfiguration()
    configuration.now = SettingsState(is_set=False, is_under_way=True)
    spec = {**SPEC, "timeoutSeconds": seconds}
    node = Node(bee, configuration=configuration, keys=KEYS, row={**row("Update"), "spec": spec})
    bee.run_for(waits - 5)
    assert node.ends() == []
    bee.run_for(waits + 10)
    assert node.ends() == [("Update", False, LOST), ("RollBack", False, LOST)]
    assert ROW not in node.rows
