"""The module alone on the bus, with a test in the place of the API server, cloudhub and nodes."""

import sys
import tracemalloc
from copy import deepcopy
from typing import Any

import pytest

from beehive import Message, ModuleName
from beehive.names import Operation
from beehive.testing import Harness
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import API_VERSION
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.messages import NODES, ConnectEvent
from modules.cloud.refusals import Refusals
from modules.cloud.taskmanager import module
from modules.cloud.taskmanager.events import MOST
from modules.cloud.taskmanager.module import RECONCILE, CloudTaskManager, _Job
from modules.cloud.taskmanager.progress import EDGE, TIMED_OUT
from modules.cloud.taskmanager.waves import PAUSE, WAVES
from tests.modules.cloud.router.rule_server import Exchange, RuleServer

Json = dict[str, Any]
JOB = "p"


class Cloud:
    """Answers in edgecontroller's and cloudhub's place, with one ImagePrePullJob."""

    def __init__(
        self,
        bee: Harness,
        *nodes: str,
        annotations: Json | None = None,
        known: KnownCloudcores | None = None,
        faults: dict[int, int] | None = None,
        **spec: Any,
    ) -> None:
        self.bee = bee
        self.nodes = nodes
        template = {"images": ["x"], "nodeNames": list(nodes), **spec}
        self.job: Json = {
            "apiVersion": API_VERSION, "kind": "ImagePrePullJob",
            "metadata": {"name": JOB, "uid": "u", "annotations": annotations or {}},
            "spec": {"imagePrePullTemplate": template},
        }  # fmt: skip
        self.unready: set[str] = set()
        self.events: list[Json] = []
        self.conflicts = 0
        self.faults: dict[int, int] = faults or {}
        """The codes of calls that are refused, by their number; one of 504 is carried out, and not answered."""
        self.refused: set[int] = set()
        """Numbers of the calls that were."""
        self.calls = self.writes = 0
        self.held: list[Message] | None = None
        """Calls that are answered later; None while all are answered at once."""
        self.refusals = Refusals(bee.clock)
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)
        bee.answer(ModuleName.CLOUDHUB, self._hub)
        self.server = RuleServer(self.job)
        bee.add(CloudTaskManager, self.refusals, self.server.connect, known)
        bee.start()

    def connect(self, *nodes: str, operation: str = Operation.CONNECTED) -> None:
        """Nodes connect, or disconnect."""
        for node in nodes:
            event = ConnectEvent(operation, 0, node)
            self.bee.send(
                ModuleName.TASKMANAGER, self.bee.message(f"node/{node}", operation, event, source=ModuleName.CLOUDHUB)
            )
        self.bee.run_for(3)

    def report(
        self, node: str, action: str, *, by: str = "", reason: str = "", job: str = JOB, seconds: float = 0,
        operation: str = Operation.NODE_ACTION_STATUS,
    ) -> None:  # fmt: skip
        """A node reports an action, perhaps in the name of another one, and time passes."""
        resource = f"node/{by or node}/{API_VERSION}/imageprepulljob/{job}/node/{node}"
        content = {"action": action, "succ": not reason, "finishTime": "", "reason": reason, "extend": ""}
        fields = {"source": f"system:node:{by or node}", "group": "hub"}
        message = self.bee.message(resource, operation, content, **fields)
        self.bee.send(ModuleName.TASKMANAGER, message)
        self.bee.run_for(3 + seconds)

    def pull(self, node: str, seconds: float = 0) -> None:
        """A node carries the job out, and time passes."""
        self.report(node, "Check")
        self.report(node, "Pull", seconds=seconds)

    def sent(self, after: float = 0) -> list[str]:
        """The nodes that have got the job, in order, some seconds later."""
        self.bee.run_for(after)
        found = [each.route.resource for each in self.bee.sent_to(ModuleName.CLOUDHUB)]
        return [each.rpartition("/")[2] for each in found if API_VERSION in each]

    def phases(self, after: float = 0) -> dict[str, str]:
        """The phase of the job, as `job`, and of each node, some seconds later."""
        self.bee.run_for(after)
        status = self.job.get("status") or {}
        tasks = {each["nodeName"]: each["phase"] for each in status.get("nodeStatus") or ()}
        return {"job": status.get("phase", ""), **tasks}

    def _hub(self, message: Message) -> Message | None:
        return message.reply(self.bee.clock, []) if message.route.operation == NODES else None

    def carry_out(self) -> list[Message]:
        """Carry the held calls out, and return the answers; later calls are held."""
        held, self.held = self.held or [], []
        return [self._reply(message) for message in held]

    def release(self, seconds: float = 60) -> None:
        """Answer the held calls, and let time pass."""
        answers, self.held = self.carry_out(), None
        for answer in answers:
            self.bee.respond(answer)
        self.bee.run_for(seconds)

    def _answer(self, message: Message) -> Message | None:
        if self.held is not None:
            self.held.append(message)
            return None
        return self._reply(message)

    def _reply(self, message: Message) -> Message:
        return message.reply(self.bee.clock, self._serve(message.content_as(ApiCall)))

    def told(self, about: str = "") -> list[tuple[str, str]]:
        """Reason and message of the Events about the job, or about a node."""
        wanted = ("Node", about) if about else ("ImagePrePullJob", JOB)
        involved = [(each["involvedObject"], each) for each in self.events]
        return [(each["reason"], each["message"]) for what, each in involved if (what["kind"], what["name"]) == wanted]

    def _page_of_nodes(self, first: int) -> ApiResult:
        assert self.calls < 1000, "the same page is asked for again and again"
        items, left = [self._node(each) for each in self.nodes[first:][:2]], self.nodes[first + 2 :]
        return ApiResult({"items": items, "metadata": {"continue": str(first + 2)} if left else {}})

    def _node(self, name: str) -> Json:
        ready = {"type": "Ready", "status": "Unknown" if name in self.unready else "True"}
        return {"metadata": {"name": name, "labels": {EDGE: ""}}, "status": {"conditions": [ready]}}

    def _serve(self, call: ApiCall) -> ApiResult:
        self.calls += 1
        code = self.faults.get(self.calls, 0)
        self.refused |= {self.calls} if code else set()
        result = self._carry_out(call) if code in (0, 504) else ApiResult()
        return ApiResult(refusal={"code": code, "message": "not now"}) if code else result

    def _carry_out(self, call: ApiCall) -> ApiResult:
        if call.plural == "nodes":
            return self._page_of_nodes(int(call.options.get("continue") or 0))
        if call.plural == "events":
            assert call.body is not None
            self.events.append(call.body)
            return ApiResult(call.body)
        if call.verb == "updatestatus":
            self.writes += 1
            if self.conflicts:
                self.conflicts -= 1
                return ApiResult(refusal={"code": 409, "message": "changed meanwhile"})
            assert call.body is not None
            if call.body["metadata"].get("resourceVersion") != self.job["metadata"].get("resourceVersion"):
                return ApiResult(refusal={"code": 409, "message": "changed meanwhile"})
            self.job = deepcopy(call.body)
            self.server.store(self.job)
        return ApiResult(deepcopy(self.job))


def connected(bee: Harness, *nodes: str, **fields: Any) -> Cloud:
    """Return a cloud whose nodes have all connected; `fields` as those of `Cloud`."""
    cloud = Cloud(bee, *nodes, **fields)
    cloud.connect(*nodes)
    return cloud


def test_a_job_goes_from_node_to_node(bee: Harness) -> None:
    cloud = connected(bee, "a", "b")
    assert cloud.sent() == ["a"]
    cloud.pull("a")
    assert cloud.sent() == ["a", "b"]
    cloud.pull("b")
    assert cloud.phases() == {"job": "Completed", "a": "Successful", "b": "Successful"}


def test_a_report_of_another_node_changes_nothing(bee: Harness) -> None:
    """KubeEdge's cloud takes any node's for any other's."""
    cloud = connected(bee, "a", "b", concurrency=2)
    before = cloud.writes
    cloud.report("a", "Check", by="b")
    cloud.report("c", "Check")
    cloud.report("a", "Check", job="q")
    cloud.report("a", "Check", operation="upgrade")
    assert cloud.writes == before
    assert cloud.refusals.counts["not a report about a job of this node", "jobs"] == 4


def test_a_node_that_is_away_has_its_turn_when_it_comes(bee: Harness) -> None:
    """KubeEdge's cloud fails it at once."""
    cloud = Cloud(bee, "a", "b")
    cloud.connect("b")
    cloud.pull("b")
    assert cloud.phases() == {"job": "InProgress", "a": "Pending", "b": "Successful"}
    bee.run_for(600)
    cloud.connect("a")
    assert cloud.sent() == ["b", "a"]


def test_a_node_that_says_nothing_is_given_up_and_another_has_its_turn(bee: Harness) -> None:
    cloud = connected(bee, "a", "b", timeoutSeconds=60, failureTolerate="0.5")
    assert cloud.phases(after=75)["a"] == "Unknown"
    assert cloud.job["status"]["nodeStatus"][0]["reason"] == TIMED_OUT
    cloud.pull("b")
    assert cloud.phases() == {"job": "Completed", "a": "Unknown", "b": "Successful"}


def test_a_job_that_has_failed_still_gives_up_nodes_and_takes_late_reports(bee: Harness) -> None:
    """A node that had its turn when another one failed would be in progress for ever."""
    cloud = connected(bee, "a", "b", concurrency=2, timeoutSeconds=60)
    cloud.report("a", "Check", reason="no room")
    assert cloud.phases() == {"job": "Failure", "a": "Failure", "b": "InProgress"}
    cloud.connect("b")
    assert cloud.sent() == ["a", "b"], "a failed job is sent to nobody again"
    assert cloud.phases(after=75)["b"] == "Unknown"
    assert "2/2" in cloud.job["status"]["reason"]
    cloud.pull("b")
    assert cloud.phases() == {"job": "Failure", "a": "Failure", "b": "Successful"}
    assert "1/2" in cloud.job["status"]["reason"]
    failed = "successful on {} of 2 nodes: the number of failed nodes is {}/2"
    told = [message.partition(",")[0] for reason, message in cloud.told() if reason == "JobFailed"]
    assert told == [failed.format(0, 1), failed.format(0, 2), failed.format(0, 1)]
    assert {reason for reason, _ in cloud.told()} == {"JobBegun", "JobFailed"}


def test_a_node_gets_the_job_again_only_if_it_has_said_nothing(bee: Harness) -> None:
    """KubeEdge's edgecore begins anew with each message: after the restart of its upgrade as well."""
    cloud = connected(bee, "a")
    cloud.connect("a", operation=Operation.DISCONNECTED)
    cloud.connect("a")
    assert cloud.sent() == ["a", "a"]
    cloud.report("a", "Check")
    cloud.connect("a")
    assert cloud.sent() == ["a", "a"]


@pytest.mark.parametrize(
    ("action", "phase", "is_sent"),
    [("Check", "InProgress", False), ("Check", "Failure", False), ("WaitingConfirmation", "InProgress", True)],
)
def test_a_node_gets_a_job_after_the_one_that_it_carries_out(
    bee: Harness, action: str, phase: str, *, is_sent: bool
) -> None:
    """One that was deleted meanwhile has not begun, and one that has stopped at its tolerance goes on there. A job that
    waits for the node's owner gives way to others.
    """
    cloud = Cloud(bee, "a", "b")
    tasks = [{"nodeName": "a", "phase": "InProgress", "actionFlow": [{"action": action, "status": "True"}]}]
    metadata, status = {"name": "u", "uid": "v"}, {"phase": phase, "nodeStatus": tasks}
    other = {"apiVersion": API_VERSION, "kind": "NodeUpgradeJob", "metadata": metadata, "spec": {}, "status": status}
    cloud.server.change("ADDED", other)
    cloud.connect("a", "b")
    assert cloud.sent() == (["a"] if is_sent else ["b"])
    cloud.server.change("DELETED", other)
    cloud.pull(cloud.sent()[0], seconds=RECONCILE)
    assert cloud.sent() == (["a", "b"] if is_sent else ["b", "a"])


def test_a_restarted_cloudcore_goes_on(bee: Harness) -> None:
    """From the status alone: the task in progress holds its slot, and Pending ones follow."""
    cloud = Cloud(bee, "a", "b")
    cloud.job["status"] = {
        "phase": "InProgress",
        "nodeStatus": [{"nodeName": "a", "phase": "InProgress", "actionFlow": [{"action": "Check", "status": "True"}]},
                       {"nodeName": "b", "phase": "Pending"}],
    }  # fmt: skip
    cloud.server.change("MODIFIED", cloud.job)
    cloud.connect("a", "b")
    assert cloud.sent() == []
    cloud.report("a", "Pull")
    assert cloud.sent() == ["b"]


def test_a_write_that_somebody_else_was_faster_with_is_made_again(bee: Harness) -> None:
    """And no node gets the job before the write that says so."""
    cloud = Cloud(bee, "a")
    cloud.conflicts = 2
    cloud.connect("a")
    assert cloud.sent(after=60) == ["a"]
    cloud.conflicts = 1
    cloud.pull("a", seconds=60)
    assert cloud.phases() == {"job": "Completed", "a": "Successful"}


@pytest.mark.parametrize("conflicts", [0, 1])
def test_an_answer_that_is_older_than_what_the_watch_has_told_counts_for_nothing(bee: Harness, conflicts: int) -> None:
    """That to a write, or to the read after a conflict. Events tell of the write all the same."""
    cloud = connected(bee, "a", "b")
    cloud.report("a", "Check")
    cloud.held, before = [], cloud.writes
    cloud.report("a", "Pull")
    cloud.conflicts = conflicts
    for _ in range(conflicts):
        bee.respond(cloud.carry_out()[0])
        bee.run_for(1)
    (answer,), cloud.held = cloud.carry_out(), None
    cloud.server.change("MODIFIED", cloud.job)
    bee.run_for(1)
    bee.respond(answer)
    bee.run_for(3)
    cloud.pull("b")
    assert cloud.phases() == {"job": "Completed", "a": "Successful", "b": "Successful"}
    assert cloud.writes == before + conflicts + 3
    assert [cloud.told(node) for node in "ab"] == [[("NodeJobSucceeded", "ImagePrePullJob p")]] * 2


@pytest.mark.parametrize("codes", [[409], [503], [409, 503], [504]])
def test_a_job_comes_to_its_end_whichever_call_the_api_server_refuses(codes: list[int]) -> None:
    """And soon: a fault that has passed does not delay the next attempt. Nothing that nodes have reported is lost. The
    first call is made before the module has started.
    """
    for at in range(1, 40):
        with Harness() as bee:
            cloud = Cloud(bee, "a", "b", "c", faults=dict(enumerate(codes, at)))
            cloud.connect("a", "b", "c")
            for node in "abc":
                cloud.pull(node)
                assert cloud.phases()[node] == "Successful", at
            assert (cloud.phases()["job"], cloud.sent()) == ("Completed", ["a", "b", "c"])
            assert cloud.refusals.counts.total() <= (504 in codes)
            if cloud.calls < at:
                return
            assert at in cloud.refused, f"call {at} was not refused"
    raise AssertionError("there are more calls")


@pytest.mark.parametrize("code", [503, 504])
def test_faults_that_have_passed_make_no_later_attempt_late(bee: Harness, code: int) -> None:
    """Also where nothing was left to write."""
    nodes = [f"n{number}" for number in range(12)]
    cloud = connected(bee, *nodes)
    for node in nodes:
        for action in ("Check", "Pull"):
            cloud.faults = {cloud.calls + 1: code}
            cloud.report(node, action)
        assert cloud.phases()[node] == "Successful"


def test_a_node_that_has_gone_has_no_turn(bee: Harness) -> None:
    cloud = connected(bee, "a", "b", "c")
    cloud.connect("b", operation=Operation.DISCONNECTED)
    cloud.pull("a")
    assert cloud.sent() == ["a", "c"]


def test_a_deleted_job_begins_nothing_more(bee: Harness) -> None:
    cloud = connected(bee, "a", "b")
    cloud.server.change("DELETED", cloud.job)
    cloud.pull("a", seconds=60)
    assert len(cloud.sent()) == 1


def test_a_job_that_was_deleted_while_a_report_waited_is_not_written(bee: Harness) -> None:
    cloud = connected(bee, "a", "b")
    calls = cloud.calls
    cloud.report("a", "Check", seconds=-3)
    cloud.server.change("DELETED", cloud.job)
    bee.run_for(60)
    assert cloud.calls == calls


def test_a_job_that_was_deleted_while_the_nodes_were_listed_is_not_written(bee: Harness) -> None:
    cloud = Cloud(bee, "a", annotations={"x": "y"})
    cloud.held = []
    cloud.job["status"] = {}
    cloud.server.change("MODIFIED", {**cloud.job, "metadata": {**cloud.job["metadata"], "uid": "another"}})
    bee.run_for(3)
    assert [call.content_as(ApiCall).plural for call in cloud.held] == ["nodes"]
    cloud.server.change("DELETED", cloud.job)
    writes = cloud.writes
    cloud.release()
    assert cloud.writes == writes


def test_a_job_that_was_deleted_while_a_wave_waited_begins_no_further_one(bee: Harness) -> None:
    cloud = connected(bee, "a", "b", annotations={WAVES: "1,all"})
    cloud.report("a", "Check")
    cloud.report("a", "Pull", seconds=-3)
    bee.run_for(0.6)
    cloud.held = []
    bee.run_for(5)
    assert [call.content_as(ApiCall).plural for call in cloud.held][-1] == "nodes"
    cloud.server.change("DELETED", cloud.job)
    writes = cloud.writes
    cloud.release()
    assert (cloud.writes, cloud.sent()) == (writes, ["a"])


def test_of_several_cloudcores_one_judges(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others take the reports of their nodes, and send to them."""
    known, own = KnownCloudcores(), [False]
    monkeypatch.setattr(known, "owns", lambda *_: own[-1])
    cloud = Cloud(bee, "a", "away", known=known, timeoutSeconds=60, failureTolerate="1")
    cloud.connect("a")
    assert cloud.phases(after=120) == {"job": ""}
    own.append(True)
    cloud.job["status"] = {}
    assert cloud.phases(after=20) == {"job": "InProgress", "a": "InProgress", "away": "Pending"}
    own.append(False)
    assert cloud.phases(after=600) == {"job": "InProgress", "a": "InProgress", "away": "Pending"}
    cloud.pull("a", seconds=600)
    assert cloud.phases() == {"job": "InProgress", "a": "Successful", "away": "Pending"}
    own.append(True)
    assert cloud.phases(after=600) == {"job": "Completed", "a": "Successful", "away": "Unknown"}


@pytest.mark.parametrize("late", [0, 5])
def test_a_job_made_again_gets_no_report_about_the_one_before(bee: Harness, late: float) -> None:
    """It has the name of a deleted one; the watch has missed the deletion, or is late."""
    cloud = connected(bee, "a")
    cloud.report("a", "Check", seconds=-3)
    cloud.job = {**cloud.job, "status": {}, "metadata": {**cloud.job["metadata"], "uid": "another"}}
    cloud.server.store(cloud.job)
    bee.run_for(late)
    cloud.server.change("MODIFIED", cloud.job)
    assert cloud.phases(after=60) == {"job": "InProgress", "a": "InProgress"}
    assert not cloud.job["status"]["nodeStatus"][0].get("actionFlow")
    assert not cloud.refusals.counts


def test_reports_of_a_write_that_failed_come_before_later_ones(bee: Harness) -> None:
    cloud = connected(bee, "a")
    cloud.held = []
    cloud.report("a", "Check")
    cloud.report("a", "Pull")
    cloud.faults = {cloud.calls + 1: 503}
    cloud.release()
    assert cloud.phases() == {"job": "Completed", "a": "Successful"}
    assert [each["action"] for each in cloud.job["status"]["nodeStatus"][0]["actionFlow"]] == ["Check", "Pull"]
    assert not cloud.refusals.counts


def test_reports_before_the_jobs_are_read_are_bounded(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of one node, which takes no place of another's."""
    monkeypatch.setattr(module, "_MOST_EARLY", 3)
    monkeypatch.setattr(module, "_MOST_EARLY_OF_NODE", 2)
    monkeypatch.setattr(RuleServer, "start", lambda *_: Exchange())
    cloud = Cloud(bee, "a")
    for node, refused in (("a", 0), ("a", 0), ("a", 1), ("b", 1), ("c", 2)):
        cloud.report(node, "Check")
        assert cloud.refusals.counts["too many reports wait", "jobs"] == refused


def test_reports_of_one_node_that_wait_take_no_place_of_others_and_little_memory(bee: Harness) -> None:
    """Each action of it counts once, and its reason is cut, while the API server does not answer."""
    cloud = connected(bee, "a", "b", concurrency=2)
    cloud.held = []
    tracemalloc.start()
    for number in range(100):
        cloud.report("a", "Check", reason=f"{number:0100000}", seconds=-3)
        cloud.report("a", f"{number}", reason=f"{number:0100000}", seconds=-3)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    cloud.report("b", "Check")
    cloud.release()
    assert used < 2_000_000
    assert [len(each["actionFlow"]) for each in cloud.job["status"]["nodeStatus"]] == [1, 1]


def test_a_job_that_cannot_be_read_fails_with_the_reason(bee: Harness) -> None:
    cloud = connected(bee, "a", failureTolerate="many")
    assert cloud.phases() == {"job": "Failure"}
    assert "many" in cloud.job["status"]["reason"]


def test_a_job_with_wrong_waves_fails_with_the_reason(bee: Harness) -> None:
    cloud = connected(bee, "a", annotations={WAVES: "1,many"})
    assert cloud.phases() == {"job": "Failure"}
    assert cloud.told() == [("JobFailed", "successful on 0 of 0 nodes: " + cloud.job["status"]["reason"])]


def test_a_status_that_can_never_be_stored_is_logged_once(bee: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again all the same: people may mend the definition of the kind."""
    cloud = connected(bee, "a")
    for count in (1, 2):
        cloud.faults = {cloud.calls + each: 422 for each in range(1, 100)}
        cloud.report("a", "Check" if count == 1 else "Pull", seconds=300)
        assert caplog.text.count("cannot be stored: not now") == count
        cloud.faults = {}
        bee.run_for(20)
    assert cloud.phases() == {"job": "Completed", "a": "Successful"}


@pytest.mark.parametrize("conflicts", [0, 5000])
def test_an_api_server_that_stores_nothing_is_asked_ever_more_rarely(bee: Harness, conflicts: int) -> None:
    """It is away, or tells of a conflict with each write."""
    cloud = connected(bee, "a")
    before, cloud.conflicts = cloud.calls, conflicts
    cloud.faults = {} if conflicts else dict.fromkeys(range(before, before + 5000), 503)
    cloud.report("a", "Check", seconds=600)
    assert 20 < (cloud.calls - before) / (2 if conflicts else 1) < 40


def test_events_of_long_names_and_reasons_are_within_kubernetes_bounds(bee: Harness) -> None:
    cloud = connected(bee, "a" * 253)
    cloud.report("a" * 253, "Check", reason="x" * 5000)
    assert cloud.phases()["job"] == "Failure"
    assert max(len(each["message"]) for each in cloud.events) == 1000
    assert max(len(each["metadata"]["name"]) for each in cloud.events) <= 253


def test_a_job_in_waves_begins_with_one_node_and_goes_on_after_the_pause(bee: Harness) -> None:
    cloud = connected(bee, "a", "b", "c", annotations={WAVES: "1,all", PAUSE: "300"}, concurrency=5)
    cloud.pull("a", seconds=270)
    assert cloud.sent() == ["a"]
    assert cloud.sent(after=60) == ["a", "b", "c"]


def test_a_failed_first_wave_stops_the_job_whatever_the_fleet_tolerates(bee: Harness) -> None:
    """Of one node all have failed, though of three only a third."""
    cloud = connected(bee, "a", "b", "c", annotations={WAVES: "1,all"}, failureTolerate="0.5")
    cloud.report("a", "Check", reason="no room", seconds=600)
    assert cloud.phases() == {"job": "Failure", "a": "Failure", "b": "Pending", "c": "Pending"}
    assert "the waves have stopped: 1 of the 1" in cloud.job["status"]["reason"]


def test_nodes_that_are_away_join_their_wave_when_they_come_back(bee: Harness) -> None:
    """A job in waves waits for them, whatever its timeoutSeconds."""
    cloud = Cloud(bee, "a", "b", annotations={WAVES: "1,all"}, timeoutSeconds=60)
    cloud.connect("b")
    cloud.pull("b", seconds=10_000)
    assert cloud.phases() == {"job": "InProgress", "a": "Pending", "b": "Successful"}
    cloud.connect("a")
    cloud.pull("a")
    assert cloud.phases()["job"] == "Completed"


def test_the_next_wave_waits_for_the_health_of_the_one_before(bee: Harness) -> None:
    """A node that was upgraded and is lost later says more than the end of its job; also to another cloudcore."""
    cloud = connected(bee, "a", "b", "c", annotations={WAVES: "1,all", PAUSE: "60"})
    cloud.pull("a")
    cloud.unready = {"a"}
    assert cloud.sent(after=600) == ["a"]
    assert "1 are not ready now: a" in cloud.job["status"]["reason"]
    cloud.unready = set()
    assert cloud.sent(after=60) == ["a", "b"]
    assert "reason" not in cloud.job["status"]


def test_a_node_at_another_cloudcore_holds_up_the_next_wave(bee: Harness) -> None:
    """It is not away: it has its turn there."""
    cloud = Cloud(bee, "a", "b", "c", annotations={WAVES: "2,all"})
    cloud.connect("b", "c")
    cloud.pull("b", seconds=600)
    assert cloud.sent() == ["b"]
    cloud.unready = {"a"}
    assert cloud.sent(after=60) == ["b", "c"]


def test_a_node_that_is_unknown_begins_no_wave(bee: Harness) -> None:
    """It fails at once, in whatever wave it is."""
    cloud = connected(bee, "a", "b", annotations={WAVES: "1,all", PAUSE: "300"}, nodeNames=["a", "gone", "b"])
    cloud.pull("a", seconds=60)
    assert cloud.sent() == ["a"]


def test_events_tell_how_a_job_goes_on(bee: Harness) -> None:
    """On the job and on each node, once."""
    begin = format_rfc3339(bee.clock.now())
    cloud = connected(bee, "a", "b", annotations={WAVES: "1,all"}, failureTolerate="0.5")
    cloud.pull("a", seconds=60)
    cloud.report("b", "Check", reason="no room", seconds=60)
    assert cloud.told() == [
        ("JobBegun", "for 2 nodes"),
        ("WaveBegun", "wave 1: up to 1 node"),
        ("WaveBegun", "wave 2: up to 2 nodes"),
        ("JobCompleted", "successful on 1 of 2 nodes"),
    ]
    assert cloud.told("a") == [("NodeJobSucceeded", "ImagePrePullJob p")]
    assert cloud.told("b") == [("NodeJobFailed", "ImagePrePullJob p: no room")]
    assert {each["metadata"]["namespace"] for each in cloud.events} == {"default"}
    assert min(each["firstTimestamp"] for each in cloud.events) >= begin


def test_a_fleet_that_fails_at_once_is_told_within_bounds(bee: Harness) -> None:
    """5,000 unknown nodes are no 5,000 Events."""
    cloud = connected(bee, "a", nodeNames=[f"gone-{each}" for each in range(1000)])
    assert [reason for reason, _ in cloud.told()] == ["JobBegun", "JobFailed"]
    assert len(cloud.events) == MOST + 1


def test_a_status_of_many_nodes_is_copied_without_python_code_for_each() -> None:
    """Each report of a node looks at it: with 500 nodes, most of cloudcore's time was that."""
    task = {"nodeName": "n", "phase": "InProgress", "actionFlow": [{"action": "Check"}]}
    job = _Job(JobKind.NODE_UPGRADE, {"metadata": {"name": "j"}, "status": {"nodeStatus": [task] * 500}})
    calls = list[str]()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        status = job.status
    finally:
        sys.setprofile(before)
    assert len(calls) < 20
    status.node_status[0].action_flow.clear()
    assert [task.action_flow[0].action for task in job.status.node_status] == ["Check"] * 500
