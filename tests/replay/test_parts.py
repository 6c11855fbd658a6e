"""The parts of a replay: answers to reads, the normal form of values, and the comparison."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Message, Module, ModuleName, Operation, RealClock, encode
from beehive.simulation import Simulation
from beehive.trace import CriCall, CriEvent, Delivered, Note, NoteKind, Record, RecordedMessage, TimerFired, TraceHeader
from beehive.trace.entries import EntrySink
from beehive.trace.format import FORMAT
from beehive.trace.redact import Redactor
from beehive.trace.writer import FileWriter
from edged.cri.contract import SERVER_ACTOR as SERVER
from edged.cri.contract import ContainerId, ContainerRuntime
from edged.cri.errors import CriError, NotFoundError
from edged.errors import ConfigError
from edged.housekeeping import HOUSEKEEPER
from edged.module import Edged
from edged.node.recording import recorded_links
from edgehub.module import EdgeHub
from edgehub.recording import CONFIRMED
from edgehub.subject import subject
from metamanager.module import MetaManager
from modules.apimachinery.types import ObjectMeta, Pod
from modules.edge.devicetwin.module import DeviceTwin
from modules.edge.dmi.module import Dmi
from modules.edge.edgemesh.module import EdgeMesh
from modules.edge.edgestream.module import EdgeStream
from modules.edge.eventbus.module import EventBus
from modules.edge.metaserver.watch_agent import WatchAgent
from modules.edge.servicebus.module import ServiceBus
from modules.edge.taskmanager.module import TaskManager
from modules.lab.replay import recorded
from modules.lab.replay.commands import pace_of
from modules.lab.replay.compare import differences
from modules.lab.replay.errors import ReplayError
from modules.lab.replay.link import RecordedCloud
from modules.lab.replay.normalize import Ids, lines, normalize
from modules.lab.replay.outputs import NODE, Output, RunOutputs, message_of
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.run import Replay
from modules.lab.replay.runtime import RecordedRuntime, role
from modules.lab.replay.sequences import RecordedAnswer, Sequences
from modules.lab.replay.service_links import recorded_service_links
from modules.lab.replay.stub_module import DeliveryOrder, stub_module
from modules.lab.replay.termination import TerminationMessages
from modules.lab.replay.timers import RecordedTimers
from modules.processes.edgecore.cli import main
from protos.cri.v1 import api_pb2 as pb
from protos.status import StatusCode


def looks(*answers: tuple[float, float, str]) -> Sequences[str]:
    """Recorded reads: begin, end, result."""
    return Sequences(("list", RecordedAnswer(*answer)) for answer in answers)


def seen(sequences: Sequences[str], now: float, since: float = 0.0) -> str:
    answer = sequences.query("list", now, since)
    assert answer is not None
    return answer.value


def test_looks_at_their_recorded_times_see_the_same() -> None:
    sequences = looks((1.0, 1.1, "a"), (2.0, 2.1, "b"), (3.0, 3.1, "c"))
    assert [seen(sequences, at) for at in (1.0, 2.0, 3.0)] == ["a", "b", "c"]


def test_a_look_that_was_not_recorded_sees_the_last_state_and_takes_nothing_away() -> None:
    sequences = looks((1.0, 1.1, "a"), (9.0, 9.1, "b"))
    assert [seen(sequences, at) for at in (1.0, 4.0, 9.0)] == ["a", "a", "b"]


def test_a_look_that_is_left_out_leaves_no_old_state_behind() -> None:
    sequences = looks((1.0, 1.1, "a"), (5.0, 5.1, "b"), (9.0, 9.1, "c"))
    assert [seen(sequences, at) for at in (1.0, 9.0)] == ["a", "c"]


def test_a_look_after_a_change_sees_the_change() -> None:
    sequences = looks((1.0, 1.1, "before"), (1.2, 1.3, "after"))
    assert seen(sequences, 1.15, since=1.15) == "after"


def test_the_last_look_since_a_change_may_have_seen_nothing() -> None:
    sequences = looks((1.0, 1.1, "a"), (2.0, 2.1, "b"), (9.0, 9.1, "c"))
    last = sequences.last("list", 5.0)
    assert last is not None
    assert (last.value, last.begin) == ("b", 5.0)
    assert sequences.last("list", 5.0, since=3.0) is None
    other = sequences.other("list", 0.5)
    assert other is not None
    assert other.value == "a"


def delivery(span: int, module: str, began: float, way: str = "send", outcome: str = "handled") -> Delivered:
    message = RecordedMessage("id", "", 0, "", False, "", "s", "", "g", "update", "default/pod/a", b"")  # noqa: FBT003
    return Delivered(began + 0.25, span, 0, span, "sender", module, way, outcome, "", 0, 0.0, 0.25, message)


@pytest.mark.parametrize(
    ("span", "given", "before"), [(10, 1.0, None), (25, 1.1, 20), (45, 1.6, 30), (65, 2.5, 30), (65, 5.0, None)]
)
def test_a_module_comes_to_an_answer_when_it_has_handled_the_earlier_messages(
    span: int, given: float, before: int | None
) -> None:
    """It was busy until second 4: what came before the answer was handled before it, what came after it after it."""
    order = DeliveryOrder(
        [
            delivery(30, "metamanager", 4.5),
            delivery(20, "metamanager", 4.0),
            delivery(40, "metamanager", 9.0, outcome="dead"),
            delivery(50, "metamanager", 9.0, way="response"),
            delivery(15, "edged", 8.0),
            delivery(70, "metamanager", 4.75),
        ]
    )
    found = order.before(delivery(span, "metamanager", given - 0.25, way="response"))
    assert (None if found is None else found.span) == before
    assert order.before(delivery(span, "edged/worker-0", given, way="response")) is None


def test_there_is_no_more_of_changes_than_was_recorded() -> None:
    sequences = looks((1.0, 1.1, "a"))
    assert sequences.change("list") is not None
    assert sequences.change("list") is None
    assert sequences.query("other", 1.0) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_the_normal_form_is_its_own(value: object) -> None:
    once = normalize(value)
    assert normalize(once) == once
    assert lines(value) == lines(once)


def test_times_are_one_and_json_in_strings_is_opened() -> None:
    said = {
        "patch": '{"at":"2026-11-20T04:00:00Z","n":1}',
        "at": "since 2026-11-20T04:00:00.123+01:00",
        "dns_config": {},
    }
    assert lines(said) == ['at: "since <time>"', 'patch.(JSON).at: "<time>"', "patch.(JSON).n: 1"]


def test_ids_of_a_run_are_called_by_their_role_and_given_ones_stay() -> None:
    first, second = Ids(frozenset({"given"})), Ids(frozenset({"given"}))
    for ids, keys in ((first, ("a", "b")), (second, ("x", "y"))):
        for key in (*keys, "given"):
            ids.add(key, "query pod")
    assert (first.name("b"), first.name("given")) == (second.name("y"), "given")
    assert first.name("a") != first.name("b")


def output(time: float, about: str, text: str, *, ordered: bool = True) -> Output:
    return Output(time, about, f"{about} {text}", (f"{about} {text}",), ordered)


def test_the_order_counts_for_each_object_alone() -> None:
    theirs = [output(1, "a", "1"), output(2, "b", "1"), output(3, "a", "2")]
    assert differences(theirs, [theirs[1], theirs[0], theirs[2]], 10) == []
    assert differences(theirs, [theirs[2], theirs[1], theirs[0]], 10) != []


def test_unordered_calls_need_only_be_made_at_all() -> None:
    query = output(1, "a", "query", ordered=False)
    assert differences([query], [query, query, query], 10) == []
    assert differences([query], [], 10)[0].render().startswith("recorded, but not done now")


def test_the_earliest_difference_comes_first_and_the_end_of_the_run_does_not_count() -> None:
    theirs = [output(1, "a", "1"), output(5, "b", "1"), output(9.5, "c", "1")]
    ours = [output(1, "a", "2"), output(2, "d", "1")]
    assert [one.time for one in differences(theirs, ours, 10)] == [1, 2, 5]


def test_a_call_is_the_same_whatever_its_details_are() -> None:
    config = b'{"config":{"metadata":{"name":"web","uid":"u","attempt":1},"hostname":"%b"}}'
    assert role("run_pod_sandbox", config % b"x") == role("run_pod_sandbox", config % b"y")
    assert role("list_containers", b'{"container_filter":null}') == role("list_containers", b"{}")
    stop = b'{"container_id":"c","grace_seconds":%d}'
    assert role("stop_container", stop % 1) == role("stop_container", stop % 5)
    assert role("remove_container", b'{"container_id":"c"}') != role("remove_container", b'{"container_id":"d"}')


def test_of_a_pull_the_image_counts_and_not_the_pod() -> None:
    """Pods that want an image at the same moment share a pull."""

    def pulls(pod: str, image: str, secret: str) -> list[Output]:
        config = {"metadata": {"name": pod, "uid": pod}}
        request = {"image": {"image": image}, "auth": {"password": secret}, "sandbox_config": config}
        call = CriCall(1.0, 1, 0, 1, "p", "pull_image", msgspec.json.encode(request), b'"i"', "", "", 0.0)
        return RunOutputs(NODE, frozenset()).outputs([call])

    assert differences(pulls("a", "i", "s"), pulls("b", "i", "s"), 9.0) == []
    assert differences(pulls("a", "i", "s"), pulls("a", "i", "t"), 9.0)
    assert differences(pulls("a", "i", "s"), pulls("a", "j", "s"), 9.0)
    assert differences(pulls("a", "i", "s"), pulls("a", "i", "s") * 2, 9.0)


def test_the_runtime_answers_and_fails_as_recorded_and_takes_as_long() -> None:
    simulation = Simulation()
    error = NotFoundError("ContainerStatus", "c", StatusCode.NOT_FOUND, "gone")
    calls = [
        CriCall(1.5, 1, 0, 1, "w", "image_status", b'{"image":{"image":"i"}}', b'{"id":"sha256:1"}', "", "", 0.5),
        CriCall(2.0, 2, 0, 2, "w", "container_status", b'{"container_id":"c"}', b"", "NotFoundError", str(error), 0.0),
    ]
    runtime = RecordedRuntime(simulation, calls, lambda text: text).client()
    simulation.run_for(1.0)
    assert runtime.image_status(pb.ImageSpec(image="i")) == pb.Image(id="sha256:1")
    assert simulation.clock.monotonic() == pytest.approx(1.5)
    with pytest.raises(NotFoundError) as raised:
        runtime.container_status("c")  # type: ignore[arg-type]
    assert str(raised.value) == str(error)
    assert isinstance(raised.value, CriError)


def test_another_worker_that_asks_about_an_image_has_the_last_answer_immediately() -> None:
    """Workers share an answer for a second: which of them asks is a race. A pull or a removal makes a new question."""

    def call(time: float, number: int, method: str, answer: bytes) -> CriCall:
        request = b'{"image":{"image":"i"}}'
        return CriCall(time, number, 0, number, "w", method, request, answer, "", "", 0.0)

    simulation, image = Simulation(), pb.ImageSpec(image="i")
    calls = [call(1.0, 1, "image_status", b'{"id":"1"}'), call(2.5, 2, "remove_image", b"null"),
             call(2.9, 3, "image_status", b'{"id":"2"}')]  # fmt: skip
    runtime = RecordedRuntime(simulation, calls, lambda text: text).client()
    simulation.run_for(1.0)
    for moment in (1.0, 2.0):
        simulation.run_for(moment - simulation.clock.monotonic())
        assert (runtime.image_status(image), simulation.clock.monotonic()) == (pb.Image(id="1"), moment)
    runtime.remove_image(image)
    assert runtime.image_status(image) == pb.Image(id="2")
    assert simulation.clock.monotonic() == pytest.approx(2.9)


def test_a_collection_of_dead_containers_begins_when_it_was_begun() -> None:
    """A worker had removed the oldest container before a busy machine came to it."""
    simulation, found = Simulation(), list[float]()
    calls = [
        CriCall(time, 1, 0, 1, HOUSEKEEPER, "list_containers", b"{}", b"[]", "", "", 0.0) for time in (62.5, 150.0)
    ]
    runtime = RecordedRuntime(simulation, calls, bytes).client()

    def collect() -> None:
        runtime.list_containers()
        found.append(simulation.clock.monotonic())

    for seconds in (61.0, 60.0, 60.0):
        simulation.run_for(seconds - simulation.clock.monotonic() % 60.0)
        simulation.call(collect, name=HOUSEKEEPER)
    simulation.run_for(5.0)
    simulation.close()
    assert found == [62.5, 120.0, 180.0]


def test_a_call_that_is_under_way_when_the_replay_ends_has_been_made() -> None:
    """Its answer came after the part of the run that is replayed, such as after the link was closed for good."""
    simulation = Simulation()
    request = msgspec.json.encode({"image": {"image": "i"}})
    calls = [CriCall(9.0, 1, 0, 1, "edged/puller", "pull_image", request, b'"sha256:1"', "", "", 8.0)]
    runtime = RecordedRuntime(simulation, calls, lambda text: text)
    client, spec, sandbox = runtime.client(), pb.ImageSpec(image="i"), pb.PodSandboxConfig()
    simulation.call(lambda: client.pull_image(spec, None, sandbox), name="edged/puller")
    under_way = list[list[str]]()
    for _ in range(2):
        simulation.run_for(5.0)
        under_way.append([call.method for call in runtime.under_way])
    assert under_way == [["pull_image"], []]


ENDED: Final = b'{"status":{"id":"c1","state":"CONTAINER_EXITED","message":"of the runtime"}}'


STATE: Final = {"containerID": "x://c1", "exitCode": 3, "message": "words"}
STATE_TEXT: Final = msgspec.json.encode({"state": STATE}).decode()


@pytest.mark.parametrize(
    ("sender", "resource", "content"),
    [
        ("edged", "default/podpatch/a", STATE_TEXT),
        ("websocket", "default/pod/a", {"lastState": STATE}),
        ("metamanager", "null/pod", [STATE_TEXT]),
    ],
)
def test_an_ended_container_has_the_message_of_the_recorded_statuses(
    sender: str, resource: str, content: object
) -> None:
    text = msgspec.json.encode(content)
    message = RecordedMessage("id", "", 0, "", False, "", "s", "", "g", "update", resource, text)  # noqa: FBT003
    one = Delivered(1.0, 1, 0, 1, sender, "m", "send", "handled", "", 0, 0.0, 0.0, message)
    messages = TerminationMessages([one])
    assert msgspec.json.decode(messages.add_to(ENDED))["status"]["message"] == "words"
    for other in (ENDED.replace(b"c1", b"c2"), ENDED.replace(b"EXITED", b"RUNNING"), b"null"):
        assert messages.add_to(other) == other


def test_a_worker_gets_the_variables_of_services_that_it_got_then_and_waits_as_long() -> None:
    """The address of a Service may be a secret's value, too. Two pods may ask at the same moment."""
    kept, redactor = list[Any](), Redactor()
    redactor.secret(b'{"kind":"Secret","stringData":{"host":"10.96.0.10"}}')

    def lives(simulation: Simulation, links: Callable[[Pod], Mapping[str, str]], *names: str) -> Iterator[object]:
        for _ in range(2):
            for name in names:
                with suppress(ConfigError):
                    yield links(Pod(metadata=ObjectMeta(name=name, namespace="default", uid=name)))
                yield name, round(simulation.clock.monotonic(), 3)
            simulation.run_for(2.0)

    def asked(_namespace: str, _enabled: bool) -> dict[str, str]:
        first.run_for(0.1)
        if first.clock.monotonic() < 1:
            raise ConfigError("set the variables", "of Services", "they are not read yet", retryable=True)
        return {"WEB_SERVICE_HOST": "10.96.0.10", "AT": str(round(first.clock.monotonic(), 3))}

    first, again = Simulation(), Simulation()
    sink = EntrySink(first.clock, redactor, lambda: 1, kept.append)
    answer = {"WEB_SERVICE_HOST": "10.96.0.10", "AT": "2.3"}
    later = {**answer, "AT": "2.4"}
    asked_for = list(lives(first, recorded_links(asked, sink), "a", "b"))
    assert asked_for == [("a", 0.1), ("b", 0.2), answer, ("a", 2.3), later, ("b", 2.4)]
    notes = [entry.record(entry.time, redactor) for entry in kept]
    links = recorded_service_links(again, notes)
    assert links is not None
    marked = {"WEB_SERVICE_HOST": redactor.mark(b"10.96.0.10")}
    found = [each for each in lives(again, links, "b", "a") if isinstance(each, dict)]
    assert found == [{**later, **marked}, {**answer, **marked}], "the other pod asks first"
    assert recorded_service_links(again, []) is None


@pytest.mark.parametrize(
    "product",
    [MetaManager, Edged, EdgeHub, DeviceTwin, EventBus, ServiceBus, EdgeMesh, WatchAgent, EdgeStream, Dmi, TaskManager],
)
def test_a_stub_is_in_the_group_of_its_module(product: type[Module]) -> None:
    """Else the replayed module has nobody to broadcast to."""
    assert stub_module(product.name).group == product.group


def application(verb: str, key: str, resource: str = "null") -> Message:
    content = {"Verb": verb, "Key": key}
    return Message.new(RealClock(), source="s", group="g", resource=resource, operation="null", content=content)


def test_requests_of_the_kubernetes_api_are_distinguished() -> None:
    """All have the resource `null`."""
    assert subject(application("list", "/core/v1/pods/null/null")) == "list /core/v1/pods/null/null"
    assert subject(application("list", "/", "default/pod/a")) == "default/pod/a"
    assert subject(application("list", "/").with_content(["other"])) == "null"


def test_a_frame_that_the_cloud_had_read_is_confirmed_also_when_it_comes_later() -> None:
    """Or it would wait for the next link, and be sent twice."""
    simulation, confirmed = Simulation(), list[tuple[float, int]]()
    header = TraceHeader(1, "edgecore", "n", 0.0)
    notes = (
        Note(1.0, 0, 0, 0, "link", "websocket", "up", 1), Note(2.0, 0, 0, 0, CONFIRMED, "websocket", "3 read", [1, 3]),
        Note(9.0, 0, 0, 0, "link", "websocket", "down: it ended", 1),
    )  # fmt: skip
    cloud = RecordedCloud(simulation, Recorded(header, notes), {})
    link, clock = cloud.make_link(), simulation.clock
    for time in (1.5, 1.6, 3.0, 4.0):
        clock.after(time, partial(link.send, encode(application("list", "/"))))
    events = mock.Mock(confirmed=lambda number: confirmed.append((clock.monotonic(), number)))
    assert str(link.run(events)) == "it ended"
    assert confirmed == [(2.0, 2), (3.0, 1)]


def test_a_rotated_log_is_nothing_that_edged_decides_on_by_its_trace() -> None:
    """The size of a log is in no trace; nor is whether the runtime has opened the log of a new container yet."""
    call = CriCall(1.0, 1, 0, 1, HOUSEKEEPER, "reopen_container_log", b'{"container_id":"c"}', b"", "", "", 0.0)
    assert RunOutputs(NODE, frozenset()).outputs([call]) == []


def test_questions_over_the_server_are_nothing_that_edged_does() -> None:
    """Neither are they answered to edged, nor are they missed in a replay."""
    asked = CriCall(1.0, 1, 0, 1, SERVER, "exec_sync", b'{"container_id":"c"}', b"", "", "", 0.0)
    done = CriCall(1.0, 2, 0, 2, "edged/worker-0", "exec_sync", b'{"container_id":"d"}', b"", "", "", 0.0)
    header = TraceHeader(1, "edgecore", "n", 0.0)
    assert Recorded(header, (asked, done)).calls() == [done]


def test_the_double_has_every_method_of_the_contract_and_no_other() -> None:
    double = RecordedRuntime(Simulation(), [], lambda text: text)
    methods = [name for name in vars(ContainerRuntime) if not name.startswith("_")]
    assert len(methods) > 20
    for name in methods:
        assert callable(getattr(double, name))
    with pytest.raises(AttributeError):
        _ = double.something_else


def test_a_frame_without_a_message_decodes_to_nothing() -> None:
    assert message_of(b'"redacted:00"') is None
    found = message_of(b'{"header":{"msg_id":"i"},"route":{"operation":"query","resource":"r"},"content":[1]}')
    assert isinstance(found, RecordedMessage)
    assert (found.operation, found.content) == (Operation.QUERY, b"[1]")


@pytest.mark.parametrize("speed", ["fast", "0x", "x", "10"])
def test_an_invalid_speed_is_refused(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replay", "trace", "--speed", speed])
    assert "want 1x, 10x" in capsys.readouterr().err


def test_the_pace_waits_until_virtual_time_has_passed_at_its_speed() -> None:
    assert pace_of("max") is None
    pace = pace_of("1000x")
    assert pace is not None
    clock = RealClock()
    begin = clock.monotonic()
    pace(0.0)
    pace(20.0)
    assert clock.monotonic() - begin >= 0.02 - 1e-6  # floats: neither number is exact


def test_a_run_whose_contents_do_not_fit_into_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace of some kilobytes can stand for gigabytes, as a content is in it once."""
    monkeypatch.setattr(recorded, "MOST_BYTES", 10_000)
    begun = Note(0.0, 1, 0, 1, NoteKind.BEGUN, "", "", "")
    events = [CriEvent(float(number), 1 + number, 0, 1, "k", "s", b"x" * 6000) for number in (1, 2)]
    for few, path in ((events[:1], tmp_path / "few"), (events, tmp_path / "many")):
        with closing(FileWriter(path, TraceHeader(FORMAT, "edgecore", "n1", 0.0, why="record"))) as writer:
            writer.write([begun, *few])
    assert len(recorded.load(tmp_path / "few").records) == 2
    with pytest.raises(ReplayError, match="more than 0 MiB"):
        recorded.load(tmp_path / "many")


def test_edgehub_dials_when_it_did_also_if_the_network_changed_meanwhile() -> None:
    """A timer that was cancelled, because the network had changed, left only the end of the attempt in the trace."""
    notes = [Note(time, 0, 0, 0, "link", "websocket", text, 1) for time, text in ((1.5, "down: lost"), (9.0, "up"))]
    fired = TimerFired(3.2, 0, 0, 0, "websocket", "EdgeHub._dial", 0.7, False, 0.0)  # noqa: FBT003 - its fields in order
    refused = [Note(time, 0, 0, 0, "link", "websocket", "down: refused", 2) for time in (1.74, 3.201)]
    records: list[Record] = [notes[0], *refused, fired, notes[1]]
    records.sort(key=lambda one: one.time)
    timers = RecordedTimers(tuple(records), "websocket")
    assert timers.seconds("EdgeHub._dial", 1.5, 30.0) == pytest.approx(0.239), "not that of the next attempt"
    assert timers.seconds("EdgeHub._dial", 2.5, 30.0) == pytest.approx(0.7)
    assert timers.seconds("EdgeHub._dial", 3.201, 30.0) == pytest.approx(5.798)
    assert timers.seconds("EdgeHub._dial", 3.201, 2.0) == pytest.approx(2.0)
    assert timers.seconds("EdgeHub._dial", 9.5, 30.0) == pytest.approx(30.0)
    assert timers.seconds("EdgeHub._ping", 1.5, 30.0) == pytest.approx(30.0)


def _made(time: float, method: str, request: str) -> CriCall:
    return CriCall(time, 1, 0, 1, "edged/worker-0", method, request.encode(), b"", "", "", 0.0)


PULL: Final = '{"image":{"image":"i"},"sandbox_config":{"metadata":{"uid":"u"}}}'
CREATE: Final = '{"config":{"metadata":{"name":"c"}},"sandbox_config":{"metadata":{"uid":"u"}}}'
STOP: Final = _made(5.0, "stop_pod_sandbox", '{"sandbox_id":"u"}')


@pytest.mark.parametrize(
    ("call", "later", "is_under_way"),
    [
        (_made(2.0, "create_container", CREATE), [], True),
        (_made(2.0, "create_container", CREATE), [STOP], False),
        (_made(2.0, "pull_image", PULL), [STOP], True),
        (_made(2.0, "pull_image", PULL), [STOP, _made(6.0, "pull_image", PULL.replace('"i"', '"j"'))], True),
        (_made(2.0, "pull_image", PULL), [STOP, _made(6.0, "pull_image", PULL)], False),
    ],
)
def test_a_call_without_a_record_was_under_way_at_the_end_if_nothing_followed_it(
    call: CriCall, later: list[CriCall], tmp_path: Path, *, is_under_way: bool
) -> None:
    """A pull is not its pod's alone, and goes on when the pod is deleted."""
    player = Replay(Recorded(TraceHeader(FORMAT, "edgecore", "n", 0.0), tuple(later)), tmp_path, NODE)
    assert player._was_under_way(call, RunOutputs(NODE, frozenset())) is is_under_way


HOOK: Final = _made(2.0, "exec_sync", '{"container_id":"c","command":["true"]}')


@pytest.mark.parametrize(
    ("ended", "made", "is_interrupted"),
    [(3.0, [], True), (1.0, [], False), (None, [], False), (3.0, [HOOK], False)],
    ids=["before its thread ran", "another hook, after it", "no end", "made once"],
)
def test_a_hook_whose_pod_was_deleted_before_its_thread_ran_made_no_call(
    ended: float | None, made: list[Record], tmp_path: Path, *, is_interrupted: bool
) -> None:
    if ended is not None:
        made = [*made, Note(ended, 0, 0, 0, NoteKind.TURN, ModuleName.EDGED, "PostStartHookEnded c")]
    player = Replay(Recorded(TraceHeader(FORMAT, "edgecore", "n", 0.0), tuple(made)), tmp_path, NODE)
    assert player._was_interrupted(HOOK) is is_interrupted


@pytest.mark.parametrize(("outcome", "start"), [("handled", 3.0), ("dead", 16.0)])
def test_what_was_sent_to_a_module_before_its_start_begins_nothing(outcome: str, start: float, tmp_path: Path) -> None:
    """A busy machine started metaserver 13 s before edgehub, and the store's rows were of then."""
    header = TraceHeader(FORMAT, "edgecore", "n", 0.0)
    sent = RecordedMessage("1", "", 0, "", sync=True, type="", source="metaserver", destination="", group="resource",
                           operation="query", resource="null/null", content=b"null")  # fmt: skip
    early = Delivered(3.0, 1, 0, 1, "metaserver", "websocket", "request", outcome, "", 0, 0.0, 0.0, sent)
    own = msgspec.structs.replace(early, time=16.0, span=2, sender="edged", module="metamanager", outcome="handled")
    assert Replay(Recorded(header, (early, own)), tmp_path, NODE)._start() == start


@pytest.mark.parametrize(
    ("took", "limit", "reported", "ends"),
    [
        (3.2, 2, "Killing u", 0.999),
        (0.9, 2, "Killing u", 0.9),
        (9.0, 5, "Killing u", 4.999),
        (4.0, 5, "Killing u", 4.0),
        (3.2, 2, "FailedPreStopHook u spec.containers{a}", 3.2),
        (3.2, 2, "FailedPreStopHook u", 3.2),
        (3.2, 2, "synced u", 3.2),
        (3.2, 0, "Killing u", 3.2),
    ],
    ids=[
        "late",
        "in time",
        "late, with more time",
        "in its time",
        "failed",
        "failed, in an older run",
        "without Events",
        "without a limit",
    ],
)
def test_a_hook_that_did_not_fail_ended_within_the_grace_period(
    took: float, limit: int, reported: str, ends: float
) -> None:
    """The process stood still, and learned of the command's end and of the period's at once."""
    simulation, found = Simulation(), list[float]()
    request = f'{{"container_id":"c","command":["true"],"timeout_seconds":{limit}}}'
    answer = b'{"stdout":"","stderr":"","exit_code":0}'
    hook = CriCall(took, 2, 0, 2, "hook", "exec_sync", request.encode(), answer, "", "", took)
    listed = _made(0.0, "list_containers", "{}")
    listed = msgspec.structs.replace(listed, answer=b'[{"id":"c","labels":{"io.kubernetes.pod.uid":"u"}}]')
    turns = [Note(took, 0, 0, 0, NoteKind.TURN, ModuleName.EDGED, reported)]
    runtime = RecordedRuntime(simulation, [listed, hook], bytes, turns=turns)

    def run() -> None:
        runtime.client().exec_sync(ContainerId("c"), ("true",), limit)
        found.append(round(simulation.clock.monotonic(), 3))

    simulation.call(run, name="worker")
    simulation.run_for(20.0)
    simulation.close()
    assert found == [ends]
