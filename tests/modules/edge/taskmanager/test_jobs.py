"""Jobs of the cloud on a node: their order, their reports, restarts, and what is refused."""

import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beehive import Group, ModuleName
from beehive.names import CLOUD_CONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from edgehub import install
from edgehub.settings import EdgeHubSettings
from modules.apimachinery.node_jobs import API_VERSION
from modules.edge.taskmanager import module as taskmanager
from modules.edge.taskmanager.checks import MachineReading, fault_of
from modules.edge.taskmanager.module import LONGEST_SPEC, MOST_FOLLOWING, REPORT_GAP, TaskManager, TaskManagerSettings
from modules.edge.taskmanager.owner import OWNER, JobShown, OwnerVerb
from modules.edge.taskmanager.pulls import DEADLINE, FAILED, FIRST_DELAY, LONGEST_DELAY
from modules.edge.taskmanager.record import read_record
from modules.edge.taskmanager.refusals import REASON, refusal_of
from modules.lab.doubles.memory_cloud import MemoryCloud
from tests.modules.edge.taskmanager.jobs import ROW, FakeMachine, Node
from tests.support.failing import Failing

Json = dict[str, Any]
IMAGE, OTHER = "docker.io/library/busybox:latest", "registry.example/app:1"
NOW = "2026-11-20T16:45:54Z"
CONFIG = {"nodeNames": ["n1"], "timeoutSeconds": 60, "updateFields": {"modules.edgeHub.heartbeat": "20"}}
UPGRADE = {"version": "v1.24.0", "nodeNames": ["n1"], "imageDigestGatter": None, "requireConfirmation": True}


def pull(*images: str, **fields: Any) -> Json:
    """The spec of an ImagePrePullJob."""
    return {"imagePrePullTemplate": {"images": list(images), "nodeNames": ["n1"], **fields}}


def images_of(node: Node) -> list[Json]:
    """The images in the last report."""
    found: list[Json] = json.loads(node.reports()[-1]["extend"])
    return found


def test_images_are_pulled_and_each_action_is_reported(bee: Harness) -> None:
    """As in KubeEdge's recording; the row is in the store before each action, and gone at the end."""
    node = Node(bee)
    node.job("imageprepulljob/pull-ok", pull(IMAGE, OTHER, checkItems=["disk", "mem"]), wait=10)
    assert node.ends() == [("Check", True, ""), ("Pull", True, "")]
    assert images_of(node) == [{"image": IMAGE, "status": "True"}, {"image": OTHER, "status": "True"}]
    assert [row and row["action"] for row in node.history] == ["Check", "Pull", None]
    assert [image.repo_tags[0] for image in node.runtime.list_images()] == [IMAGE, OTHER]


def test_a_job_is_in_the_store_until_its_last_report_is(bee: Harness) -> None:
    """Both are written by other modules: a kill between them would leave a job without an end in the cloud."""
    node = Node(bee)
    node.have(IMAGE)
    node.job("imageprepulljob/a", pull(IMAGE), wait=REPORT_GAP * 1.5)
    assert node.ends() == [("Check", True, ""), ("Pull", True, "")]
    assert node.rows[ROW]["action"] == "Pull"
    node.job("imageprepulljob/a", pull(IMAGE))
    node.job("imageprepulljob/b", pull(IMAGE))
    assert [each["action"] for each in node.reports()[2:]] == ["Check", "Pull"], "the same one again"
    assert [each["resource"] for each in node.rows[ROW]["following"]] == [f"{API_VERSION}/imageprepulljob/b/node/n1"]
    bee.run_for(REPORT_GAP)
    assert node.rows[ROW]["resource"] == f"{API_VERSION}/imageprepulljob/b/node/n1"
    bee.run_for(10)
    assert [each["job"] for each in node.reports()[4:]] == ["b", "b"]
    assert ROW not in node.rows
    assert not any(each["following"] for each in node.history if each and "/b/" in each["resource"]), "it is b itself"


def test_no_two_reports_come_together(bee: Harness) -> None:
    """Of two that did, KubeEdge's cloud took the last one first."""
    node = Node(bee)
    node.have(IMAGE)
    node.job("imageprepulljob/p", pull(IMAGE), wait=REPORT_GAP / 2)
    assert node.ends() == [("Check", True, "")]
    bee.run_for(REPORT_GAP)
    assert node.ends() == [("Check", True, ""), ("Pull", True, "")]


def test_an_image_that_cannot_be_pulled_fails_the_job_with_its_reason(bee: Harness) -> None:
    """The others are pulled; it is tried again only as often as the job says."""
    node = Node(bee)
    node.cannot_pull(2)
    node.job("imageprepulljob/p", pull(IMAGE, OTHER, retryTimes=1), wait=60)
    assert node.ends() == [("Check", True, ""), ("Pull", False, FAILED)]
    first, second = images_of(node)
    assert (first["image"], first["status"], second) == (IMAGE, "False", {"image": OTHER, "status": "True"})
    assert "no route" in first["reason"]


def test_a_pull_is_tried_again_soon_and_only_where_the_job_says_so(bee: Harness) -> None:
    node = Node(bee)
    node.cannot_pull(1)
    node.job("imageprepulljob/p", pull(IMAGE, retryTimes=1), wait=REPORT_GAP + FIRST_DELAY - 0.1)
    assert node.ends() == [("Check", True, "")]
    bee.run_for(0.2)
    assert node.ends()[-1] == ("Pull", True, "")
    node.cannot_pull(1)
    node.job("imageprepulljob/q", pull(OTHER), wait=60)
    assert node.ends()[-1] == ("Pull", False, FAILED)


def test_pulls_are_tried_again_until_the_time_of_the_job_is_over(bee: Harness) -> None:
    node = Node(bee)
    node.cannot_pull(3)
    node.job("imageprepulljob/p", pull(IMAGE, retryTimes=3), wait=60)
    assert node.ends()[-1] == ("Pull", True, "")
    node.runtime.remove_image(node.runtime.list_images()[0].spec)
    node.cannot_pull(1000)
    node.job("imageprepulljob/q", pull(OTHER, retryTimes=100, timeoutSeconds=200), wait=200 + LONGEST_DELAY)
    assert images_of(node) == [{"image": OTHER, "status": "False", "reason": "the time of the job is over"}]
    assert DEADLINE > 200


def test_an_image_that_is_here_is_not_pulled_again(bee: Harness) -> None:
    node = Node(bee)
    node.have(IMAGE)
    node.cannot_pull(1)
    node.job("imageprepulljob/p", pull(IMAGE), wait=1)
    assert node.ends()[-1] == ("Pull", True, "")


def test_an_image_is_pulled_once_and_one_that_has_no_name_ends_no_other(bee: Harness) -> None:
    node = Node(bee)
    node.job("imageprepulljob/p", pull("NO NAME", OTHER, OTHER), wait=1)
    assert [(each["image"], each["status"]) for each in images_of(node)] == [("NO NAME", "False"), (OTHER, "True")]
    assert node.runtime.calls["pull_image"] == 1


def test_the_tries_of_an_image_are_bounded(bee: Harness) -> None:
    node = Node(bee)
    node.cannot_pull()
    node.job("imageprepulljob/p", pull(IMAGE, retryTimes=2**31 - 1, timeoutSeconds=2**31 - 1), wait=102 * LONGEST_DELAY)
    assert node.runtime.calls["pull_image"] == 101


@pytest.mark.parametrize(("first", "pulls"), [(b"x:y", 2), (b"u:p", 1)])
def test_credentials_are_tried_one_after_the_other_until_one_is_taken(bee: Harness, first: bytes, pulls: int) -> None:
    """Those of the longest path first."""
    entries = {"registry.example/app": first, "registry.example": b"u:p"}
    auths = {"auths": {name: {"auth": b64encode(pair).decode()} for name, pair in entries.items()}}
    data = {".dockerconfigjson": b64encode(json.dumps(auths).encode()).decode()}
    node = Node(bee)
    node.rows["default/secret/cred"] = {"type": "kubernetes.io/dockerconfigjson", "data": data}
    node.runtime.locked = {OTHER: ("u", "p")}
    node.job("imageprepulljob/p", pull(OTHER, imageSecrets="default/cred"), wait=1)
    assert node.ends()[-1] == ("Pull", True, "")
    assert node.runtime.calls["pull_image"] == pulls


@pytest.mark.parametrize("host", ["registry.example", "https://registry.example/v2/"])
def test_the_pull_secret_is_chosen_by_its_registry(bee: Harness, host: str) -> None:
    """KubeEdge's edge reads a dockerconfigjson as if it were the credentials, and pulls without any."""
    entries = {host: b"u:p", "other.example": b"x:y"}
    auths = {"auths": {name: {"auth": b64encode(pair).decode()} for name, pair in entries.items()}}
    secret = {
        "metadata": {"name": "cred", "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(json.dumps(auths).encode()).decode()},
    }
    node = Node(bee)
    node.rows["default/secret/cred"] = secret
    node.runtime.locked = {OTHER: ("u", "p")}
    node.job("imageprepulljob/p", pull(OTHER, imageSecrets="default/cred"), wait=1)
    assert node.ends()[-1] == ("Pull", True, "")


@pytest.mark.parametrize(
    ("reference", "secret", "reason"),
    [
        ("default/gone", None, "the pull secret cannot be had"),
        ("cred", None, "imageSecrets is not NAMESPACE/NAME"),
        ("a/b/c", None, "imageSecrets is not NAMESPACE/NAME"),
        ("default/cred", {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "AAAA"}}, "read"),
    ],
)
def test_a_pull_secret_that_cannot_be_used_fails_the_pull(
    bee: Harness, reference: str, secret: Json | None, reason: str
) -> None:
    """With a reason that quotes nothing of it."""
    node = Node(bee)
    if secret is not None:
        node.rows["default/secret/cred"] = {"metadata": {"name": "cred", "namespace": "default"}, **secret}
    node.job("imageprepulljob/p", pull(OTHER, imageSecrets=reference), wait=1)
    action, succeeded, why = node.ends()[-1]
    assert (action, succeeded) == ("Pull", False)
    assert reason in why
    assert "AAAA" not in why


@pytest.mark.parametrize(
    ("item", "used", "busy"),
    [
        ("cpu", MachineReading(0, 0, 1, 0.1, {"/": 0.2}), 0.81),
        ("mem", MachineReading(0, 0, 1, 0.81, {"/": 0.2}), 0.5),
        ("disk", MachineReading(0, 0, 1, 0.1, {"/": 0.2, "/var/lib/edged": 0.81}), 0.5),
    ],
)
def test_a_machine_without_room_fails_the_check(bee: Harness, item: str, used: MachineReading, busy: float) -> None:
    node = Node(bee)
    node.machine.used, node.machine.busy = used, busy
    node.job("imageprepulljob/p", pull(IMAGE, checkItems=[item]), wait=1)
    assert "81% of" in node.failure("Check")
    assert ROW not in node.rows
    assert node.runtime.list_images() == []


def test_a_machine_that_is_as_full_as_it_may_be_passes_the_check(bee: Harness) -> None:
    node = Node(bee)
    node.machine.used, node.machine.busy = MachineReading(0, 0, 1, 0.8, {"/": 0.8}), 0.8
    node.job("imageprepulljob/p", pull(IMAGE, checkItems=["mem", "disk"]))
    bee.run_for(1)
    assert node.ends()[0] == ("Check", True, "")


def test_few_jobs_wait_until_the_store_tells_of_the_one_under_way(bee: Harness) -> None:
    """The others are told to come again later, and so are those that are too many when it has."""
    node = Node(bee, is_silent=True)
    for number in range(18):
        node.job(f"imageprepulljob/{number}", pull(IMAGE))
    node.job("imageprepulljob/18/node/n2", pull(IMAGE))
    bee.run_for(1)
    refused = [(number, "the node cannot take jobs now") for number in ("16", "17")]
    assert [(each["job"], each["reason"]) for each in node.reports()] == refused
    node.is_silent = False
    bee.run_for(100)
    found = [(each["job"], each["reason"]) for each in node.reports()[2:]]
    taken = [(f"{number}", "") for number in range(MOST_FOLLOWING + 1) for _ in range(2)]
    busy = [(f"{number}", "busy with 0") for number in range(MOST_FOLLOWING + 1, 16)]
    assert sorted(found, key=lambda each: int(each[0])) == taken + busy


def test_a_store_that_refuses_is_asked_again_after_a_while(bee: Harness) -> None:
    """Else both would be busy with nothing else."""
    node = Node(bee, refusals=3)
    node.job("imageprepulljob/p", pull(IMAGE), wait=1)
    assert len(bee.sent_to(ModuleName.METAMANAGER)) == 1
    bee.run_for(20)
    assert node.ends() == [("Check", True, ""), ("Pull", True, "")]


def test_an_unknown_check_item_fails_the_check(bee: Harness) -> None:
    node = Node(bee)
    node.job("imageprepulljob/p", pull(IMAGE, checkItems=["moon"]), wait=1)
    assert [each[:2] for each in node.ends()] == [("Check", False)]


def test_jobs_that_come_together_are_carried_out_one_after_the_other(bee: Harness) -> None:
    """The same one again is told what has been reported; at KubeEdge's node they run at once."""
    node = Node(bee)
    node.runtime.pull_seconds = 10.0
    node.job("imageprepulljob/a", pull(IMAGE), wait=1)
    for job, image in (("b", OTHER), ("c", IMAGE), ("b", OTHER)):
        node.job(f"imageprepulljob/{job}", pull(image))
    node.job("imageprepulljob/b", pull(IMAGE))
    node.job("imageprepulljob/a", pull(IMAGE), wait=40)
    found = [(each["job"], each["action"], each["succ"], each["reason"]) for each in node.reports()]
    assert found == [
        ("a", "Check", True, ""),
        ("b", "Check", False, "busy with a"),  # made again, with another image
        ("a", "Check", True, ""),
        *((job, action, True, "") for job in "abc" for action in ("Check", "Pull") if (job, action) != ("a", "Check")),
    ]
    assert [image.repo_tags[0] for image in node.runtime.list_images()] == [IMAGE, OTHER]
    assert ROW not in node.rows


def test_few_jobs_wait_for_another(bee: Harness) -> None:
    """The others are told by which."""
    node = Node(bee)
    node.runtime.pull_seconds = 10.0
    for number in range(MOST_FOLLOWING + 2):
        node.job(f"imageprepulljob/{number}", pull(IMAGE))
    bee.run_for(5)
    failed = [(each["job"], each["reason"]) for each in node.reports() if not each["succ"]]
    assert failed == [(str(MOST_FOLLOWING + 1), "busy with 0")]


def test_jobs_that_wait_begin_after_a_restart_where_the_owner_allows_them_still(bee: Harness) -> None:
    following = [
        {"resource": f"{API_VERSION}/{job}/node/n1", "spec": spec, "action": "Check"}
        for job, spec in (("configupdatejob/b", CONFIG), ("imageprepulljob/c", pull(OTHER)))
    ]
    row = {"resource": f"{API_VERSION}/imageprepulljob/a/node/n1", "spec": pull(IMAGE), "action": "Pull"}
    node = Node(bee, row={**row, "following": following}, allowed=("ImagePrePullJob",))
    bee.run_for(10)
    found = [(each["job"], each["action"], each["succ"]) for each in node.reports()]
    assert found == [("a", "Pull", True), ("b", "Check", False), ("c", "Check", True), ("c", "Pull", True)]
    assert "allowedJobs" in node.reports()[1]["reason"]
    assert ROW not in node.rows


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_job_goes_on_after_a_restart(bee: Harness, *, is_silent: bool) -> None:
    """With the action that had begun; one that comes before the store tells of it waits."""
    row = {
        "resource": f"{API_VERSION}/imageprepulljob/a/node/n1", "spec": pull(IMAGE), "action": "Pull",
        "reports": [{"action": "Check", "succ": True}],
    }  # fmt: skip
    node = Node(bee, row=row, is_silent=is_silent)
    bee.run_for(100 if is_silent else 0)
    node.job("imageprepulljob/b", pull(OTHER), wait=10)
    node.is_silent = False
    bee.run_for(100 if is_silent else 0)
    found = [(each["job"], each["action"], each["succ"], each["reason"]) for each in node.reports()]
    assert found == [("a", "Pull", True, ""), ("b", "Check", True, ""), ("b", "Pull", True, "")]
    assert ROW not in node.rows


def test_a_job_that_was_only_received_begins_after_a_failure(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cloud sends it again only when the node connects."""
    bee.expect_failures("of this test")
    node = Node(bee, is_silent=True)
    node.job("imageprepulljob/b", pull(IMAGE))
    shown = Failing(0, ValueError("of this test")).call(JobShown.of)
    monkeypatch.setattr(taskmanager, "JobShown", SimpleNamespace(of=shown))
    bee.send(ModuleName.TASKMANAGER, bee.message("", OwnerVerb.SHOW, source=OWNER))
    assert node.ends() == []
    node.is_silent = False
    bee.run_for(100)
    assert bee.hive.restarts() == {ModuleName.TASKMANAGER: 1}
    assert node.ends() == [("Check", True, ""), ("Pull", True, "")]


def test_a_job_at_which_the_module_fails_cannot_begin(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was received before the store's answer, at which that fails: no instance would outlive it."""
    bee.expect_failures("of this test")
    node = Node(bee, is_silent=True)
    node.job("imageprepulljob/b", pull(IMAGE))
    monkeypatch.setattr(TaskManager, "_begin", Failing(0, ValueError("of this test")).call(print))
    node.is_silent = False
    bee.run_for(200)
    assert node.ends() == [("Check", False, "the node cannot take jobs now")]


def test_a_job_that_was_turned_down_is_reported_once(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the module fails later; a second report would be one about the next attempt."""
    bee.expect_failures("of this test")
    monkeypatch.setattr(taskmanager, "_MOST_EARLY", 0)
    node = Node(bee, is_silent=True)
    node.job("imageprepulljob/b", pull(IMAGE))
    shown = Failing(0, ValueError("of this test")).call(JobShown.of)
    monkeypatch.setattr(taskmanager, "JobShown", SimpleNamespace(of=shown))
    bee.send(ModuleName.TASKMANAGER, bee.message("", OwnerVerb.SHOW, source=OWNER))
    bee.run_for(100)
    assert bee.hive.restarts() == {ModuleName.TASKMANAGER: 1}
    assert node.ends() == [("Check", False, "the node cannot take jobs now")]


def test_a_job_that_was_refused_is_reported_once(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the module fails later."""
    bee.expect_failures("of this test")
    node = Node(bee, allowed=())
    node.job("imageprepulljob/b", pull(IMAGE))
    shown = Failing(0, ValueError("of this test")).call(JobShown.of)
    monkeypatch.setattr(taskmanager, "JobShown", SimpleNamespace(of=shown))
    bee.send(ModuleName.TASKMANAGER, bee.message("", OwnerVerb.SHOW, source=OWNER))
    bee.run_for(100)
    assert len(node.ends()) == 1


def test_a_job_that_finds_no_room_cannot_begin(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(bee)
    monkeypatch.setattr(bee.hive.slot(ModuleName.TASKMANAGER).inbox, "_capacity", 0)
    monkeypatch.setattr(bee.hive.slot(ModuleName.TASKMANAGER).inbox, "_put_timeout", 0)
    node.job("imageprepulljob/b", pull(IMAGE))
    bee.send(ModuleName.TASKMANAGER, bee.message(f"{API_VERSION}/imageprepulljob/c/node/n1", "Check", {}, source="x"))
    (report,) = bee.sent_to(Group.HUB)
    assert report.route.resource == f"{API_VERSION}/imageprepulljob/b/node/n1"
    assert report.content_as(dict[str, Any])["reason"] == "the node cannot take jobs now"


def test_a_job_that_the_owner_no_longer_allows_ends_at_the_restart(bee: Harness) -> None:
    row = {"resource": f"{API_VERSION}/imageprepulljob/a/node/n1", "spec": pull(IMAGE), "action": "Pull"}
    node = Node(bee, row=row, allowed=("NodeUpgradeJob",))
    bee.run_for(1)
    (report,) = node.reports()
    assert (report["action"], report["succ"]) == ("Pull", False)
    assert "allowedJobs" in report["reason"]
    assert ROW not in node.rows


def test_the_use_of_several_processors_is_that_of_all() -> None:
    """Also of two readings at one time."""
    idle, busy = (MachineReading(1.0, seconds, 4, 0.1, {}) for seconds in (0.0, 2.0))
    assert "50%" not in fault_of(["cpu"], idle, msgspec.structs.replace(busy, at=2.0))
    assert not fault_of(["cpu"], idle, msgspec.structs.replace(busy, at=2.0))
    assert "of the processors are used" in fault_of(["cpu"], idle, busy)


@pytest.mark.parametrize("row", [b"", b"{", b"\xff", b"[]", b'{"resource": 7}'])
def test_a_damaged_record_is_no_job(row: bytes) -> None:
    assert read_record(row) is None


@pytest.mark.parametrize("row", [{"resource": "x", "action": "Pull", "spec": {}}, {"action": "Dance"}, {}])
def test_a_record_that_cannot_be_read_is_no_job(bee: Harness, row: Json) -> None:
    node = Node(bee, row=row)
    node.job("imageprepulljob/b", pull(OTHER), wait=1)
    assert node.ends()[-1] == ("Pull", True, "")


def test_a_job_that_cannot_be_stored_fails(bee: Harness) -> None:
    node = Node(bee)
    node.is_silent = True
    node.job("imageprepulljob/b", pull(OTHER), wait=100)
    assert "the job cannot be stored" in node.failure("Check")
    assert node.runtime.list_images() == []


@pytest.mark.parametrize(
    ("job", "content"),
    [("imageprepulljob/pull-ok", pull(IMAGE)), ("configupdatejob/conf-1", CONFIG), ("nodeupgradejob/up-1", UPGRADE)],
)
def test_a_kind_that_the_owner_does_not_allow_is_answered_with_a_failed_check(
    bee: Harness, job: str, content: Json
) -> None:
    """Once, in the form of KubeEdge's edge: source websocket, group hub, the job's own resource."""
    node = Node(bee, allowed=())
    bee.send(ModuleName.TASKMANAGER, bee.message(CONNECTION_RESOURCE, "connect", CLOUD_CONNECTED))
    node.job(job, content, wait=10)
    assert "modules.taskManager.allowedJobs" in node.failure("Check")
    assert not node.history


@pytest.mark.parametrize(
    ("content", "operation", "reason"),
    [
        (pull(IMAGE), "Dance", "a job begins with Check"),
        (pull(IMAGE), "Dance" * 100, "a job begins with Check"),
        (pull(IMAGE), "Pull", "a job begins with Check"),
        ("no object", "Check", "no object"),
        (pull(7), "Check", "cannot be read"),  # type: ignore[arg-type]
        (pull(*[IMAGE] * 257), "Check", "cannot be read"),
        (pull("x" * 1025), "Check", "cannot be read"),
        ({"imagePrePullTemplate": ["x"]}, "Check", "cannot be read"),
        ({**pull(IMAGE), "x": "y" * LONGEST_SPEC}, "Check", "larger than"),
    ],
    ids=range(9),
)
def test_a_job_that_cannot_be_read_is_answered_with_the_reason(
    bee: Harness, content: Any, operation: str, reason: str
) -> None:
    """Of its own operation: KubeEdge's edgecore ends at an unknown one. A long one is cut off: a cloud reads no report
    with it.
    """
    node = Node(bee)
    node.job("imageprepulljob/p", content, operation, wait=1)
    assert reason in node.failure(operation[:32])


@pytest.mark.parametrize(
    ("content", "runs_containers", "reason"),
    [({}, True, "the job names no image"), (pull(IMAGE), False, "this node runs no containers")],
    ids=["no-image", "no-containers"],
)
def test_a_job_that_can_pull_nothing_fails(bee: Harness, content: Json, reason: str, *, runs_containers: bool) -> None:
    node = Node(bee, runs_containers=runs_containers)
    node.job("imageprepulljob/p", content, wait=1)
    assert node.ends()[-1] == ("Pull", False, reason)


@pytest.mark.parametrize(
    "job", ["imageprepulljob/p/node/n2", "secrets/p", f"imageprepulljob/{'x' * 300}", "imageprepulljob/p/node/n1/more"]
)
def test_jobs_of_other_nodes_are_not_answered(bee: Harness, job: str) -> None:
    node = Node(bee)
    node.job(job, pull(IMAGE), wait=1)
    assert node.reports() == []


def test_the_reports_leave_through_edgehub() -> None:
    """KubeEdge's cloud reads a report by its operation and resource."""
    with Harness() as bee:
        cloud = MemoryCloud(bee.simulation)
        install(bee.hive, EdgeHubSettings(url="ws://cloud", node="n1"), make_link=cloud.make_link)
        bee.answer(ModuleName.METAMANAGER, lambda asked: asked.reply(bee.clock, [], source="metamanager"))
        bee.start(TaskManager, TaskManagerSettings("n1"), FakeMachine(bee.clock))
        resource = f"{API_VERSION}/imageprepulljob/pull-ok/node/n1"
        cloud.send(bee.message(resource, "Check", pull(IMAGE), source="taskmanager", group="taskmanager"))
        bee.run_for(1)
        answers = [each for each in cloud.messages() if each.route.operation == "UpdateNodeActionStatus"]
        assert [(each.route.resource, each.content_as(dict)["succ"]) for each in answers] == [(resource, False)]


@pytest.mark.parametrize(
    ("state", "event"), [("Checking", "Check"), ("Pulling", "Pull"), ("Init", "Init"), (["x"], "Init"), (None, "Init")]
)
def test_a_task_of_the_older_api_fails_in_its_present_state(bee: Harness, state: object, event: str) -> None:
    node = Node(bee)
    asked = bee.message(
        "prepull/pull-1/node/n1", "prepull", {"TaskID": "pull-1", "State": state}, source="taskmanager",
        group="taskmanager",
    )  # fmt: skip
    bee.send(ModuleName.TASKMANAGER, asked)
    [answer] = bee.sent_to(ModuleName.EDGEHUB)
    assert (answer.route.resource, answer.route.operation) == ("task/pull-1/node/n1", "prepull")
    said = answer.content_as(dict[str, Any])
    assert (said["Event"], said["Action"], said["Reason"]) == (event, "Failure", REASON)
    assert node.history == []


@pytest.mark.parametrize(
    ("resource", "operation"),
    [("prepull/pull-1/node/n2", "prepull"), ("prepull/pull-1/node/n1", "restart"), ("", "")],
)
def test_other_messages_are_no_tasks(resource: str, operation: str) -> None:
    assert refusal_of(resource, operation, {}, "n1", NOW) is None
    assert refusal_of("upgrade/u/node/n1", "upgrade", "no object", "n1", NOW) is not None
