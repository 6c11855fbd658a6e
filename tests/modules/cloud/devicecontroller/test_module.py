"""The module alone on the bus, with a test in the place of edgecontroller and cloudhub."""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from beehive import Message, ModuleName
from beehive.testing import Harness
from modules.apimachinery.times import format_rfc3339
from modules.cloud.api_messages import Verb
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.device_values import DeviceValue
from modules.cloud.devicecontroller import status_sizes, status_writer
from modules.cloud.devicecontroller.module import DeviceController
from modules.cloud.devicecontroller.reports import Report
from modules.cloud.devicecontroller.status_writer import INTERVAL, LONGEST_DELAY, MOST_AT_WORK, MOST_WAITING
from modules.cloud.devices import API_VERSION, DEVICE, DEVICE_MODEL
from modules.cloud.messages import HANDLED, ConnectEvent
from modules.cloud.object_writes import JOURNAL
from modules.cloud.refusals import Refusals
from modules.cloud.storage.watch_history import ObjectChanged, ObjectChanges, WatchQuery, WatchStart

Json = dict[str, Any]
NODE = "n1"


def obj(kind: str, name: str, spec: Json, version: int = 1) -> Json:
    """An object as the API server has it."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


MODEL = obj("DeviceModel", "m", {"properties": [{"name": "t", "type": "INT"}]})


def device(name: str = "d", node: str = NODE, **spec: Any) -> Json:
    """A Device."""
    return obj(
        "Device", name, {"nodeName": node, "deviceModelRef": {"name": "m"}, "properties": [{"name": "t"}], **spec}
    )


class ApiServer:
    """Answers in edgecontroller's place, from objects that a test sees and changes."""

    def __init__(self, bee: Harness, *devices: Json) -> None:
        self._bee = bee
        self.lists = {DEVICE_MODEL.key_name: [MODEL], DEVICE.key_name: list(devices)}
        self.statuses: dict[str, Json] = {}
        self.calls: list[ApiCall] = []
        self.is_down = False
        self.watches: list[str] = []
        """The kinds of all watches."""
        self.before_devices: Callable[[], None] = lambda: None
        """Called before the answer to a watch of Devices."""
        self.absent = 0
        """The status of the refusal of watches, or 0."""
        self.refusal: Json | None = None
        """The answer to writes."""
        self.loses_writes = False
        """Whether no write is answered, or carried out."""
        self.is_unreadable = False
        """Whether a read is answered with `read_refusal`."""
        self.read_refusal = {"code": 500, "message": "etcd is away"}
        self.before_write: Callable[[], object] = lambda: None
        """Called once, before the next write is answered."""
        self._version = 100
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)

    def writes(self) -> list[str]:
        """The verbs of all writes of DeviceStatuses."""
        return [
            call.verb for call in self.calls if call.plural == "devicestatuses" and call.verb not in ("get", "list")
        ]

    def change(self, change: str, changed: Json, seconds: float = 0) -> None:
        """A changed object, as edgecontroller tells it; then time passes."""
        content = ObjectChanges((ObjectChanged(change, changed),))
        message = self._bee.message("cloudcore/objects", Verb.CHANGED, content, source=ModuleName.EDGECONTROLLER)
        self._bee.send(ModuleName.DEVICECONTROLLER, message)
        if seconds:
            self._bee.run_for(seconds)

    def _answer(self, message: Message) -> Message | None:
        if message.route.operation == Verb.WATCH:
            if self.is_down:
                return None
            if self.absent:
                return message.reply(
                    self._bee.clock, WatchStart(refusal={"code": self.absent, "message": "no devices"})
                )
            kind = message.content_as(WatchQuery).kind
            self.watches.append(kind)
            if kind == DEVICE.key_name:
                self.before_devices()
            found = self.lists[kind]
            return message.reply(self._bee.clock, WatchStart(1, [ObjectChanged("ADDED", each) for each in found]))
        if message.route.operation != Verb.CALL:
            return None
        call = message.content_as(ApiCall)
        self.calls.append(call)
        is_lost = self.is_down or (self.loses_writes and call.verb not in ("get", "list"))
        return None if is_lost else message.reply(self._bee.clock, self._serve(call))

    def _serve(self, call: ApiCall) -> ApiResult:
        if call.plural != "devicestatuses":
            return ApiResult({})
        if call.verb == "list" and self.is_unreadable:
            return ApiResult(refusal={"code": 500, "message": "etcd is away"})
        if call.verb == "list":
            return ApiResult({"metadata": {}, "items": deepcopy(list(self.statuses.values()))})
        if call.verb == "get" and self.is_unreadable:
            return ApiResult(refusal=self.read_refusal)
        if call.verb == "get":
            found = self.statuses.get(call.name)
            return ApiResult(deepcopy(found)) if found else ApiResult(refusal={"code": 404})
        before, self.before_write = self.before_write, lambda: None
        before()
        if self.refusal:
            return ApiResult(refusal=self.refusal)
        if call.verb == "delete":
            del self.statuses[call.name]
            return ApiResult({})
        self._version += 1
        made = deepcopy(call.body)
        made["metadata"] = {**made["metadata"], "uid": "s", "resourceVersion": str(self._version)}
        self.statuses[made["metadata"]["name"]] = made
        return ApiResult(made)


def started(bee: Harness, *devices: Json, known: KnownCloudcores | None = None, in_cluster: bool = False) -> ApiServer:
    """The module, which knows these Devices."""
    server = ApiServer(bee, *devices)
    bee.add(DeviceController, Refusals(bee.clock), known, is_embedded=not in_cluster)
    bee.start()
    bee.run_for(2 * INTERVAL)
    return server


def link(bee: Harness, what: str, node: str = NODE, connection: str = "c1") -> None:
    """A connection of a node begins or ends, as cloudhub tells it."""
    event = ConnectEvent(what, 0, node, connection)
    bee.send(ModuleName.DEVICECONTROLLER, bee.message(f"node/{node}", what, event, source=ModuleName.CLOUDHUB))


def report(
    bee: Harness, value: str, node: str = NODE, name: str = "d", timestamp: int = 0, seconds: float = 0
) -> Message:
    """A report of a node's devicetwin, as cloudhub passes it on; then time passes."""
    actual: Json = {"value": value, **({"metadata": {"timestamp": timestamp}} if timestamp else {})}
    content = {"twin": {"t": {"actual": actual}}}
    resource = f"node/{node}/device/default/{name}/twin/edge_updated"
    message = bee.message(resource, "update", content, source=f"system:node:{node}", group="resource")
    bee.send(ModuleName.DEVICECONTROLLER, message)
    if seconds:
        bee.run_for(seconds)
    return message


def answers(bee: Harness) -> dict[str, Any]:
    """The answers to nodes, by the id of what they answer."""
    found = [each for each in bee.sent_to(ModuleName.CLOUDHUB) if each.parent_id]
    return {each.parent_id: each.content_as(Any) for each in found}


def handled(bee: Harness) -> Json:
    """How many messages of each node are reported as handled."""
    found: Counter[str] = Counter()
    for each in bee.sent_to(ModuleName.CLOUDHUB):
        if each.route.operation == HANDLED:
            found.update(each.content_as(dict[str, int]))
    return dict(found)


def value(server: ApiServer, name: str = "d") -> str:
    return str(server.statuses[name]["status"]["twins"][0]["reported"]["value"])


@pytest.fixture
def server(bee: Harness) -> ApiServer:
    """The API server of a module that knows one Device."""
    return started(bee, device())


def test_a_report_is_answered_when_it_is_stored(server: ApiServer, bee: Harness) -> None:
    """Immediately if the last write was a while ago; it counts as handled before that."""
    told = report(bee, "21")
    assert value(server) == "21"
    assert answers(bee) == {told.id: "OK"}
    handled = [each.content for each in bee.sent_to(ModuleName.CLOUDHUB) if each.route.operation == HANDLED]
    assert handled == [{NODE: 1}]


def test_many_reports_are_one_write_a_second(server: ApiServer, bee: Harness) -> None:
    """The newest value is stored, and all are answered."""
    before = len(server.writes())
    told = [report(bee, str(at), timestamp=at) for at in range(1, 31)]
    bee.run_for(2 * INTERVAL)
    assert len(server.writes()) - before == 2
    assert value(server) == "30"
    assert answers(bee) == {each.id: "OK" for each in told}


def test_the_history_gets_values_that_are_stored_and_no_others(bee: Harness) -> None:
    """Not those of another node's device, of an unknown property, that are outdated, or that the API server refuses."""
    server = started(bee, device(), device("far", "n2"))
    report(bee, "21", timestamp=5000)
    report(bee, "7", name="far", seconds=2 * INTERVAL)
    report(bee, "20", timestamp=4000)
    content = {"twin": {"other": {"actual": {"value": "1"}}, "t": {"actual": {"value": "22" * 999}}}}
    resource = f"node/{NODE}/device/default/d/twin/edge_updated"
    bee.send(ModuleName.DEVICECONTROLLER, bee.message(resource, "update", content, source=f"system:node:{NODE}"))
    bee.run_for(2 * INTERVAL)
    server.refusal = {"code": 422, "message": "no"}
    report(bee, "23", seconds=2 * INTERVAL)
    found = [value for each in bee.sent_to(JOURNAL) for value in each.content_as(list[DeviceValue])]
    assert found == [
        DeviceValue("default", "d", "t", NODE, 5.0, "21"),
        DeviceValue("default", "d", "t", NODE, 0.0, ("22" * 999)[:256]),
    ]


def test_a_report_is_answered_once_although_the_module_fails(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for the API server goes with the module, and comes again later; so does one that it fails on."""
    bee.expect_failures()
    server = started(bee, device())
    server.is_down = True
    told = [report(bee, "1"), report(bee, "2")]
    bee.run_for(INTERVAL)
    bee.send(ModuleName.DEVICECONTROLLER, bee.message("cloudcore/objects", Verb.CHANGED, 5, source="edgecontroller"))
    server.is_down = False
    bee.run_for(120)
    monkeypatch.setattr(status_writer.StatusWriter, "report", None)
    told.append(report(bee, "3"))
    bee.run_for(120)
    assert {each: answer["code"] for each, answer in answers(bee).items()} == {each.id: 429 for each in told}
    assert sum(bool(each.parent_id) for each in bee.sent_to(ModuleName.CLOUDHUB)) == len(told)


def test_nothing_is_asked_while_nothing_happens(server: ApiServer, bee: Harness) -> None:
    """No device, or devices that say nothing: no periodic traffic."""
    bee.run_for(5)
    before = len(server.calls)
    bee.run_for(3600)
    assert len(server.calls) == before


def test_an_api_server_that_is_away_is_asked_again_and_no_report_is_lost(server: ApiServer, bee: Harness) -> None:
    """Later each time; what came meanwhile is in the write."""
    server.is_down = True
    told = [report(bee, str(at)) for at in range(3)]
    bee.run_for(120)
    assert answers(bee) == {}
    assert len(server.calls) < 20
    server.is_down = False
    bee.run_for(60)
    assert value(server) == "2"
    assert answers(bee) == {each.id: "OK" for each in told}


def test_of_two_reports_the_later_one_counts_although_the_first_is_written_again(
    server: ApiServer, bee: Harness
) -> None:
    """The second comes while the write of the first is not answered; neither has a time."""
    server.loses_writes = True
    first = report(bee, "21")
    second = report(bee, "22")
    server.loses_writes = False
    bee.run_for(60.0)
    assert value(server) == "22"
    assert (answers(bee)[first.id], answers(bee)[second.id]) == ("OK", "OK")


def test_a_status_that_cannot_be_read_is_not_made(server: ApiServer, bee: Harness) -> None:
    server.calls.clear()
    server.is_unreadable = True
    report(bee, "21", seconds=5.0)
    assert server.writes() == []
    server.is_unreadable = False
    bee.run_for(30.0)
    assert (server.writes(), value(server)) == (["update"], "21")


def test_a_report_that_comes_during_a_write_is_written_after_it(server: ApiServer, bee: Harness) -> None:
    server.before_write = lambda: report(bee, "22")
    report(bee, "21", seconds=2 * INTERVAL)
    assert value(server) == "22"


def test_an_api_server_that_is_away_for_long_is_asked_each_half_minute(server: ApiServer, bee: Harness) -> None:
    """And no more slowly; after its return a conflict is soon tried again."""
    server.is_unreadable = True
    server.calls.clear()
    report(bee, "21", seconds=60.0)
    assert 4 <= len(server.calls) <= 8
    bee.run_for(600.0)
    server.is_unreadable = False
    bee.run_for(LONGEST_DELAY + INTERVAL)
    assert value(server) == "21"
    server.refusal = {"code": 409, "message": "changed"}
    report(bee, "22")
    server.refusal = None
    bee.run_for(2 * INTERVAL)
    assert value(server) == "22"


def test_a_report_whose_status_may_not_be_read_is_refused_and_the_next_one_written(
    server: ApiServer, bee: Harness
) -> None:
    """Its node would wait for an answer, although none was to come before the device's next report."""
    bee.run_for(2 * INTERVAL)
    server.is_unreadable, server.read_refusal = True, {"code": 403, "message": "devicestatuses is forbidden"}
    told = report(bee, "21", seconds=2 * INTERVAL)
    assert answers(bee)[told.id]["code"] == 403
    server.is_unreadable = False
    told = report(bee, "22", seconds=2 * INTERVAL)
    assert (value(server), answers(bee)[told.id]) == ("22", "OK")


def test_without_devicestatuses_a_report_is_refused_for_good(bee: Harness) -> None:
    """The kind is missing, or the namespace: 404 to a creation lasts."""
    server = started(bee)
    server.refusal = {"code": 404, "message": "not found"}
    server.change("ADDED", device(), seconds=2 * INTERVAL)
    told = report(bee, "21", seconds=2 * INTERVAL)
    assert answers(bee)[told.id]["code"] == 422
    server.calls.clear()
    bee.run_for(60.0)
    assert server.calls == []


def test_a_review_that_has_failed_is_not_made_twice(bee: Harness) -> None:
    """Another one has begun since, as a cloudcore has come."""
    known = KnownCloudcores("b")
    known.alive = ("b",)
    server = ApiServer(bee, device())
    server.is_unreadable = True
    bee.add(DeviceController, Refusals(bee.clock), known)
    bee.start()
    bee.run_for(45.0)
    known.alive = ("a", "b")
    bee.run_for(15.0)
    server.is_unreadable = False
    bee.run_for(120.0)
    server.calls.clear()
    bee.run_for(300.0)
    assert [call.verb for call in server.calls if call.verb == "list"] == []


def test_a_device_that_floods_is_asked_to_retry_later(server: ApiServer, bee: Harness) -> None:
    """What waits for an API server that is away is bounded."""
    server.is_down = True
    for at in range(MOST_WAITING + 5):
        report(bee, str(at))
    assert [each["code"] for each in answers(bee).values()] == [429] * 5


def test_the_values_of_a_node_are_bounded_together(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many devices it has: each may have 64 KiB for each property. Another node does not pay for it, and what
    becomes smaller is written.
    """
    monkeypatch.setattr(status_sizes, "BYTES", 10_000)
    monkeypatch.setattr(status_sizes, "BYTES_OF_PROPERTY", 1000)
    server = started(bee, device("a"), device("b"), device("c", node="n2"))
    first = report(bee, "x" * 8000, name="a", seconds=2 * INTERVAL)
    second = report(bee, "y" * 8000, name="b", seconds=2 * INTERVAL)
    other = report(bee, "z" * 8000, name="c", node="n2", seconds=2 * INTERVAL)
    found = answers(bee)
    assert (found[first.id], found[second.id]["code"], found[other.id]) == ("OK", 413, "OK")
    assert "exceeded quota: the values of the devices of node n1" in found[second.id]["reason"]
    smaller = report(bee, "x" * 100, name="a", seconds=2 * INTERVAL)
    again = report(bee, "y" * 8000, name="b", seconds=2 * INTERVAL)
    assert [answers(bee)[each.id] for each in (smaller, again)] == ["OK", "OK"]
    assert len(value(server, "b")) == 8000


def test_a_status_that_was_refused_takes_no_room(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_sizes, "BYTES", 10_000)
    monkeypatch.setattr(status_sizes, "BYTES_OF_PROPERTY", 0)
    server = started(bee, device("a"), device("b"))
    server.refusal = {"code": 422, "message": "wrong"}
    report(bee, "x" * 8000, name="a", seconds=2 * INTERVAL)
    server.refusal = None
    taken = report(bee, "y" * 8000, name="b", seconds=2 * INTERVAL)
    assert answers(bee)[taken.id] == "OK"


def test_a_status_that_a_person_has_made_larger_may_become_smaller(
    bee: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_sizes, "BYTES", 10_000)
    monkeypatch.setattr(status_sizes, "BYTES_OF_PROPERTY", 0)
    server = started(bee, device())
    report(bee, "x" * 8000)
    bee.run_for(2 * INTERVAL)
    server.statuses["d"]["status"]["twins"][0]["reported"]["value"] = "x" * 12_000
    taken = report(bee, "y" * 11_000)
    bee.run_for(2 * INTERVAL)
    assert answers(bee)[taken.id] == "OK"


def test_a_status_that_was_there_before_counts(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart, and until its Device goes, or to another node."""
    monkeypatch.setattr(status_sizes, "BYTES", 10_000)
    monkeypatch.setattr(status_sizes, "BYTES_OF_PROPERTY", 0)
    server = started(bee, device("a"), device("b"))
    report(bee, "x" * 8000, name="a", seconds=2 * INTERVAL)
    with Harness() as restarted:
        following = ApiServer(restarted, device("a"), device("b"))
        following.statuses = server.statuses
        restarted.add(DeviceController, Refusals(restarted.clock), None, is_embedded=True)
        restarted.start()
        restarted.run_for(2 * INTERVAL)
        refused = report(restarted, "y" * 8000, name="b", seconds=2 * INTERVAL)
        following.change("MODIFIED", device("a", node="n2"), seconds=2 * INTERVAL)
        report(restarted, "x", name="a", node="n2", seconds=2 * INTERVAL)
        taken = report(restarted, "y" * 8000, name="b", seconds=2 * INTERVAL)
        assert (answers(restarted)[refused.id]["code"], answers(restarted)[taken.id]) == (413, "OK")


def test_waiting_reports_hold_only_stored_fields(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 messages of a device may wait, each with values of a thousand properties that it does not have."""
    kept: list[tuple[Any, set[str]]] = []
    real = status_writer._Waiting

    def noted(message: Message, given: Report, uid: str) -> Any:
        kept.append((message.content, set(given.reported)))
        return real(message, given, uid)

    monkeypatch.setattr(status_writer, "_Waiting", noted)
    started(bee, device())
    content = {"twin": {name: {"actual": {"value": "x" * 1000}} for name in ("t", "u", "v")}}
    resource = f"node/{NODE}/device/default/d/twin/edge_updated"
    message = bee.message(resource, "update", content, source=f"system:node:{NODE}", group="resource")
    bee.send(ModuleName.DEVICECONTROLLER, message)
    assert kept == [(None, {"t"})]
    assert answers(bee)[message.id] == "OK"


def test_a_write_that_is_refused_for_good_ends_the_reports(server: ApiServer, bee: Harness) -> None:
    server.refusal = {"code": 422, "message": "too long"}
    told = report(bee, "21")
    assert (answers(bee)[told.id]["code"], answers(bee)[told.id]["reason"]) == (422, "too long")
    server.refusal = None
    bee.run_for(2 * INTERVAL)
    report(bee, "22")
    assert value(server) == "22"


def test_a_conflict_is_written_again_from_a_fresh_read(server: ApiServer, bee: Harness) -> None:
    server.refusal = {"code": 409, "message": "changed"}
    told = report(bee, "21")
    server.refusal = None
    server.statuses["d"]["status"]["extensions"] = {"of": "others"}
    bee.run_for(3 * INTERVAL)
    assert (answers(bee)[told.id], value(server)) == ("OK", "21")
    assert server.statuses["d"]["status"]["extensions"] == {"of": "others"}


def test_a_device_does_not_get_the_values_of_an_earlier_one_of_its_name(server: ApiServer, bee: Harness) -> None:
    """The API server was away when they came, and the earlier Device was deleted meanwhile."""
    server.is_down = True
    report(bee, "21")
    server.change("DELETED", device())
    later = device()
    later["metadata"]["uid"] = "later"
    server.change("ADDED", later)
    server.is_down = False
    bee.run_for(60.0)
    assert server.statuses["d"]["status"]["twins"] == []
    assert server.statuses["d"]["metadata"]["ownerReferences"][0]["uid"] == "later"
    report(bee, "22")
    assert value(server) == "22"


def test_only_the_devices_own_node_counts(bee: Harness) -> None:
    server = started(bee, device(), device("other", node="n2"), device("nowhere", node=""))
    wrong = [report(bee, "9", node="n2"), report(bee, "9", name="other"), report(bee, "9", name="nowhere")]
    assert [answers(bee)[each.id]["code"] for each in wrong] == [404, 404, 404]
    assert server.statuses["d"]["status"]["twins"] == []


@pytest.mark.parametrize(
    "rest", ["", "x", "device", "device/default", "device/default/d", "device/default/d/twin", "device//d/state/update",
             "membership", "device/default/d/twin/edge_updated/more", "node/n2/device/default/d/twin/edge_updated"],
)  # fmt: skip
def test_messages_that_no_devicetwin_sends_are_refused(bee: Harness, rest: str) -> None:
    """And answered, and the module goes on."""
    started(bee, device())
    message = bee.message(f"node/{NODE}/{rest}", "update", {"twin": {}}, source=f"system:node:{NODE}")
    bee.send(ModuleName.DEVICECONTROLLER, message)
    assert answers(bee)[message.id]["code"] in (400, 404)
    told = report(bee, "1")
    assert answers(bee)[told.id] == "OK"


def memberships(bee: Harness) -> list[tuple[str, list[str], list[str]]]:
    """Node, added and removed devices of each change of a membership."""
    found = []
    for each in bee.sent_to(ModuleName.CLOUDHUB):
        if each.route.resource.endswith("/membership"):
            content: Any = each.content_as(Any)
            ids = [[one["id"] for one in content[field] or ()] for field in ("added_devices", "removed_devices")]
            found.append((each.route.resource.split("/")[1], *ids))
    return found  # type: ignore[return-value]


def test_a_node_gets_its_devices_when_it_connects_and_when_they_change(bee: Harness) -> None:
    server = started(bee, device(), device("e"))
    link(bee, "connected")
    server.change("ADDED", device("f"))
    server.change("MODIFIED", device("f", properties=[]))
    server.change("MODIFIED", device("e", node="n2"))
    server.change("DELETED", device())
    assert memberships(bee) == [
        (NODE, ["default/d", "default/e"], []), (NODE, ["default/f"], []), (NODE, [], ["default/e"]),
        ("n2", ["default/e"], []), (NODE, [], ["default/d"]),
    ]  # fmt: skip
    bee.forget()
    link(bee, "connected", connection="c2")
    assert memberships(bee) == [(NODE, ["default/f"], [])]


def test_reports_before_the_devices_are_known_wait(bee: Harness) -> None:
    """Also when the API server does not answer at first."""
    server = ApiServer(bee, device())
    server.is_down = True
    bee.add(DeviceController, Refusals(bee.clock))
    bee.start()
    told = report(bee, "5")
    link(bee, "connected")
    assert bee.sent_to(ModuleName.CLOUDHUB) == []
    server.is_down = False
    bee.run_for(60)
    assert (answers(bee)[told.id], value(server)) == ("OK", "5")
    assert memberships(bee) == [(NODE, ["default/d"], [])]


def test_the_status_of_a_deleted_device_is_deleted(server: ApiServer) -> None:
    """Also when a report of it is under way."""
    assert set(server.statuses) == {"d"}
    server.change("DELETED", device(), seconds=3 * INTERVAL)
    assert server.statuses == {}
    (deletion,) = [call for call in server.calls if call.verb == "delete"]
    assert deletion.options == {"preconditions": {"uid": "s"}}, "a later one of its name stays"


def test_nothing_is_remembered_of_deleted_devices(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many have come and gone, with reports or without."""
    made: list[status_writer.StatusWriter] = []
    monkeypatch.setattr(
        "modules.cloud.devicecontroller.module.StatusWriter",
        lambda *given: made.append(status_writer.StatusWriter(*given)) or made[-1],  # type: ignore[func-returns-value]
    )
    server = started(bee, device())
    for number in range(3):
        server.change("ADDED", device(f"d{number}"), seconds=3 * INTERVAL)
        report(bee, "5", name=f"d{number}")
        server.change("DELETED", device(f"d{number}"), seconds=3 * INTERVAL)
    (writer,) = made
    assert [key.name for key in writer._devices] == ["d"]


def test_a_changed_model_changes_the_condition(server: ApiServer, bee: Harness) -> None:
    begin = format_rfc3339(bee.clock.now())
    assert server.statuses["d"]["status"]["conditions"][0]["status"] == "True"
    server.change("DELETED", MODEL, seconds=2 * INTERVAL)
    condition = server.statuses["d"]["status"]["conditions"][0]
    assert (condition["reason"], condition["lastTransitionTime"] >= begin) == ("ModelNotFound", True)
    server.change("MODIFIED", device(deviceModelRef={"name": "another"}), seconds=2 * INTERVAL)
    server.calls.clear()
    server.change("ADDED", MODEL, seconds=2 * INTERVAL)
    assert server.calls == [], "the device has another model by now"
    again = device(deviceModelRef={"name": "another"})
    server.change("MODIFIED", {**again, "metadata": {**again["metadata"], "labels": {"a": "b"}}}, seconds=2 * INTERVAL)
    assert server.calls == [], "nor has a label to do with it"


def test_in_a_cluster_no_status_is_deleted(bee: Harness) -> None:
    """The cluster deletes what a deleted Device owns."""
    server = started(bee, device(), in_cluster=True)
    link(bee, "connected")
    assert {call.plural for call in server.calls} == {"devicestatuses"}
    server.change("DELETED", device(), seconds=3 * INTERVAL)
    assert (server.writes(), set(server.statuses)) == (["create"], {"d"})


def test_in_a_cluster_the_devices_of_nodes_that_others_hold_are_theirs(bee: Harness) -> None:
    """Another make of cloudcore, such as KubeEdge's, writes the statuses of its nodes' devices, and this one nothing of
    them, whatever changes. It writes those of its own nodes when they connect, and as long as they are.
    """
    foreign = device("foreign", node="theirs")
    server = started(bee, device(), foreign, in_cluster=True)
    theirs = {**obj("DeviceStatus", "foreign", {}), "status": {"twins": []}}
    server.statuses["foreign"] = deepcopy(theirs)
    server.change("MODIFIED", device("foreign", node="theirs", deviceModelRef={"name": "absent"}))
    server.change("DELETED", MODEL)
    server.change("ADDED", MODEL, seconds=60)
    assert (server.writes(), server.statuses) == ([], {"foreign": theirs})
    link(bee, "connected")
    bee.run_for(2 * INTERVAL)
    assert set(server.statuses) == {"d", "foreign"}
    server.change("MODIFIED", device(deviceModelRef={"name": "absent"}), seconds=2 * INTERVAL)
    assert "absent" in server.statuses["d"]["status"]["conditions"][0]["message"]
    link(bee, "disconnected")
    before = server.writes()
    server.change("MODIFIED", device(), seconds=60)
    assert (server.writes(), server.statuses["foreign"]) == (before, theirs)


def test_a_cluster_without_the_kinds_is_looked_at_again_quietly(bee: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """With one line in the log, below warnings. A report comes again later: it was lost where the kinds were there, and
    the node had its devices, a few seconds before devicecontroller looked.
    """
    server = ApiServer(bee, device())
    server.absent = 404
    bee.add(DeviceController, Refusals(bee.clock), None, is_embedded=False)
    with caplog.at_level("INFO", logger="modules.cloud.devicecontroller"):
        bee.start()
        bee.run_for(600)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert server.calls == []
    told = report(bee, "5")
    assert answers(bee)[told.id]["code"] == 429
    server.absent = 0
    bee.run_for(60)
    told = report(bee, "6")
    assert (answers(bee)[told.id], value(server)) == ("OK", "6")


def test_reports_that_wait_are_answered_when_there_turn_out_to_be_no_devices(bee: Harness) -> None:
    """cloudhub passes few messages of a node on before these are handled."""
    server = ApiServer(bee)
    server.absent = 503
    bee.add(DeviceController, Refusals(bee.clock), None, is_embedded=False)
    bee.start()
    told = report(bee, "5", seconds=1.0)
    assert bee.sent_to(ModuleName.CLOUDHUB) == []
    server.absent = 404
    bee.run_for(1.0)
    assert answers(bee)[told.id]["code"] == 429
    assert handled(bee) == {NODE: 1}
    server.absent = 503
    bee.run_for(6.0)
    told = report(bee, "6")
    bee.run_for(1.0)
    assert told.id not in answers(bee), "somebody has defined them meanwhile"


def test_reports_before_the_devices_are_known_are_bounded(bee: Harness) -> None:
    """The excess is asked to come again: devices are not known yet."""
    server = ApiServer(bee, device())
    server.absent = 503
    bee.add(DeviceController, Refusals(bee.clock), None, is_embedded=False)
    bee.start()
    last = [report(bee, str(at)) for at in range(1005)][-1]
    assert len(answers(bee)) == 5
    assert answers(bee)[last.id]["code"] == 429
    assert handled(bee) == {NODE: 5}


def test_unchanged_statuses_are_not_read_again_at_a_start(bee: Harness) -> None:
    """One list; after that only the changed device, the one without a status, and the deleted one's."""
    server = started(bee, device(), device("e"))
    assert server.writes() == ["create", "create"]
    kept = server.statuses
    with Harness() as other:
        again = ApiServer(other, device(), device("new"))
        again.statuses = deepcopy(kept)
        other.add(DeviceController, Refusals(other.clock))
        other.start()
        other.run_for(3 * INTERVAL)
        assert set(again.statuses) == {"d", "new"}
        assert sorted(again.writes()) == ["create", "delete"]
        assert [call.name for call in again.calls if call.verb == "get"] == ["e", "new"]


def test_a_status_that_a_person_has_made_stays(bee: Harness) -> None:
    """It has no Device as its owner."""
    server = ApiServer(bee)
    server.statuses["mine"] = obj("DeviceStatus", "mine", {})
    bee.add(DeviceController, Refusals(bee.clock))
    bee.start()
    bee.run_for(3 * INTERVAL)
    assert set(server.statuses) == {"mine"}


def test_of_several_cloudcores_the_one_with_the_node_writes_and_one_more(bee: Harness) -> None:
    """The conditions of a device are written where its node is connected, and by the one whose duty it is, which may be
    another; when that one is gone, what it has not written is.
    """
    known = KnownCloudcores("b")
    known.alive = ("a", "b")
    names = [f"d{at}" for at in range(20)]
    server = started(bee, *(device(name, node=f"n-{name}") for name in names), known=known)
    mine = set(server.statuses)
    assert 0 < len(mine) < 20
    other = next(name for name in names if name not in mine)
    link(bee, "connected", f"n-{other}")
    server.change("MODIFIED", device(other, node=f"n-{other}", deviceModelRef={"name": "absent"}))
    assert set(server.statuses) == {*mine, other}
    link(bee, "disconnected", f"n-{other}", "an earlier one")
    server.change("MODIFIED", device(other, node=f"n-{other}", deviceModelRef={"name": "m2"}), seconds=2 * INTERVAL)
    assert "m2" in server.statuses[other]["status"]["conditions"][0]["message"]
    link(bee, "disconnected", f"n-{other}")
    third = next(name for name in names if name not in server.statuses)
    server.change("MODIFIED", device(third, node=f"n-{third}", deviceModelRef={"name": "absent"}))
    assert set(server.statuses) == {*mine, other}
    known.alive = ("b",)
    bee.run_for(60)
    assert set(server.statuses) == set(names)


def test_after_a_restart_of_edgecontroller_the_devices_are_read_again_once(
    bee: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Device that was deleted meanwhile is gone, and one that was made is there."""
    server = started(bee, device(), device("old"))
    link(bee, "connected")
    bee.forget()
    server.lists[DEVICE.key_name] = [device(), device("new")]
    monkeypatch.setattr(bee.hive, "restarts", lambda: {ModuleName.EDGECONTROLLER: 1})
    bee.run_for(200.0)
    assert server.watches == [DEVICE_MODEL.key_name, DEVICE.key_name] * 2
    assert set(server.statuses) == {"d", "new"}
    assert memberships(bee) == [
        (NODE, ["default/new"], []), (NODE, [], ["default/old"]), (NODE, ["default/d", "default/new"], []),
    ]  # fmt: skip
    told = report(bee, "5", name="new")
    assert answers(bee)[told.id] == "OK"


@pytest.mark.parametrize("refusal", [0, 503, 500], ids=["no-answer", "incomplete", "error"])
def test_a_further_restart_of_edgecontroller_begins_the_reading_of_the_devices_again(
    server: ApiServer, refusal: int, bee: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier reading, which waits for an answer or is refused, is given up: two would take each other's objects
    for deleted.
    """
    server.watches.clear()
    server.is_down, server.absent = not refusal, refusal
    for restarts in (1, 2, 3):
        monkeypatch.setattr(bee.hive, "restarts", lambda restarts=restarts: {ModuleName.EDGECONTROLLER: restarts})
        bee.run_for(30.0)
    server.is_down, server.absent = False, 0
    bee.run_for(60.0)
    assert server.watches == [DEVICE_MODEL.key_name, DEVICE.key_name]


def test_a_model_that_comes_while_the_devices_are_read_again_stays(
    server: ApiServer, bee: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in the list of models, which was answered before."""
    later = obj("DeviceModel", "later", {"properties": [{"name": "t", "type": "INT"}]})
    server.before_devices = lambda: server.change("ADDED", later)
    monkeypatch.setattr(bee.hive, "restarts", lambda: {ModuleName.EDGECONTROLLER: 1})
    bee.run_for(60.0)
    server.change("MODIFIED", device(deviceModelRef={"name": "later"}), seconds=2 * INTERVAL)
    assert server.statuses["d"]["status"]["conditions"][0]["reason"] == "FitsModel"


def test_few_devices_are_written_at_a_time(bee: Harness) -> None:
    """A thousand reports together do not keep an API server from its other work."""
    server = started(bee, *(device(f"d{at}") for at in range(50)))
    server.calls.clear()
    server.is_down = True
    told = [report(bee, "1", name=f"d{at}") for at in range(50)]
    assert len(server.calls) == MOST_AT_WORK
    server.is_down = False
    bee.run_for(120)
    assert [answers(bee)[each.id] for each in told] == ["OK"] * 50
