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


class Bed(MetaRequests):
    """A status manager that knows one pod, and its requests."""

    def __init__(self, known: Pod) -> None:
        super().__init__()
        self.reporter = StatusManager(self.client, self)
        self.add(known)

    def add(self, pod: Pod) -> None:
        """The cloud sends a pod."""
        self.reporter.add_pod(ref_of(pod), pod)


@pytest.fixture
def bed() -> Bed:
    """The pod is Pending in the cloud at version 5."""
    return Bed(a_pod())


def test_a_change_is_sent_immediately_as_the_difference(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    [request] = bed.open
    assert request.value["metadata"] == {"uid": UID}
    assert request.value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_one_patch_is_under_way_and_the_newest_status_follows(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.reporter.set_pod_status(UID, waiting_for("ErrImagePull"))
    bed.reporter.set_pod_status(UID, FAILED)
    assert len(bed.open) == 1
    bed.answer({"metadata": {"resourceVersion": "6"}})
    assert bed.answer({}).value["status"] == {"phase": "Failed", "podIP": None}
    assert bed.open == []


@pytest.mark.parametrize("name", ["DisruptionTarget", "example.com/gate"])
def test_what_another_has_set_while_the_status_was_under_way_or_held_back_stays(bed: Bed, name: str) -> None:
    """An eviction or a readiness gate: neither the status that waits for its turn nor the next one was computed with
    it.
    """
    condition = PodCondition(type=name, status="True", reason="EvictionByEvictionAPI")
    ready = PodCondition(type="Ready", status="False")
    bed.reporter.set_pod_status(UID, replace(RUNNING, conditions=(ready,)))
    bed.reporter.set_pod_status(UID, replace(RUNNING, conditions=(replace(ready, status="True"),)))
    evicted = a_pod(replace(RUNNING, conditions=(condition, ready)), version="7")
    bed.add(evicted)
    patches = [bed.answer({"metadata": {"resourceVersion": "6"}}).value]
    bed.reporter.correct_pod_status(UID)
    bed.reporter.set_pod_status(UID, replace(FAILED, conditions=(ready,)))
    patches += [bed.answer({"metadata": {"resourceVersion": "8"}}).value for _ in bed.open]
    written = [one for patch in patches for one in patch["status"].get("conditions", ())]
    assert [one["type"] for one in written] == ["Ready"] * len(written) != []


def test_a_calm_pending_waits_a_moment_and_is_left_out_when_it_has_passed(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    bed.run(PENDING_DELAY / 2)
    bed.reporter.sync_all()
    assert bed.open == []
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.run(PENDING_DELAY)
    assert [q.value["status"]["phase"] for q in bed.open] == ["Running"]


def test_a_calm_pending_that_lasts_is_sent(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    bed.clock.jump_wall(-86400.0)
    bed.run(PENDING_DELAY)
    assert len(bed.open) == 1


def test_a_calm_pending_that_comes_after_another_was_sent_is_sent_too(bed: Bed) -> None:
    bed.add(a_pod(uid="u2"))
    for number, uid in enumerate((UID, PodUid("u2")), 1):
        bed.reporter.set_pod_status(uid, waiting_for("ContainerCreating"))
        bed.run(2 * PENDING_DELAY)
        assert len(bed.open) == number


@pytest.mark.parametrize("jump", [-86400.0, 0.0, 86400.0])
def test_each_calm_pending_waits_its_own_time_for_any_wall_clock(bed: Bed, jump: float) -> None:
    bed.add(a_pod(uid="u2"))
    bed.reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    bed.run(PENDING_DELAY * 0.75)
    bed.clock.jump_wall(jump)
    bed.reporter.set_pod_status(PodUid("u2"), waiting_for("ContainerCreating"))
    bed.run(PENDING_DELAY * 0.25)
    assert len(bed.open) == 1
    bed.run(PENDING_DELAY * 0.70)
    assert len(bed.open) == 1, "the second waits as long as the first has"
    bed.run(PENDING_DELAY * 0.05)
    assert len(bed.open) == 2


def test_a_calm_pending_waits_its_own_time_when_an_earlier_one_was_left_out(bed: Bed) -> None:
    """And not that of a turn which was nobody's, however little is left of its own."""
    bed.add(a_pod(uid="u2"))
    bed.reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    bed.run(0.001)
    bed.reporter.set_pod_status(PodUid("u2"), waiting_for("ContainerCreating"))
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.run(PENDING_DELAY)
    assert [request.value["metadata"]["uid"] for request in bed.open] == [UID, "u2"]


def test_a_calm_pending_waits_again_after_the_last_one_was_left_out(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.answer({})
    bed.reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    assert bed.open == []
    bed.run(PENDING_DELAY)
    assert len(bed.open) == 1


def test_after_a_lost_answer_the_whole_status_is_sent_also_when_the_cloud_came_back_meanwhile(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    difference = set(bed.open[0].value["status"])
    bed.reporter.connected()
    bed.answer(LOST)
    assert set(bed.open[0].value["status"]) > difference


def test_a_lost_answer_counts_until_one_has_come(bed: Bed) -> None:
    """A refusal after it says nothing about the status whose answer was lost."""
    bed.reporter.set_pod_status(UID, RUNNING)
    difference = set(bed.answer(LOST).value["status"])
    bed.reporter.sync_all()
    bed.answer(AWAY)
    bed.reporter.sync_all()
    assert set(bed.open[0].value["status"]) > difference


def test_one_pending_status_at_a_time_is_sent_for_many_pods_that_start_together(bed: Bed) -> None:
    uids = [PodUid(f"u{number}") for number in range(2, 6)]
    for uid in uids:
        pod = a_pod(uid=uid)
        bed.add(pod)
        bed.reporter.set_pod_status(uid, waiting_for("ContainerCreating"))
    sent: list[list[str]] = []
    for _ in range(4):
        bed.run(PENDING_DELAY if not sent else PENDING_PERIOD)
        sent.append([request.value["metadata"]["uid"] for request in bed.open])
        if len(sent) == 1:
            bed.reporter.set_pod_status(uids[1], RUNNING)
            bed.reporter.forget_pod(uids[2])
    assert sent == [["u2"], ["u2", "u3", "u5"], ["u2", "u3", "u5"], ["u2", "u3", "u5"]]
    assert [request.value["status"].get("phase") for request in bed.open] == [None, "Running", None]


def test_a_pending_with_trouble_does_not_wait(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, waiting_for("ErrImagePull"))
    assert len(bed.open) == 1


def test_a_status_that_is_followed_by_another_is_left_out(bed: Bed) -> None:
    """Also when the cloud sends the pod again meanwhile."""
    bed.reporter.set_pod_status(UID, RUNNING, is_followed=True)
    bed.add(a_pod(version="6"))
    bed.reporter.correct_pod_status(UID)
    assert bed.open == []
    bed.reporter.set_pod_status(UID, FAILED)
    assert [request.value["status"] for request in bed.open] == [{"phase": "Failed"}]


def test_a_status_that_nothing_follows_is_sent_with_the_next_period(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING, is_followed=True)
    bed.reporter.sync_all()
    assert [request.value["status"]["phase"] for request in bed.open] == ["Running"]
    bed.answer({"metadata": {"resourceVersion": "6"}})
    bed.add(a_pod(replace(RUNNING, reason="NodeLost"), "7"))
    bed.reporter.correct_pod_status(UID)
    assert [request.value["status"] for request in bed.open] == [{"reason": None}], "it is corrected from then on"


def test_a_pod_is_deleted_after_a_status_that_nothing_has_followed(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, FAILED, is_followed=True)
    bed.reporter.terminate_pod(UID)
    assert bed.asked() == ["patch podpatch"]
    bed.answer({})
    assert bed.asked() == ["delete pod"]


@pytest.mark.parametrize("error", [AWAY, rejected(500), LOST])
def test_a_refused_status_is_sent_again_with_the_next_period(bed: Bed, error: Exception) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.answer(error)
    assert bed.open == []
    bed.reporter.sync_all()
    assert bed.open[0].value["status"]["phase"] == "Running"


@pytest.mark.parametrize("error", [LOST, *map(rejected, (500, 502, 503, 504, 599))])
def test_after_a_lost_answer_everything_is_reported(bed: Bed, error: Exception) -> None:
    """The cloud may have RUNNING by now, also when it is the one that got no answer, from its API server; a difference
    to what it had before would leave the address there.
    """
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.answer(error)
    bed.reporter.set_pod_status(UID, PENDING)
    bed.run(PENDING_DELAY)
    assert bed.open[0].value["status"]["phase"] == "Pending"
    bed.answer({})
    bed.reporter.set_pod_status(UID, RUNNING)
    assert bed.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_a_cloud_that_comes_while_a_patch_is_failing_is_not_missed(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.reporter.connected()
    bed.answer(AWAY)
    assert bed.asked() == ["patch podpatch"]
    bed.answer(AWAY)
    assert bed.open == []


def test_a_pod_the_cloud_does_not_know_is_not_sent_again_until_it_connects(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.answer(NOT_FOUND)
    bed.reporter.sync_all()
    assert bed.open == []
    bed.reporter.connected()
    assert len(bed.open) == 1


def test_a_pod_that_the_cloud_sends_again_is_known(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.answer(NOT_FOUND)
    bed.add(a_pod(version="6"))
    bed.reporter.sync_all()
    assert len(bed.open) == 1


def test_a_status_from_the_cloud_is_the_base_unless_it_is_older(bed: Bed) -> None:
    bed.add(a_pod(RUNNING, "4"))
    bed.add(a_pod(FAILED, "7"))
    bed.reporter.set_pod_status(UID, RUNNING)
    assert bed.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}
    bed.answer({"metadata": {"resourceVersion": "8"}})
    bed.add(a_pod(FAILED, "7"))
    bed.reporter.sync_all()
    assert bed.open == []


def test_a_status_that_was_right_from_the_beginning_is_sent_when_the_cloud_has_lost_it() -> None:
    """After a restart of edged what it computes is what the store has: nothing is sent, and yet it is known."""
    bed = Bed(a_pod(RUNNING))
    assert not bed.reporter.has_status(UID)
    bed.reporter.set_pod_status(UID, RUNNING)
    assert bed.reporter.has_status(UID)
    assert bed.open == []
    bed.add(a_pod(PENDING, version="6"))
    bed.reporter.sync_all()
    assert bed.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


@pytest.mark.parametrize("older_comes_late", [False, True])
def test_a_status_from_the_cloud_during_a_patch_counts_after_it(bed: Bed, *, older_comes_late: bool) -> None:
    """Another writer changed the status after our patch, so ours is sent again. The answer to an earlier query may
    arrive after the change.
    """
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.add(a_pod(FAILED, "9"))
    if older_comes_late:
        bed.add(a_pod(PENDING, "5"))
    bed.answer({"metadata": {"resourceVersion": "6"}})
    assert bed.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_of_two_states_of_one_version_the_later_counts(bed: Bed) -> None:
    """While a patch is under way, as well as without one."""
    bed.reporter.set_pod_status(UID, RUNNING)
    for status in (FAILED, RUNNING):
        bed.add(a_pod(status, "9"))
    bed.answer({"metadata": {"resourceVersion": "6"}})
    assert bed.open == []


def test_the_echo_of_our_own_patch_changes_nothing(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.add(a_pod(RUNNING, "6"))
    bed.answer({"metadata": {"resourceVersion": "6"}})
    assert bed.open == []
    bed.reporter.set_pod_status(UID, FAILED)
    bed.answer(b"[}")
    bed.reporter.sync_all()
    assert bed.open == [], "nor does it come back after the next one"


def test_what_others_wrote_is_corrected_immediately_and_then_less_often(bed: Bed) -> None:
    """A cluster's controller writes that the pods of an absent node are not ready. A writer that insists is answered in
    the status period.
    """
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.answer({"metadata": {"resourceVersion": "6"}})
    bed.reporter.correct_pod_status(UID)
    assert bed.open == []
    for version in range(7, 7 + 2 * CORRECTIONS, 2):
        bed.add(a_pod(replace(RUNNING, reason="NodeLost"), str(version)))
        bed.reporter.correct_pod_status(UID)
        assert bed.open[0].value["status"] == {"reason": None}
        bed.reporter.correct_pod_status(UID)
        bed.answer({"metadata": {"resourceVersion": str(version + 1)}})
    bed.add(a_pod(replace(RUNNING, reason="NodeLost"), "90"))
    bed.reporter.correct_pod_status(UID)
    assert bed.open == []
    bed.clock.jump_wall(-86400.0)
    bed.run(CORRECTION_PERIOD)
    bed.reporter.correct_pod_status(UID)
    assert len(bed.open) == 1


def test_a_calm_pending_is_held_back_when_the_cloud_sends_the_pod_again(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, waiting_for("ContainerCreating"))
    bed.reporter.correct_pod_status(UID)
    bed.reporter.correct_pod_status(PodUid("unknown"))
    assert bed.open == []


def test_what_others_wrote_into_a_mirror_is_corrected_immediately() -> None:
    bed = Bed(a_static_pod("s"))
    bed.reporter.set_mirror(PodUid("s"), a_pod(uid="m"))
    bed.reporter.set_pod_status(PodUid("s"), RUNNING)
    bed.answer({"metadata": {"resourceVersion": "6"}})
    bed.reporter.set_mirror(PodUid("s"), a_pod(replace(RUNNING, reason="NodeLost"), "7", uid="m"))
    assert bed.open[0].value["status"] == {"reason": None}


@pytest.mark.parametrize("echo_first", [True, False])
def test_what_others_wrote_just_before_our_patch_is_put_right(bed: Bed, *, echo_first: bool) -> None:
    """The patch was merged into it, and left what it did not name: so the cloud says of the version of its answer."""
    mixed = replace(RUNNING, reason="NodeLost")
    bed.reporter.set_pod_status(UID, RUNNING)
    if echo_first:
        bed.add(a_pod(mixed, "7"))
    bed.answer({"metadata": {"resourceVersion": "7"}})
    if not echo_first:
        bed.add(a_pod(mixed, "7"))
    bed.reporter.sync_all()
    assert bed.open[0].value["status"] == {"reason": None}


def test_a_state_without_a_version_is_no_news() -> None:
    """Of two such, nobody knows which is newer."""
    bed = Bed(a_pod(RUNNING, ""))
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.add(a_pod(PENDING, ""))
    bed.reporter.sync_all()
    assert bed.open == []


def test_of_a_pod_from_the_store_everything_is_reported_until_the_cloud_has_spoken() -> None:
    """A former life may have sent a patch that the cloud has taken: a difference to the store's status would leave the
    rest of that.
    """
    bed = Bed(a_pod(RUNNING))
    bed.reporter.mark_from_store(UID)
    bed.reporter.set_pod_status(UID, RUNNING)
    assert bed.open == []
    bed.reporter.set_pod_status(UID, replace(RUNNING, phase="Failed"))
    said = bed.open[0].value["status"]
    assert {name: value for name, value in said.items() if value is not None} == {
        "phase": "Failed",
        "podIP": "10.0.0.1",
    }
    assert {"reason", "message", "containerStatuses", "startTime"} <= said.keys()
    bed.answer({})
    bed.reporter.set_pod_status(UID, RUNNING)
    assert bed.answer({}).value["status"] == {"phase": "Running"}


@pytest.mark.parametrize(("version", "is_base"), [("6", True), ("5", False)])
def test_the_clouds_status_of_a_pod_from_the_store_is_the_base_if_it_is_newer(version: str, *, is_base: bool) -> None:
    """cloudcore's watch may be behind: a difference to the store's version left addresses of a former life."""
    bed = Bed(a_pod(RUNNING))
    bed.reporter.mark_from_store(UID)
    bed.add(a_pod(RUNNING, version))
    bed.reporter.set_pod_status(UID, replace(RUNNING, phase="Failed"))
    assert ("podIPs" not in bed.open[0].value["status"]) is is_base
    assert bed.open[0].value["status"]["phase"] == "Failed"


def test_a_pod_that_has_ended_is_deleted_in_the_cloud_after_its_last_status(bed: Bed) -> None:
    bed.reporter.set_pod_status(UID, FAILED)
    bed.reporter.terminate_pod(UID)
    assert bed.asked() == ["patch podpatch"]
    bed.answer({})
    assert bed.asked() == ["delete pod"]
    assert bed.answer(None).value["preconditions"] == {"uid": UID}
    bed.add(a_pod(PENDING, "9"))
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.reporter.sync_all()
    assert bed.open == [], "neither its status nor the deletion"


def test_a_deletion_that_the_cloud_took_and_lost_is_asked_for_again_when_it_comes_back(bed: Bed) -> None:
    """A cloudcore that is killed between its word and its deed."""
    bed.reporter.terminate_pod(UID)
    bed.answer(None)
    bed.reporter.sync_all()
    assert bed.open == []
    bed.reporter.connected()
    assert bed.answer(None).value["preconditions"] == {"uid": UID}
    bed.reporter.sync_all()
    assert bed.open == []


def test_a_deletion_that_failed_is_asked_for_again(bed: Bed) -> None:
    bed.reporter.terminate_pod(UID)
    bed.answer(AWAY)
    bed.reporter.sync_all()
    assert bed.asked() == ["delete pod"]


@pytest.mark.parametrize("answer", [{}, AWAY])
def test_of_a_pod_that_is_forgotten_nothing_more_is_sent(bed: Bed, answer: object) -> None:
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.reporter.set_pod_status(UID, FAILED)
    bed.reporter.connected()
    bed.reporter.forget_pod(UID)
    bed.answer(answer)
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.reporter.sync_all()
    assert bed.open == []


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("answer", [NOT_FOUND, {"metadata": {"resourceVersion": "6"}}], ids=["gone", "taken"])
def test_an_answer_about_a_former_mirror_does_not_count_for_the_next(answer: object, is_late: bool) -> None:
    """The cloud has another one of a static pod before it is heard what became of the status of the first."""
    bed = Bed(a_static_pod(UID))
    bed.reporter.set_mirror(UID, a_static_pod("first"))
    bed.reporter.set_pod_status(UID, RUNNING)
    if is_late:
        bed.reporter.set_mirror(UID, a_static_pod("next"))
    assert bed.answer(answer).value["metadata"] == {"uid": "first"}
    bed.reporter.set_mirror(UID, a_static_pod("next"))
    assert bed.open[0].value == {"metadata": {"uid": "next"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}


def test_an_answer_that_cannot_be_read_is_taken_for_a_yes(bed: Bed) -> None:
    """An older status that arrives later is still an older one."""
    bed.reporter.set_pod_status(UID, RUNNING)
    bed.answer(b"[}")
    bed.add(a_pod(version="4"))
    bed.reporter.sync_all()
    assert bed.open == []
