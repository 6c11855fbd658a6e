"""How pods' statuses get to the cloud, request by request."""

import pytest
from msgspec.structs import replace

from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.status.manager import CORRECTION_PERIOD, CORRECTIONS, PENDING_DELAY, PENDING_PERIOD, StatusManager
from metamanager.client import NoAnswerError, NotConnectedError
from modules.apimachinery.pods.static import CONFIG_SOURCE
from modules.apimachinery.types import (
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from tests.edged.status.meta_requests import NOT_FOUND, MetaRequests, rejected

UID = PodUid("u1")
AWAY = NotConnectedError("ask", "it")
LOST = NoAnswerError("ask", "it")
PENDING = PodStatus(phase="Pending")
RUNNING = PodStatus(phase="Running", pod_ip="10.0.0.1")
FAILED = PodStatus(phase="Failed")


def a_pod(status: PodStatus = PENDING, version: str = "5", uid: str = UID) -> Pod:
    metadata = ObjectMeta(name="web", namespace="default", uid=PodUid(uid), resource_version=version)
    return Pod(metadata=metadata, spec=PodSpec(), status=status)


def a_static_pod(uid: str) -> Pod:
    notes = {CONFIG_SOURCE: "file"}
    return replace(a_pod(), metadata=replace(a_pod().metadata, uid=uid, annotations=notes))


def waiting_for(reason: str) -> PodStatus:
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason))
    return PodStatus(phase="Pending", container_statuses=(ContainerStatus(name="main", state=state),))


@pytest.fixture
def requests() -> MetaRequests:
    return MetaRequests()


@pytest.fixture
def reporter(requests: MetaRequests) -> StatusManager:
    """Knows one pod, Pending in the cloud at version 5."""
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(a_pod()), a_pod())
    return reporter


def test_a_change_is_sent_immediately_as_the_difference(requests: MetaRequests, reporter: StatusManager) -> None:
    reporter.set_pod_status(UID, RUNNING)
    [request] = requests.open
    assert request.value["metadata"] == {"uid": UID}
    assert request.value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_one_patch_is_under_way_and_the_newest_status_follows(requests: MetaRequests, reporter: StatusManager) -> None:
    reporter.set_pod_status(UID, RUNNING)
    reporter.set_pod_status(UID, waiting_for("ErrImagePull"))
    reporter.set_pod_status(UID, FAILED)
    assert len(requests.open) == 1
    requests.answer({"metadata": {"resourceVersion": "6"}})
    assert requests.answer({}).value["status"] == {"phase": "Failed", "podIP": None}
    assert requests.open == []


@pytest.mark.parametrize("name", ["DisruptionTarget", "example.com/gate"])
def test_what_another_has_set_while_the_status_was_under_way_or_held_back_stays(
    requests: MetaRequests, reporter: StatusManager, name: str
) -> None:
    """An eviction or a readiness gate: neither the status that waits for its turn nor the next one was computed with
    it.
    """
    condition = PodCondition(type=name, status="True", reason="EvictionByEvictionAPI")
    ready = PodCondition(type="Ready", status="False")
    reporter.set_pod_status(UID, replace(RUNNING, conditions=(ready,)))
    reporter.set_pod_status(UID, replace(RUNNING, conditions=(replace(ready, status="True"),)))
    evicted = a_pod(replace(RUNNING, conditions=(condition, ready)), version="7")
    reporter.add_pod(ref_of(evicted), evicted)
    patches = [requests.answer({"metadata": {"resourceVersion": "6"}}).value]
    reporter.correct_pod_status(UID)
    reporter.set_pod_status(UID, replace(FAILED, conditions=(ready,)))
    patches += [requests.answer({"metadata": {"resourceVersion": "8"}}).value for _ in requests.open]
    written = [one for patch in patches for one in patch["status"].get("conditions", ())]
    assert [one["type"] for one in written] == ["Ready"] * len(written) != []


def test_a_calm_pending_waits_a_moment_and_is_left_out_when_it_has_passed(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    requests.run(PENDING_DELAY / 2)
    reporter.sync_all()
    assert requests.open == []
    reporter.set_pod_status(UID, RUNNING)
    requests.run(PENDING_DELAY)
    assert [q.value["status"]["phase"] for q in requests.open] == ["Running"]


def test_a_calm_pending_that_lasts_is_sent(requests: MetaRequests, reporter: StatusManager) -> None:
    reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    requests.clock.jump_wall(-86400.0)
    requests.run(PENDING_DELAY)
    assert len(requests.open) == 1


def test_a_calm_pending_that_comes_after_another_was_sent_is_sent_too(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    second = a_pod(uid="u2")
    reporter.add_pod(ref_of(second), second)
    for number, uid in enumerate((UID, PodUid("u2")), 1):
        reporter.set_pod_status(uid, waiting_for("ContainerCreating"))
        requests.run(2 * PENDING_DELAY)
        assert len(requests.open) == number


@pytest.mark.parametrize("jump", [-86400.0, 0.0, 86400.0])
def test_each_calm_pending_waits_its_own_time_for_any_wall_clock(
    requests: MetaRequests, reporter: StatusManager, jump: float
) -> None:
    second = a_pod(uid="u2")
    reporter.add_pod(ref_of(second), second)
    reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    requests.run(PENDING_DELAY * 0.75)
    requests.clock.jump_wall(jump)
    reporter.set_pod_status(PodUid("u2"), waiting_for("ContainerCreating"))
    requests.run(PENDING_DELAY * 0.25)
    assert len(requests.open) == 1
    requests.run(PENDING_DELAY * 0.70)
    assert len(requests.open) == 1, "the second waits as long as the first has"
    requests.run(PENDING_DELAY * 0.05)
    assert len(requests.open) == 2


def test_a_calm_pending_waits_its_own_time_when_an_earlier_one_was_left_out(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    """And not that of a turn which was nobody's, however little is left of its own."""
    second = a_pod(uid="u2")
    reporter.add_pod(ref_of(second), second)
    reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    requests.run(0.001)
    reporter.set_pod_status(PodUid("u2"), waiting_for("ContainerCreating"))
    reporter.set_pod_status(UID, RUNNING)
    requests.run(PENDING_DELAY)
    assert [request.value["metadata"]["uid"] for request in requests.open] == [UID, "u2"]


def test_a_calm_pending_waits_again_after_the_last_one_was_left_out(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    reporter.set_pod_status(UID, RUNNING)
    requests.answer({})
    reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    assert requests.open == []
    requests.run(PENDING_DELAY)
    assert len(requests.open) == 1


def test_after_a_lost_answer_the_whole_status_is_sent_also_when_the_cloud_came_back_meanwhile(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, RUNNING)
    difference = set(requests.open[0].value["status"])
    reporter.connected()
    requests.answer(LOST)
    assert set(requests.open[0].value["status"]) > difference


def test_a_lost_answer_counts_until_one_has_come(requests: MetaRequests, reporter: StatusManager) -> None:
    """A refusal after it says nothing about the status whose answer was lost."""
    reporter.set_pod_status(UID, RUNNING)
    difference = set(requests.answer(LOST).value["status"])
    reporter.sync_all()
    requests.answer(AWAY)
    reporter.sync_all()
    assert set(requests.open[0].value["status"]) > difference


def test_one_pending_status_at_a_time_is_sent_for_many_pods_that_start_together(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    uids = [PodUid(f"u{number}") for number in range(2, 6)]
    for uid in uids:
        pod = a_pod(uid=uid)
        reporter.add_pod(ref_of(pod), pod)
        reporter.set_pod_status(uid, waiting_for("ContainerCreating"))
    sent: list[list[str]] = []
    for _ in range(4):
        requests.run(PENDING_DELAY if not sent else PENDING_PERIOD)
        sent.append([request.value["metadata"]["uid"] for request in requests.open])
        if len(sent) == 1:
            reporter.set_pod_status(uids[1], RUNNING)
            reporter.forget_pod(uids[2])
    assert sent == [["u2"], ["u2", "u3", "u5"], ["u2", "u3", "u5"], ["u2", "u3", "u5"]]
    assert [request.value["status"].get("phase") for request in requests.open] == [None, "Running", None]


def test_a_pending_with_trouble_does_not_wait(requests: MetaRequests, reporter: StatusManager) -> None:
    reporter.set_pod_status(UID, waiting_for("ErrImagePull"))
    assert len(requests.open) == 1


def test_a_status_that_is_followed_by_another_is_left_out(requests: MetaRequests, reporter: StatusManager) -> None:
    """Also when the cloud sends the pod again meanwhile."""
    reporter.set_pod_status(UID, RUNNING, is_followed=True)
    reporter.add_pod(ref_of(a_pod()), a_pod(version="6"))
    reporter.correct_pod_status(UID)
    assert requests.open == []
    reporter.set_pod_status(UID, FAILED)
    assert [request.value["status"] for request in requests.open] == [{"phase": "Failed"}]


def test_a_status_that_nothing_follows_is_sent_with_the_next_period(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, RUNNING, is_followed=True)
    reporter.sync_all()
    assert [request.value["status"]["phase"] for request in requests.open] == ["Running"]


def test_a_pod_is_deleted_after_a_status_that_nothing_has_followed(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, FAILED, is_followed=True)
    reporter.terminate_pod(UID)
    assert requests.asked() == ["patch podpatch"]
    requests.answer({})
    assert requests.asked() == ["delete pod"]


@pytest.mark.parametrize("error", [AWAY, rejected(500), LOST])
def test_a_refused_status_is_sent_again_with_the_next_period(
    requests: MetaRequests, reporter: StatusManager, error: Exception
) -> None:
    reporter.set_pod_status(UID, RUNNING)
    requests.answer(error)
    assert requests.open == []
    reporter.sync_all()
    assert requests.open[0].value["status"]["phase"] == "Running"


@pytest.mark.parametrize("error", [LOST, *map(rejected, (500, 502, 503, 504, 599))])
def test_after_a_lost_answer_everything_is_reported(
    requests: MetaRequests, reporter: StatusManager, error: Exception
) -> None:
    """The cloud may have RUNNING by now, also when it is the one that got no answer, from its API server; a difference
    to what it had before would leave the address there.
    """
    reporter.set_pod_status(UID, RUNNING)
    requests.answer(error)
    reporter.set_pod_status(UID, PENDING)
    requests.run(PENDING_DELAY)
    assert requests.open[0].value["status"]["phase"] == "Pending"
    requests.answer({})
    reporter.set_pod_status(UID, RUNNING)
    assert requests.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_a_cloud_that_comes_while_a_patch_is_failing_is_not_missed(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, RUNNING)
    reporter.connected()
    requests.answer(AWAY)
    assert requests.asked() == ["patch podpatch"]
    requests.answer(AWAY)
    assert requests.open == []


def test_a_pod_the_cloud_does_not_know_is_not_sent_again_until_it_connects(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, RUNNING)
    requests.answer(NOT_FOUND)
    reporter.sync_all()
    assert requests.open == []
    reporter.connected()
    assert len(requests.open) == 1


def test_a_pod_that_the_cloud_sends_again_is_known(requests: MetaRequests, reporter: StatusManager) -> None:
    reporter.set_pod_status(UID, RUNNING)
    requests.answer(NOT_FOUND)
    reporter.add_pod(ref_of(a_pod()), a_pod(version="6"))
    reporter.sync_all()
    assert len(requests.open) == 1


def test_a_status_from_the_cloud_is_the_base_unless_it_is_older(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.add_pod(ref_of(a_pod()), a_pod(RUNNING, "4"))
    reporter.add_pod(ref_of(a_pod()), a_pod(FAILED, "7"))
    reporter.set_pod_status(UID, RUNNING)
    assert requests.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}
    requests.answer({"metadata": {"resourceVersion": "8"}})
    reporter.add_pod(ref_of(a_pod()), a_pod(FAILED, "7"))
    reporter.sync_all()
    assert requests.open == []


def test_a_status_that_was_right_from_the_beginning_is_sent_when_the_cloud_has_lost_it(requests: MetaRequests) -> None:
    """After a restart of edged what it computes is what the store has: nothing is sent, and yet it is known."""
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(a_pod()), a_pod(RUNNING))
    assert not reporter.has_status(UID)
    reporter.set_pod_status(UID, RUNNING)
    assert reporter.has_status(UID)
    assert requests.open == []
    reporter.add_pod(ref_of(a_pod()), a_pod(PENDING, version="6"))
    reporter.sync_all()
    assert requests.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


@pytest.mark.parametrize("older_comes_late", [False, True])
def test_a_status_from_the_cloud_during_a_patch_counts_after_it(
    requests: MetaRequests, reporter: StatusManager, *, older_comes_late: bool
) -> None:
    """Another writer changed the status after our patch, so ours is sent again. The answer to an earlier query may
    arrive after the change.
    """
    reporter.set_pod_status(UID, RUNNING)
    reporter.add_pod(ref_of(a_pod()), a_pod(FAILED, "9"))
    if older_comes_late:
        reporter.add_pod(ref_of(a_pod()), a_pod(PENDING, "5"))
    requests.answer({"metadata": {"resourceVersion": "6"}})
    assert requests.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_of_two_states_of_one_version_the_later_counts(requests: MetaRequests, reporter: StatusManager) -> None:
    """While a patch is under way, as well as without one."""
    reporter.set_pod_status(UID, RUNNING)
    for status in (FAILED, RUNNING):
        reporter.add_pod(ref_of(a_pod()), a_pod(status, "9"))
    requests.answer({"metadata": {"resourceVersion": "6"}})
    assert requests.open == []


def test_the_echo_of_our_own_patch_changes_nothing(requests: MetaRequests, reporter: StatusManager) -> None:
    reporter.set_pod_status(UID, RUNNING)
    reporter.add_pod(ref_of(a_pod()), a_pod(RUNNING, "6"))
    requests.answer({"metadata": {"resourceVersion": "6"}})
    assert requests.open == []
    reporter.set_pod_status(UID, FAILED)
    requests.answer(b"[}")
    reporter.sync_all()
    assert requests.open == [], "nor does it come back after the next one"


def test_what_others_wrote_is_corrected_immediately_and_then_less_often(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    """A cluster's controller writes that the pods of an absent node are not ready. A writer that insists is answered in
    the status period.
    """
    reporter.set_pod_status(UID, RUNNING)
    requests.answer({"metadata": {"resourceVersion": "6"}})
    reporter.correct_pod_status(UID)
    assert requests.open == []
    for version in range(7, 7 + 2 * CORRECTIONS, 2):
        reporter.add_pod(ref_of(a_pod()), a_pod(replace(RUNNING, reason="NodeLost"), str(version)))
        reporter.correct_pod_status(UID)
        assert requests.open[0].value["status"] == {"reason": None}
        reporter.correct_pod_status(UID)
        requests.answer({"metadata": {"resourceVersion": str(version + 1)}})
    reporter.add_pod(ref_of(a_pod()), a_pod(replace(RUNNING, reason="NodeLost"), "90"))
    reporter.correct_pod_status(UID)
    assert requests.open == []
    requests.clock.jump_wall(-86400.0)
    requests.run(CORRECTION_PERIOD)
    reporter.correct_pod_status(UID)
    assert len(requests.open) == 1


def test_a_calm_pending_is_held_back_when_the_cloud_sends_the_pod_again(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    reporter.correct_pod_status(UID)
    reporter.correct_pod_status(PodUid("unknown"))
    assert requests.open == []


def test_what_others_wrote_into_a_mirror_is_corrected_immediately(requests: MetaRequests) -> None:
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(a_static_pod("s")), a_static_pod("s"))
    reporter.set_mirror(PodUid("s"), a_pod(uid="m"))
    reporter.set_pod_status(PodUid("s"), RUNNING)
    requests.answer({"metadata": {"resourceVersion": "6"}})
    reporter.set_mirror(PodUid("s"), a_pod(replace(RUNNING, reason="NodeLost"), "7", uid="m"))
    assert requests.open[0].value["status"] == {"reason": None}


@pytest.mark.parametrize("echo_first", [True, False])
def test_what_others_wrote_just_before_our_patch_is_put_right(
    requests: MetaRequests, reporter: StatusManager, *, echo_first: bool
) -> None:
    """The patch was merged into it, and left what it did not name: so the cloud says of the version of its answer."""
    mixed = replace(RUNNING, reason="NodeLost")
    reporter.set_pod_status(UID, RUNNING)
    if echo_first:
        reporter.add_pod(ref_of(a_pod()), a_pod(mixed, "7"))
    requests.answer({"metadata": {"resourceVersion": "7"}})
    if not echo_first:
        reporter.add_pod(ref_of(a_pod()), a_pod(mixed, "7"))
    reporter.sync_all()
    assert requests.open[0].value["status"] == {"reason": None}


def test_a_state_without_a_version_is_no_news(requests: MetaRequests) -> None:
    """Of two such, nobody knows which is newer."""
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(a_pod()), a_pod(RUNNING, ""))
    reporter.set_pod_status(UID, RUNNING)
    reporter.add_pod(ref_of(a_pod()), a_pod(PENDING, ""))
    reporter.sync_all()
    assert requests.open == []


def test_of_a_pod_from_the_store_everything_is_reported_until_the_cloud_has_spoken(requests: MetaRequests) -> None:
    """A former life may have sent a patch that the cloud has taken: a difference to the store's status would leave the
    rest of that.
    """
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(a_pod()), a_pod(RUNNING))
    reporter.mark_from_store(UID)
    reporter.set_pod_status(UID, RUNNING)
    assert requests.open == []
    reporter.set_pod_status(UID, replace(RUNNING, phase="Failed"))
    said = requests.open[0].value["status"]
    assert {name: value for name, value in said.items() if value is not None} == {
        "phase": "Failed",
        "podIP": "10.0.0.1",
    }
    assert {"reason", "message", "containerStatuses", "startTime"} <= said.keys()
    requests.answer({})
    reporter.set_pod_status(UID, RUNNING)
    assert requests.answer({}).value["status"] == {"phase": "Running"}


@pytest.mark.parametrize(("version", "is_base"), [("6", True), ("5", False)])
def test_the_clouds_status_of_a_pod_from_the_store_is_the_base_if_it_is_newer(
    requests: MetaRequests, version: str, *, is_base: bool
) -> None:
    """cloudcore's watch may be behind: a difference to the store's version left addresses of a former life."""
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(a_pod()), a_pod(RUNNING))
    reporter.mark_from_store(UID)
    reporter.add_pod(ref_of(a_pod()), a_pod(RUNNING, version))
    reporter.set_pod_status(UID, replace(RUNNING, phase="Failed"))
    assert ("podIPs" not in requests.open[0].value["status"]) is is_base
    assert requests.open[0].value["status"]["phase"] == "Failed"


def test_a_pod_that_has_ended_is_deleted_in_the_cloud_after_its_last_status(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    reporter.set_pod_status(UID, FAILED)
    reporter.terminate_pod(UID)
    assert requests.asked() == ["patch podpatch"]
    requests.answer({})
    assert requests.asked() == ["delete pod"]
    assert requests.answer(None).value["preconditions"] == {"uid": UID}
    reporter.add_pod(ref_of(a_pod()), a_pod(PENDING, "9"))
    reporter.set_pod_status(UID, RUNNING)
    reporter.sync_all()
    assert requests.open == [], "neither its status nor the deletion"


def test_a_deletion_that_the_cloud_took_and_lost_is_asked_for_again_when_it_comes_back(
    requests: MetaRequests, reporter: StatusManager
) -> None:
    """A cloudcore that is killed between its word and its deed."""
    reporter.terminate_pod(UID)
    requests.answer(None)
    reporter.sync_all()
    assert requests.open == []
    reporter.connected()
    assert requests.answer(None).value["preconditions"] == {"uid": UID}
    reporter.sync_all()
    assert requests.open == []


def test_a_deletion_that_failed_is_asked_for_again(requests: MetaRequests, reporter: StatusManager) -> None:
    reporter.terminate_pod(UID)
    requests.answer(AWAY)
    reporter.sync_all()
    assert requests.asked() == ["delete pod"]


@pytest.mark.parametrize("answer", [{}, AWAY])
def test_of_a_pod_that_is_forgotten_nothing_more_is_sent(
    requests: MetaRequests, reporter: StatusManager, answer: object
) -> None:
    reporter.set_pod_status(UID, RUNNING)
    reporter.set_pod_status(UID, FAILED)
    reporter.connected()
    reporter.forget_pod(UID)
    requests.answer(answer)
    reporter.set_pod_status(UID, RUNNING)
    reporter.sync_all()
    assert requests.open == []


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("answer", [NOT_FOUND, {"metadata": {"resourceVersion": "6"}}], ids=["gone", "taken"])
def test_an_answer_about_a_former_mirror_does_not_count_for_the_next(
    requests: MetaRequests, answer: object, is_late: bool
) -> None:
    """The cloud has another one of a static pod before it is heard what became of the status of the first."""
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(a_pod()), a_static_pod(UID))
    reporter.set_mirror(UID, a_static_pod("first"))
    reporter.set_pod_status(UID, RUNNING)
    if is_late:
        reporter.set_mirror(UID, a_static_pod("next"))
    assert requests.answer(answer).value["metadata"] == {"uid": "first"}
    reporter.set_mirror(UID, a_static_pod("next"))
    assert requests.open[0].value == {"metadata": {"uid": "next"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}


def test_an_answer_that_cannot_be_read_is_taken_for_a_yes(requests: MetaRequests, reporter: StatusManager) -> None:
    """An older status that arrives later is still an older one."""
    reporter.set_pod_status(UID, RUNNING)
    requests.answer(b"[}")
    reporter.add_pod(ref_of(a_pod()), a_pod(version="4"))
    reporter.sync_all()
    assert requests.open == []
