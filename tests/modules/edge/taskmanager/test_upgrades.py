"""NodeUpgradeJobs on a node: their program, restarts in the middle, confirmation, and what a cloud cannot do."""

from typing import Any

import pytest

from beehive import ModuleName
from beehive.testing import Harness
from modules.apimachinery.node_jobs import API_VERSION, LONGEST_REASON
from modules.edge.taskmanager.checks import MachineReading
from modules.edge.taskmanager.owner import OWNER, RESOURCE, JobShown, OwnerVerb
from modules.edge.taskmanager.programs import LOST, ProgramEnd
from modules.edge.taskmanager.upgrades import INTERRUPTED, NOT_INSTALLED, UpgradeState
from tests.modules.edge.taskmanager.jobs import ROW, FakeConfiguration, FakeUpgrades, Node

Json = dict[str, Any]
JOB = "nodeupgradejob/up-1"
SPEC: Json = {"version": "v1.1.0", "nodeNames": ["n1"], "image": "x", "imageDigestGatter": None}
FLOW = ["Check", "WaitingConfirmation", "BackUp", "Upgrade"]


def row(action: str, **fields: Any) -> Json:
    """A job that was under way."""
    return {"resource": f"{API_VERSION}/{JOB}/node/n1", "spec": SPEC, "action": action, **fields}


def test_an_upgrade_checks_first_and_then_runs_the_owners_command(bee: Harness) -> None:
    """By the version alone: image and digest are no source. BackUp names what runs, as the second, as keadm does."""
    upgrades = FakeUpgrades()
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=60)
    assert upgrades.begun == [("1.1.0", True), ("1.1.0", False)]
    assert [(action, succeeded) for action, succeeded, _ in node.ends()] == [(each, True) for each in FLOW]
    assert node.reports()[2]["extend"] == ",1.0.0"
    assert node.reports()[3]["extend"] == "1.0.0,1.1.0"
    assert ROW not in node.rows


def test_the_job_that_is_under_way_is_told_all_that_was_reported(bee: Harness) -> None:
    """A cloud that sends it again may have none of the reports."""
    upgrades = FakeUpgrades()
    upgrades.ends[False] = None
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC)
    bee.run_for(60)
    told = node.reports()
    assert [each["action"] for each in told] == FLOW[:-1]
    node.job(JOB, SPEC)
    bee.run_for(1)
    assert node.reports() == [*told, *told]


def test_a_bundle_that_is_refused_ends_the_job_with_the_commands_words(bee: Harness) -> None:
    upgrades = FakeUpgrades()
    upgrades.ends[True] = ProgramEnd(11, "the bundle is signed by none of the keys in upgrade.trustedKeys")
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=60)
    assert node.ends() == [("Check", False, "the bundle is signed by none of the keys in upgrade.trustedKeys")]
    assert upgrades.begun == [("1.1.0", True)]


@pytest.mark.parametrize(
    ("end", "why"), [(ProgramEnd(11, "x" * 9000), "x" * LONGEST_REASON), (ProgramEnd(-9, ""), "exit status -9")]
)
def test_a_program_that_fails_ends_the_job_whatever_it_says(bee: Harness, end: ProgramEnd, why: str) -> None:
    upgrades = FakeUpgrades()
    upgrades.ends[True] = end
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=60)
    assert node.ends() == [("Check", False, why)]


@pytest.mark.parametrize("job", ["nodeupgradejob/p", "configupdatejob/p"])
def test_nothing_begins_on_a_machine_without_room(bee: Harness, job: str) -> None:
    upgrades, configuration = FakeUpgrades(), FakeConfiguration()
    node = Node(bee, upgrades=upgrades, configuration=configuration, keys=("a.b",))
    node.machine.used = MachineReading(0, 0, 1, 0.9, {})
    node.job(job, {**SPEC, "checkItems": ["mem"], "updateFields": {"a.b": "1"}}, wait=60)
    assert "90% of the memory" in node.failure("Check")
    assert (upgrades.begun, configuration.begun) == ([], [])


@pytest.mark.parametrize("action", ["BackUp", "RollBack"])
def test_a_node_whose_installation_is_gone_says_so(bee: Harness, action: str) -> None:
    upgrades = FakeUpgrades()
    upgrades.now = None
    node = Node(bee, upgrades=upgrades, row=row(action))
    bee.run_for(10)
    assert node.ends()[0] == (action, False, NOT_INSTALLED)


def test_a_version_that_goes_back_fails_and_is_reported_as_rolled_back(bee: Harness) -> None:
    upgrades = FakeUpgrades()
    upgrades.ends[False] = ProgramEnd(11, "back to 1.0.0: it ended 3 times")
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=60)
    assert node.ends()[3:] == [("Upgrade", False, "back to 1.0.0: it ended 3 times"), ("RollBack", True, "")]
    assert node.reports()[4]["extend"] == "1.1.0,1.0.0"


@pytest.mark.parametrize(
    ("then", "ends"),
    [
        (UpgradeState("1.1.0", False, "1.0.0", "1.1.0"), [("Upgrade", True, "")]),  # noqa: FBT003
        (
            UpgradeState("1.0.0", False, "1.0.0", "1.1.0", "not well within 600 s"),  # noqa: FBT003
            [("Upgrade", False, "not well within 600 s"), ("RollBack", True, "")],
        ),
        (
            UpgradeState("1.0.0", False, "0.9.0", "1.0.0", "of the one before"),  # noqa: FBT003
            [("Upgrade", False, INTERRUPTED), ("RollBack", True, "")],
        ),
        (
            UpgradeState("1.0.0", False, "1.0.0", "1.1.0"),  # noqa: FBT003
            [("Upgrade", False, INTERRUPTED), ("RollBack", True, "")],
        ),
    ],
)
def test_an_edgecore_that_was_restarted_by_the_upgrade_reports_its_end(
    bee: Harness, then: UpgradeState, ends: list[tuple[str, bool, str]]
) -> None:
    """The new one and the old one alike, when the updater has done: KubeEdge's reports a start as a success."""
    upgrades = FakeUpgrades()
    upgrades.now = UpgradeState("1.1.0", is_under_way=True, origin="1.0.0", target="1.1.0")
    node = Node(bee, upgrades=upgrades, row=row("Upgrade"))
    bee.run_for(600)
    assert node.ends() == []
    upgrades.now = then
    bee.run_for(10)
    assert node.ends() == ends
    assert upgrades.begun == []
    assert ROW not in node.rows


@pytest.mark.parametrize("current", ["1.0.0", "1.1.0"])
def test_an_upgrade_that_another_has_begun_is_not_waited_for(bee: Harness, current: str) -> None:
    """To whatever version: the command refuses, and the job ends with its words."""
    upgrades = FakeUpgrades()
    upgrades.now = UpgradeState(current, is_under_way=True, origin="1.0.0", target="1.1.0")
    upgrades.ends[False] = ProgramEnd(11, "1.1.0 is on probation")
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=60)
    assert node.ends()[3:] == [("Upgrade", False, "1.1.0 is on probation")]
    assert upgrades.begun == [("1.1.0", True), ("1.1.0", False)]
    upgrades.now = UpgradeState("1.0.0", is_under_way=False)
    bee.run_for(10)
    assert node.ends()[4:] == [("RollBack", True, "")]


def test_a_node_with_the_version_is_ready(bee: Harness) -> None:
    """So a job that comes again changes nothing."""
    upgrades = FakeUpgrades()
    upgrades.now = UpgradeState("1.1.0", is_under_way=False)
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=10)
    assert [succeeded for _, succeeded, _ in node.ends()] == [True] * 4
    assert node.reports()[3]["extend"] == "1.1.0,1.1.0"
    assert upgrades.begun == []


def test_a_job_waits_for_the_owner_where_it_says_so(bee: Harness) -> None:
    """Once; and no message of the link confirms it (`edgehub.dispatch`)."""
    upgrades = FakeUpgrades()
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, {**SPEC, "requireConfirmation": True}, wait=600)
    assert [action for action, _, _ in node.ends()] == FLOW[:2]

    def ask(verb: OwnerVerb) -> JobShown:
        asked = bee.message(RESOURCE, verb, source=OWNER)
        return bee.ask(ModuleName.TASKMANAGER, asked).content_as(JobShown)

    shown = ask(OwnerVerb.SHOW)
    assert (shown.action, shown.is_waiting) == ("BackUp", True)
    bee.send(ModuleName.TASKMANAGER, bee.message(RESOURCE, OwnerVerb.CONFIRM, source="websocket"))
    assert node.rows[ROW]["isWaiting"]
    assert ask(OwnerVerb.CONFIRM).resource.endswith("up-1/node/n1")
    assert not node.rows[ROW]["isWaiting"], "a restart does not ask again"
    assert ask(OwnerVerb.CONFIRM) == JobShown()
    bee.run_for(60)
    assert [action for action, _, _ in node.ends()] == FLOW
    assert ask(OwnerVerb.SHOW) == JobShown()


def test_a_job_that_waits_still_waits_after_a_restart_and_gives_way_to_another(bee: Harness) -> None:
    """Else one that the cloud has given up would hold up all others."""
    upgrades = FakeUpgrades()
    node = Node(bee, upgrades=upgrades, row=row("BackUp", isWaiting=True))
    bee.run_for(600)
    assert (node.ends(), upgrades.begun) == ([], [])
    node.job("nodeupgradejob/up-2", SPEC, wait=60)
    assert [each["job"] for each in node.reports()] == ["up-2"] * 4


def test_a_job_that_comes_before_the_store_answers_begins_once(bee: Harness) -> None:
    upgrades = FakeUpgrades()
    upgrades.ends[True] = None
    node = Node(bee, upgrades=upgrades, is_silent=True)
    node.job(JOB, SPEC)
    node.is_silent = False
    bee.run_for(100)
    assert upgrades.begun == [("1.1.0", True)]


def test_a_job_gives_way_as_soon_as_it_waits_for_the_owner(bee: Harness) -> None:
    node = Node(bee, upgrades=FakeUpgrades())
    node.job(JOB, {**SPEC, "requireConfirmation": True})
    node.job("nodeupgradejob/up-2", SPEC, wait=600)
    assert [(each["job"], each["action"]) for each in node.reports()] == [
        *(("up-1", action) for action in FLOW[:2]),
        *(("up-2", action) for action in FLOW),
    ]
    assert ROW not in node.rows


def test_a_late_refusal_of_the_store_does_not_end_the_next_job(bee: Harness) -> None:
    """The first one waits, but its record is not answered."""
    node = Node(bee, upgrades=FakeUpgrades())
    node.job(JOB, {**SPEC, "requireConfirmation": True})
    while node.history[-1]["action"] != "WaitingConfirmation":
        bee.run_for(0.1)
    node.is_silent = True
    bee.run_for(1)
    node.is_silent = False
    node.job("nodeupgradejob/up-2", {**SPEC, "requireConfirmation": True}, wait=600)
    assert [(each["job"], each["action"], each["succ"]) for each in node.reports()] == [
        (name, action, True) for name in ("up-1", "up-2") for action in FLOW[:2]
    ]
    assert node.rows[ROW]["isWaiting"]


def test_a_job_that_was_made_again_is_not_the_one_that_waits(bee: Harness) -> None:
    """Of the same name: the owner would confirm one version, and get the one of the deleted job."""
    upgrades = FakeUpgrades()
    node = Node(bee, upgrades=upgrades)
    first, second = ({**SPEC, "version": each, "requireConfirmation": True} for each in ("v1.1.0", "v1.2.0"))
    node.job(JOB, first, wait=60)
    node.job(JOB, first)  # comes again, with a new connection
    bee.run_for(60)
    assert [action for action, _, _ in node.ends()] == FLOW[:2] * 2
    node.job(JOB, second, wait=60)
    assert [action for action, _, _ in node.ends()] == FLOW[:2] * 3
    bee.ask(ModuleName.TASKMANAGER, bee.message(RESOURCE, OwnerVerb.CONFIRM, source=OWNER))
    bee.run_for(60)
    assert upgrades.begun == [("1.1.0", True), ("1.2.0", True), ("1.2.0", False)]


def test_a_job_that_was_made_again_does_not_end_the_one_that_runs(bee: Harness) -> None:
    """It fails at once; the images of the first are pulled."""
    node = Node(bee)
    node.job("imageprepulljob/p", {"imagePrePullTemplate": {"images": ["docker.io/library/a:1"], "nodeNames": ["n1"]}})
    node.job("imageprepulljob/p", {"imagePrePullTemplate": {"images": ["docker.io/library/b:1"], "nodeNames": ["n1"]}})
    bee.run_for(10)
    assert ("Check", False, "busy with p") in node.ends()
    assert [image.repo_tags[0] for image in node.runtime.list_images()] == ["docker.io/library/a:1"]


@pytest.mark.parametrize(
    "version", ["", "latest", "../../etc", "1.1.0 --allow-downgrade", "-x", "v1.1.0\n", "v" + "1" * 99]
)
def test_a_version_is_no_path_and_no_option(bee: Harness, version: str) -> None:
    """Of KubeEdge, versions and images went into a shell (CVE-2026-62371)."""
    upgrades = FakeUpgrades()
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, {**SPEC, "version": version}, wait=10)
    assert "no version of edgecore" in node.failure("Check")
    assert upgrades.begun == []


def test_an_edgecore_in_no_installation_takes_no_upgrade(bee: Harness) -> None:
    upgrades = FakeUpgrades()
    upgrades.now = None
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=10)
    assert node.ends() == [("Check", False, NOT_INSTALLED)]


def test_a_program_that_does_not_start_ends_the_job(bee: Harness) -> None:
    upgrades = FakeUpgrades()
    upgrades.cannot_start = True
    node = Node(bee, upgrades=upgrades)
    node.job(JOB, SPEC, wait=10)
    assert "Permission denied" in node.failure("Check")


def test_without_the_owners_word_nothing_is_started(bee: Harness) -> None:
    """The kind must be in `modules.taskManager.allowedJobs`."""
    upgrades = FakeUpgrades()
    node = Node(bee, upgrades=upgrades, allowed=("ImagePrePullJob",))
    node.job(JOB, SPEC, wait=10)
    assert [each[:2] for each in node.ends()] == [("Check", False)]
    assert upgrades.begun == []


def test_an_upgrade_whose_updater_is_lost_is_followed_for_a_bounded_time(bee: Harness) -> None:
    upgrades = FakeUpgrades()
    upgrades.now = UpgradeState("1.1.0", is_under_way=True, origin="1.0.0", target="1.1.0")
    node = Node(bee, upgrades=upgrades, row=row("Upgrade"))
    bee.run_for(895)
    assert node.ends() == []
    bee.run_for(920)
    assert node.ends() == [("Upgrade", False, LOST), ("RollBack", False, LOST)]
    assert ROW not in node.rows
