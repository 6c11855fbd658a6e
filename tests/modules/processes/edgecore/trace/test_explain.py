"""The history of one object, and the diagnosis of its state."""

from collections.abc import Callable

import msgspec
import pytest

from beehive.trace import Direction, Record
from beehive.trace.reader import read
from modules.processes.edgecore.trace.diagnosis import Diagnosis, State, diagnose
from modules.processes.edgecore.trace.events import events_of
from modules.processes.edgecore.trace.explanation import explanation_of, lines, seconds
from modules.processes.edgecore.trace.object_history import ObjectHistory, history_of
from modules.processes.edgecore.trace.target import Target, TargetError
from tests.interop.traces import RECORDINGS
from tests.modules.processes.edgecore.trace.made import (
    BEGAN,
    Node,
    arrives,
    message,
    pod,
    reports,
    running_pod,
    sandbox_labels,
    settings,
    starts,
    status,
)

WEB = Target("pod", "default", "web")


def history(records: list[Record], target: Target = WEB) -> ObjectHistory:
    """The history of an object in these records."""
    return history_of(lambda: events_of(iter(records)), target)


def explained(found: ObjectHistory, *, everything: bool = False) -> str:
    """The text that a person reads, without colours."""
    return "\n".join(lines(explanation_of(found, diagnose(found), BEGAN, everything=everything), colour=False))


def diagnosed(node: Node) -> Diagnosis:
    """The diagnosis of the pod at the end of the records."""
    return diagnose(history(node.records))


def test_the_story_goes_from_the_frame_to_the_report() -> None:
    """Every hop, commit and call, and nothing of the other pod."""
    node = Node()
    running_pod(node, "other", "u2")
    running_pod(node, "web", "u1")
    found = history(node.records)
    assert [event.verb for event in found.events] == [
        "insert", "insert", "commit", "insert", "response", "response", "query", "response",
        "run_pod_sandbox", "image_status", "create_container", "start_container",
        "container-started", "patch", "patch", "patch",
    ]  # fmt: skip
    assert diagnose(found).state is State.RUNNING
    assert "other" not in explained(found)


def test_a_story_does_not_depend_on_the_order_of_the_file() -> None:
    """Records are written when they end, so effects may stand before causes."""
    node = Node()
    running_pod(node, "web", "u1")
    there = history(node.records)
    assert history(node.records[::-1]).events == there.events


def starts_and_runs(node: Node, handled: int) -> None:
    """All goes well."""
    reports(node, "web", "u1", status("Running", running=True), starts(node, "web", "u1", handled))


def never_asked(node: Node, handled: int) -> None:
    """edged does nothing."""


def unanswered(node: Node, handled: int) -> None:
    """metamanager never answers for the configmap."""
    settings(node, "u1", handled, answered=False)
    node.wait(12)
    node.timer("edged", "tick", 1)


def refused(node: Node, handled: int) -> None:
    """metamanager says that there is no such configmap."""
    asked = settings(node, "u1", handled, answered=False)
    answer = message(
        "error", "default/configmap/settings", "not found", ident="no", parent="ask-u1", source="metamanager"
    )
    node.deliver(answer, "edged", "metamanager", asked)


def refused_by_cloud(node: Node, handled: int) -> None:
    """The cloud says so, in the form of today."""
    settings(node, "u1", handled, answered=False)
    gone = {"Object": None, "Err": {"ErrStatus": {"message": "configmaps not found", "code": 404}}}
    node.frame(message("response", "default/configmap/settings", gone, ident="no", parent="ask-u1"))


def no_image(node: Node, handled: int) -> None:
    """The registry does not know the image; the node has not reported yet."""
    labels = sandbox_labels("web", "u1")
    node.call("run_pod_sandbox", {"config": {"labels": labels}}, "box", handled)
    request = {"image": {"image": "nginx:1.27"}, "sandbox_config": {"labels": labels}}
    node.call("pull_image", request, None, handled, 3.0, "NotFoundError: no such image nginx:1.27")


def backing_off(node: Node, handled: int) -> None:
    """The container crashes again and again, as the node reports."""
    starts(node, "web", "u1", handled)
    waiting = ("CrashLoopBackOff", "back-off 40s restarting failed container")
    found = status("Running", waiting=waiting, restarts=3)
    found["containerStatuses"][0]["lastState"] = {"terminated": {"exitCode": 143, "reason": "Error"}}
    reports(node, "web", "u1", found, 0)


def reported_pull(node: Node, handled: int) -> None:
    """A message was dropped before the image could not be pulled, as the node reports."""
    dropped(node, handled)
    no_image(node, handled)
    reports(node, "web", "u1", status("Pending", waiting=("ErrImagePull", "no such image nginx:1.27")), 0)


def made_not_started(node: Node, handled: int) -> None:
    """The trace ends between two calls."""
    starts(node, "web", "u1", handled)
    node.records.pop()


def dropped(node: Node, handled: int) -> None:
    """A message about the pod did not fit into an inbox."""
    late = message("update", "default/pod/web", pod("web", "u1"), ident="late")
    node.deliver(late, "edged", "metamanager", 0, "dropped", "inbox full")


@pytest.mark.parametrize(
    ("happens", "why", "step"),
    [
        (never_asked, "has not asked the runtime", "insert"),
        (unanswered, "metamanager has not answered the query for default/configmap/settings (12.0", "query"),
        (refused, "metamanager answered for default/configmap/settings: not found", "error"),
        (refused_by_cloud, "cloud answered for default/configmap/settings: configmaps not found", "response"),
        (no_image, "NotFoundError: no such image nginx:1.27", "pull_image"),
        (reported_pull, "no such image nginx:1.27", "pull_image"),
        (made_not_started, "a container was made and not started", "create_container"),
        (dropped, "dropped: inbox full", "update"),
    ],
)
def test_a_pod_that_does_not_run_waits_for_something(happens: Callable[[Node, int], None], why: str, step: str) -> None:
    """The step that waits is named, with the reason."""
    node = Node()
    handled = arrives(node, "web", "u1")
    happens(node, handled)
    found = history(node.records)
    diagnosis = diagnose(found)
    assert diagnosis.state is State.WAITING
    assert why in diagnosis.why
    assert diagnosis.step is not None
    assert found.events[diagnosis.step].verb == step
    assert "◀ waits here" in explained(found)


def test_a_report_says_why_a_pod_waits_in_the_words_of_why() -> None:
    """Nobody waits at the report, which may have its answer in the next line."""
    node = Node()
    backing_off(node, arrives(node, "web", "u1"))
    found = history(node.records)
    diagnosis = diagnose(found)
    assert (diagnosis.state, diagnosis.is_reported) == (State.WAITING, True)
    ended = "container web ended with exit code 143 (ended by SIGTERM)"
    assert diagnosis.why == f"{ended}; it was restarted 3 times, and waits to be started again"
    assert diagnosis.step is not None
    assert found.events[diagnosis.step].verb == "patch"
    text = explained(found)
    assert "◀ says so" in text
    assert "waits here" not in text


def test_a_failure_that_came_right_later_is_no_reason() -> None:
    """A pull that failed once and then went well has nothing to do with it."""
    node = Node()
    handled = arrives(node, "web", "u1")
    no_image(node, handled)
    node.call("pull_image", {"image": {"image": "nginx:1.27"}}, "sha256:1", handled)
    assert "the image is there" in diagnosed(node).why


def test_a_frame_that_went_no_further() -> None:
    """It came, and nobody took it."""
    node = Node()
    node.frame(message("insert", "default/pod/web", pod("web", "u1"), ident="m"))
    diagnosis = diagnosed(node)
    assert diagnosis.state is State.WAITING
    assert "insert default/pod/web to edgehub" in diagnosis.why


def test_a_deleted_pod_is_gone_when_its_sandbox_is() -> None:
    """From the deletion mark through the removal to the cloud's delete."""
    node = Node()
    running_pod(node, "web", "u1")
    mark = message("update", "default/pod/web", pod("web", "u1", deleted=True), ident="mark")
    cause = node.deliver(mark, "edged", "metamanager", node.frame(mark))
    assert diagnosed(node).state is State.GOING
    node.call("stop_pod_sandbox", {"pod_sandbox_id": "box-u1"}, None, cause)
    node.call("remove_pod_sandbox", {"pod_sandbox_id": "box-u1"}, None, cause)
    assert "the cloud has not yet taken it away" in diagnosed(node).why
    node.deliver(message("delete", "default/pod/web", pod("web", "u1"), ident="end"), "edged", "metamanager", 0)
    assert diagnosed(node).state is State.GONE


@pytest.mark.parametrize(
    "happens",
    [
        starts_and_runs,
        never_asked,
        unanswered,
        refused,
        refused_by_cloud,
        no_image,
        backing_off,
        made_not_started,
        dropped,
    ],
)
def test_a_pod_made_again_under_the_same_name_is_not_gone(happens: Callable[[Node, int], None]) -> None:
    """What was done for the first says nothing of the second, nor does what it waited for."""
    node = Node()
    happens(node, arrives(node, "web", "u1"))
    node.deliver(message("delete", "default/pod/web", pod("web", "u1"), ident="end"), "edged", "metamanager", 0)
    arrives(node, "web", "u2")
    diagnosis = diagnosed(node)
    assert diagnosis.state is State.WAITING
    assert "has not asked the runtime" in diagnosis.why


def test_a_completed_pod_has_ended() -> None:
    """A job that is done does not wait."""
    node = Node()
    starts(node, "web", "u1", arrives(node, "web", "u1"))
    reports(node, "web", "u1", status("Succeeded"), 0)
    assert diagnosed(node) == Diagnosis(State.ENDED, "it completed", len(history(node.records).events) - 1, since=0)


def test_reports_that_hold_only_what_changed_are_laid_over_each_other() -> None:
    """The phase of the first report holds while the second says nothing of it."""
    node = Node()
    cause = starts(node, "web", "u1", arrives(node, "web", "u1"))
    reports(node, "web", "u1", status("Running", running=True), cause)
    reports(node, "web", "u1", {"conditions": []}, cause, 2)
    assert diagnosed(node).state is State.RUNNING


def test_nothing_known_names_what_there_is() -> None:
    """A misspelt name is met with the right ones."""
    node = Node()
    running_pod(node, "nginx", "u1")
    text = explained(history(node.records))
    assert text == "pod default/web: not in this trace, which has for example default/nginx"


def test_repetitions_are_counted() -> None:
    """A hundred probes are three lines, or a hundred when one asks for all."""
    node = Node()
    running_pod(node, "web", "u1")
    for _ in range(100):
        node.wait(10)
        node.call("exec_sync", {"container_id": "run-u1", "cmd": ["true"]}, {"exit_code": 0}, 0)
    found = history(node.records)
    assert explained(found).count("exec_sync") == 3
    assert "… 97 more like" in explained(found)
    assert explained(found, everything=True).count("exec_sync web (run-u1)") == 100


def test_a_container_from_before_the_trace_is_known_by_the_lists() -> None:
    """After a new start of the agent what runs is found again, and nothing is made."""
    node = Node()
    named = {**sandbox_labels("web", "u1"), "io.kubernetes.container.name": "web"}
    node.call("list_containers", {}, [{"id": "old", "labels": named}], 0)
    node.call("stop_container", {"container_id": "old", "grace_seconds": 2}, None, 0)
    assert "stop_container web (old)" in explained(history(node.records))


def test_of_a_pod_that_came_before_the_trace_nothing_is_guessed() -> None:
    """The flight recorder reaches back a minute; all that it has of a pod that runs is the echo of a status."""
    node = Node()
    echo = message("update", "node/lab-edge/default/pod/web", pod("web", "u1"), ident="echo")
    frame = node.frame(echo)
    node.deliver(echo.with_route(resource="default/pod/web"), "metamanager", "websocket", frame)
    assert explained(history(node.records)).startswith(
        "pod default/web: unknown, it came before this trace; ask the node: edgecore why pod default/web\n"
    )
    reports(node, "web", "u1", status("Running", running=True), 0)
    assert diagnosed(node).state is State.RUNNING


def test_calls_that_only_read_are_shown_on_request() -> None:
    """A relist says nothing to a person; a failed one does."""
    node = Node()
    running_pod(node, "web", "u1")
    look = {"container_id": "run-u1"}
    node.call("container_status", look, {}, 0)
    assert "container_status" not in explained(history(node.records))
    assert "container_status" in explained(history(node.records), everything=True)
    node.call("container_status", look, {}, 0, error="NotFoundError: gone")
    assert "container_status web (run-u1) · took 20 ms · NotFoundError: gone" in explained(history(node.records))


def test_arrows_go_to_steps_that_are_shown() -> None:
    """Over hidden ones, to the cause of the cause."""
    node = Node()
    running_pod(node, "web", "u1")
    span = node.timer("edged", "tick", 1)
    for _ in range(20):
        span = node.call("exec_sync", {"container_id": "run-u1"}, {}, span)
    node.call("stop_container", {"container_id": "run-u1"}, None, span)
    steps = explanation_of(history(node.records), diagnose(history(node.records)), BEGAN).steps
    numbers = [step.number for step in steps]
    assert numbers == list(range(1, len(steps) + 1))
    assert all(step.cause is None or step.cause in numbers for step in steps)
    stop = next(step for step in steps if step.text.startswith("stop_container"))
    assert steps[(stop.cause or 0) - 1].text.startswith("exec_sync")


def test_a_commit_of_many_does_not_bring_the_others_in() -> None:
    """Its cause is the first change, which is another pod's story."""
    node = Node()
    other = node.deliver(
        message("insert", "default/pod/other", pod("other", "u2"), ident="o"), "metamanager", "websocket"
    )
    node.commit("default/pod/web", other)
    arrives(node, "web", "u1")
    assert "other" not in explained(history(node.records))


def test_the_delay_of_a_step_is_that_from_its_cause() -> None:
    """The arrow names the cause by its number."""
    node = Node()
    running_pod(node, "web", "u1")
    found = history(node.records)
    steps = explanation_of(found, diagnose(found), BEGAN).steps
    start = next(step for step in steps if step.text.startswith("start_container"))
    assert start.cause is not None
    assert steps[start.cause - 1].text.startswith("response default/configmap/settings")
    assert start.delay == pytest.approx(0.124, abs=0.01)


def test_an_object_that_does_not_run() -> None:
    """A configmap is there when it came."""
    node = Node()
    node.frame(message("update", "default/configmap/settings", {"data": {}}, ident="m"))
    assert diagnose(history(node.records, Target("configmap", "default", "settings"))).state is State.ARRIVED


def test_a_timer_begins_a_course_of_its_own() -> None:
    """What a periodic timer does for ever after is not the story of the pod in whose course it was set."""
    node = Node()
    cause = arrives(node, "web", "u1")
    for _ in range(50):
        node.wait(1)
        cause = node.timer("edged", "relist", 1.0, cause)
        node.call("list_containers", {}, [], cause)
    assert len(history(node.records).events) < 10


@pytest.mark.parametrize("words", [("pod", "a/b/c"), ("pod", ""), ("", "a"), ("pod", "a/")])
def test_other_values_than_objects_are_refused(words: tuple[str, str]) -> None:
    """With an example of what is."""
    with pytest.raises(TargetError, match="pod default/nginx"):
        Target.parse(*words)


def test_names_of_an_object() -> None:
    """Its status under whatever type it goes up is the object; others are not."""
    assert Target.parse("pod", "web") == WEB
    for words in (("pods", "web"), ("po", "default/web"), ("pod/web", ""), ("pods/default/web", "")):
        assert Target.parse(*words) == WEB
    assert all(WEB.named_by(f"default/{kind}/web") for kind in ("pod", "podpatch", "podstatus"))
    assert not any(WEB.named_by(f"{place}/web") for place in ("default/configmap", "other/pod", "default/podlist"))
    assert WEB.named_other("default/podpatch/nginx")
    assert Target.parse("node", "lab").named_by("null/node/lab")


def test_lengths_of_time() -> None:
    """Three figures in the unit that suits."""
    cases = {0.0: "0 s", 2.5e-6: "2.5 µs", 0.0125: "12.5 ms", 1.5: "1.5 s", 600.0: "10 min"}
    assert {value: seconds(value) for value in cases} == cases


@pytest.mark.parametrize(
    ("file", "name", "state", "why"),
    [
        ("today/01-pod-add", "bb1", State.RUNNING, ""),
        ("today/04-configmap-secret-pod", "bbcm", State.RUNNING, ""),
        ("today/06-pod-delete", "bb1", State.GONE, ""),
        ("today/13-edgecore-restart-with-pod", "bb1", State.RUNNING, ""),
        ("2019/04-configmap-secret-pod", "bbcm", State.WAITING, "Pending"),
        ("2019/06-pod-delete", "bb1", State.GONE, ""),
    ],
)
def test_captures_of_a_real_kubeedge(file: str, name: str, state: State, why: str) -> None:
    """Frames alone suffice to say how the pod stands, and what it asked for belongs to its story."""

    def reread() -> list[Record]:
        with read(RECORDINGS / f"{file}.jsonl") as trace:
            return list(trace)

    found = history(reread(), Target("pod", "default", name))
    diagnosis = diagnose(found)
    assert (diagnosis.state, why in diagnosis.why) == (state, True)
    if name == "bbcm":
        asked = {event.about for event in found.events if event.verb == "query"}
        assert {"default/configmap/cm1", "default/secret/sec1"} <= asked


def test_an_answer_from_the_cloud_ends_a_question() -> None:
    """In a capture without causes."""
    node = Node()
    node.frame(message("insert", "default/pod/web", pod("web", "u1"), ident="m"))
    node.frame(message("query", "default/configmap/settings", None, ident="q", source="edged"), Direction.OUT)
    bare = [msgspec.structs.replace(record, span=0, cause=0) for record in node.records]
    assert "has not answered the query for default/configmap/settings" in diagnose(history(bare)).why
    answer = message("response", "default/configmap/settings", {"data": {}}, ident="r", parent="q")
    node.frame(answer)
    bare = [msgspec.structs.replace(record, span=0, cause=0) for record in node.records]
    assert "query" not in diagnose(history(bare)).why
