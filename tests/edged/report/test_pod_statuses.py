"""How pods' statuses get to the cloud, question by question."""

import pytest
from msgspec.structs import replace

from edged.api import ContainerState, ContainerStateWaiting, ContainerStatus, ObjectMeta, Pod, PodSpec, PodStatus
from edged.pods.critical import CONFIG_SOURCE
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.report.pods import PENDING_DELAY, PodReporter
from metamanager.client import NoAnswerError, NotConnectedError
from tests.edged.report.turns import NOT_FOUND, Turns, rejected

UID = PodUid("u1")
AWAY = NotConnectedError("ask", "it")
LOST = NoAnswerError("ask", "it")
PENDING = PodStatus(phase="Pending")
RUNNING = PodStatus(phase="Running", pod_ip="10.0.0.1")
FAILED = PodStatus(phase="Failed")


def a_pod(status: PodStatus = PENDING, version: str = "5") -> Pod:
    metadata = ObjectMeta(name="web", namespace="default", uid=UID, resource_version=version)
    return Pod(metadata=metadata, spec=PodSpec(), status=status)


def a_static_pod(uid: str) -> Pod:
    notes = {CONFIG_SOURCE: "file"}
    return replace(a_pod(), metadata=replace(a_pod().metadata, uid=uid, annotations=notes))


def waiting_for(reason: str) -> PodStatus:
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason))
    return PodStatus(phase="Pending", container_statuses=(ContainerStatus(name="main", state=state),))


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def reporter(turns: Turns) -> PodReporter:
    """Knows one pod, Pending in the cloud at version 5."""
    reporter = PodReporter(turns.client, turns)
    reporter.track(ref_of(a_pod()), a_pod())
    return reporter


def test_a_change_is_sent_at_once_as_the_difference(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    [question] = turns.open
    assert question.value["metadata"] == {"uid": UID}
    assert question.value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_one_is_under_way_and_the_newest_follows(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    reporter.report(UID, waiting_for("ErrImagePull"))
    reporter.report(UID, FAILED)
    assert len(turns.open) == 1
    turns.answer({"metadata": {"resourceVersion": "6"}})
    assert turns.answer({}).value["status"] == {"phase": "Failed", "podIP": None}
    assert turns.open == []


def test_a_calm_pending_waits_a_moment_and_is_left_out_when_it_has_passed(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, waiting_for("ContainerCreating"))
    turns.run(PENDING_DELAY / 2)
    reporter.send_all()
    assert turns.open == []
    reporter.report(UID, RUNNING)
    turns.run(PENDING_DELAY)
    assert [q.value["status"]["phase"] for q in turns.open] == ["Running"]


def test_a_calm_pending_that_lasts_is_sent(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, waiting_for("ContainerCreating"))
    turns.run(PENDING_DELAY)
    assert len(turns.open) == 1


def test_a_pending_with_trouble_does_not_wait(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, waiting_for("ErrImagePull"))
    assert len(turns.open) == 1


@pytest.mark.parametrize("error", [AWAY, rejected(500), LOST])
def test_what_was_refused_is_sent_again_with_the_next_period(
    turns: Turns, reporter: PodReporter, error: Exception
) -> None:
    reporter.report(UID, RUNNING)
    turns.answer(error)
    assert turns.open == []
    reporter.send_all()
    assert turns.open[0].value["status"]["phase"] == "Running"


def test_after_a_lost_answer_everything_is_said(turns: Turns, reporter: PodReporter) -> None:
    """The cloud may have RUNNING by now; a difference to what it had before would leave the address there."""
    reporter.report(UID, RUNNING)
    turns.answer(LOST)
    reporter.report(UID, PENDING)
    turns.run(PENDING_DELAY)
    assert turns.open[0].value["status"]["phase"] == "Pending"
    turns.answer({})
    reporter.report(UID, RUNNING)
    assert turns.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_a_cloud_that_comes_while_a_patch_is_failing_is_not_missed(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    reporter.connected()
    turns.answer(AWAY)
    assert turns.asked() == ["patch podpatch"]
    turns.answer(AWAY)
    assert turns.open == []


def test_a_pod_the_cloud_does_not_know_is_not_sent_again_until_it_connects(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    turns.answer(NOT_FOUND)
    reporter.send_all()
    assert turns.open == []
    reporter.connected()
    assert len(turns.open) == 1


def test_a_pod_the_cloud_sends_anew_is_known_again(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    turns.answer(NOT_FOUND)
    reporter.track(ref_of(a_pod()), a_pod(version="6"))
    reporter.send_all()
    assert len(turns.open) == 1


def test_what_the_cloud_sends_is_the_base_unless_it_is_older(turns: Turns, reporter: PodReporter) -> None:
    reporter.track(ref_of(a_pod()), a_pod(RUNNING, "4"))
    reporter.track(ref_of(a_pod()), a_pod(FAILED, "7"))
    reporter.report(UID, RUNNING)
    assert turns.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}
    turns.answer({"metadata": {"resourceVersion": "8"}})
    reporter.track(ref_of(a_pod()), a_pod(FAILED, "7"))
    reporter.send_all()
    assert turns.open == []


def test_a_status_that_was_right_from_the_beginning_is_sent_when_the_cloud_has_lost_it(turns: Turns) -> None:
    """After a restart of edged what it computes is what the store has: nothing is sent, and yet it is known."""
    reporter = PodReporter(turns.client, turns)
    reporter.track(ref_of(a_pod()), a_pod(RUNNING))
    assert not reporter.has_heard(UID)
    reporter.report(UID, RUNNING)
    assert reporter.has_heard(UID)
    assert turns.open == []
    reporter.track(ref_of(a_pod()), a_pod(PENDING, version="6"))
    reporter.send_all()
    assert turns.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_what_the_cloud_sends_while_a_patch_is_under_way_counts_after_it(turns: Turns, reporter: PodReporter) -> None:
    """Somebody else changed the status after our patch: ours is sent once more."""
    reporter.report(UID, RUNNING)
    reporter.track(ref_of(a_pod()), a_pod(FAILED, "9"))
    turns.answer({"metadata": {"resourceVersion": "6"}})
    assert turns.open[0].value["status"] == {"phase": "Running", "podIP": "10.0.0.1"}


def test_the_echo_of_our_own_patch_changes_nothing(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    reporter.track(ref_of(a_pod()), a_pod(RUNNING, "6"))
    turns.answer({"metadata": {"resourceVersion": "6"}})
    assert turns.open == []


@pytest.mark.parametrize("echo_first", [True, False])
def test_what_others_wrote_just_before_our_patch_is_put_right(
    turns: Turns, reporter: PodReporter, *, echo_first: bool
) -> None:
    """The patch was merged into it, and left what it did not name: so the cloud says of the version of its answer."""
    mixed = replace(RUNNING, reason="NodeLost")
    reporter.report(UID, RUNNING)
    if echo_first:
        reporter.track(ref_of(a_pod()), a_pod(mixed, "7"))
    turns.answer({"metadata": {"resourceVersion": "7"}})
    if not echo_first:
        reporter.track(ref_of(a_pod()), a_pod(mixed, "7"))
    reporter.send_all()
    assert turns.open[0].value["status"] == {"reason": None}


def test_a_state_without_a_version_says_nothing_new(turns: Turns) -> None:
    """Of two such, nobody knows which is newer."""
    reporter = PodReporter(turns.client, turns)
    reporter.track(ref_of(a_pod()), a_pod(RUNNING, ""))
    reporter.report(UID, RUNNING)
    reporter.track(ref_of(a_pod()), a_pod(PENDING, ""))
    reporter.send_all()
    assert turns.open == []


def test_of_a_pod_from_the_store_everything_is_said_until_the_cloud_has_spoken(turns: Turns) -> None:
    """A former life may have sent a patch that the cloud has taken: a difference to the store's status would leave the
    rest of that.
    """
    reporter = PodReporter(turns.client, turns)
    reporter.track(ref_of(a_pod()), a_pod(RUNNING))
    reporter.of_store(UID)
    reporter.report(UID, RUNNING)
    assert turns.open == []
    reporter.report(UID, replace(RUNNING, phase="Failed"))
    said = turns.open[0].value["status"]
    assert {name: value for name, value in said.items() if value is not None} == {
        "phase": "Failed",
        "podIP": "10.0.0.1",
    }
    assert {"reason", "message", "containerStatuses", "startTime"} <= said.keys()
    turns.answer({})
    reporter.report(UID, RUNNING)
    assert turns.answer({}).value["status"] == {"phase": "Running"}


def test_what_the_cloud_says_of_a_pod_from_the_store_is_the_base(turns: Turns) -> None:
    reporter = PodReporter(turns.client, turns)
    reporter.track(ref_of(a_pod()), a_pod(RUNNING))
    reporter.of_store(UID)
    reporter.track(ref_of(a_pod()), a_pod(RUNNING, "6"))
    reporter.report(UID, replace(RUNNING, phase="Failed"))
    assert turns.open[0].value["status"] == {"phase": "Failed"}


def test_a_pod_that_has_ended_is_deleted_in_the_cloud_after_its_last_status(
    turns: Turns, reporter: PodReporter
) -> None:
    reporter.report(UID, FAILED)
    reporter.finish(UID)
    assert turns.asked() == ["patch podpatch"]
    turns.answer({})
    assert turns.asked() == ["delete pod"]
    assert turns.answer(None).value["preconditions"] == {"uid": UID}
    reporter.track(ref_of(a_pod()), a_pod(RUNNING, "9"))
    reporter.report(UID, RUNNING)
    reporter.send_all()
    assert turns.open == []


def test_a_deletion_that_the_cloud_took_and_lost_is_asked_for_again_when_it_comes_back(
    turns: Turns, reporter: PodReporter
) -> None:
    """A cloudcore that is killed between its word and its deed."""
    reporter.finish(UID)
    turns.answer(None)
    reporter.send_all()
    assert turns.open == []
    reporter.connected()
    assert turns.answer(None).value["preconditions"] == {"uid": UID}
    reporter.send_all()
    assert turns.open == []


def test_a_deletion_that_failed_is_asked_for_again(turns: Turns, reporter: PodReporter) -> None:
    reporter.finish(UID)
    turns.answer(AWAY)
    reporter.send_all()
    assert turns.asked() == ["delete pod"]


def test_of_a_pod_that_is_forgotten_nothing_more_is_sent(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    reporter.report(UID, FAILED)
    reporter.forget(UID)
    turns.answer({})
    reporter.report(UID, RUNNING)
    reporter.send_all()
    assert turns.open == []


@pytest.mark.parametrize("answer", [NOT_FOUND, {"metadata": {"resourceVersion": "6"}}], ids=["gone", "taken"])
def test_an_answer_about_a_former_mirror_says_nothing_of_the_next(turns: Turns, answer: object) -> None:
    """The cloud has another one of a static pod before it is heard what became of the status of the first."""
    reporter = PodReporter(turns.client, turns)
    reporter.track(ref_of(a_pod()), a_static_pod(UID))
    reporter.mirrored(UID, a_static_pod("first"))
    reporter.report(UID, RUNNING)
    reporter.mirrored(UID, a_static_pod("next"))
    assert turns.answer(answer).value["metadata"] == {"uid": "first"}
    assert turns.open[0].value == {"metadata": {"uid": "next"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}


def test_an_answer_that_cannot_be_read_is_taken_for_a_yes(turns: Turns, reporter: PodReporter) -> None:
    reporter.report(UID, RUNNING)
    turns.answer(b"[}")
    reporter.send_all()
    assert turns.open == []
