"""Methods of devices: `edgecore devices call` and the cloud's Rules, to a mapper in Python."""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive.http.call import HttpReply
from edgecore_mapper import DeviceDriver, DriverProperty, Mapper, Value
from edgecore_mapper.method_calls import MOST_WAITING, MethodCalls, MethodRefused
from modules.apimachinery.device_properties import ModelProperty
from modules.edge.dmi.objects import Method
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.device_commands.calls import answer_of, read_arguments
from tests.end_to_end.processes import wait_until
from tests.modules.edge.dmi.node import DmiNode, device, model
from tests.modules.edge.servicebus.test_servicebus import Node as BusNode
from tests.modules.processes.cloudcore.routes import call
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.stopping import stopping

PATH = "/api/v1/devicemethod/ns/thermo"


class Door(DeviceDriver):
    """A device whose methods a test sees; it does what the test says."""

    bench: "Bench"
    state: dict[str, Value]

    def read(self, prop: DriverProperty) -> Value:
        """A temperature, or the switch."""
        return 21 if prop.name == "temperature" else self.state.get("switch", False)

    def call(self, method: str, prop: DriverProperty, value: Value) -> None:
        """Tell the test."""
        self.bench.does()
        self.state[prop.name] = value
        self.bench.calls.put((method, prop.name, value))


class Bench:
    """A node, and a mapper with a device that has the method `turn`."""

    def __init__(self, directory: Path) -> None:
        self.database = str(directory / "edgecore.db")
        self.node = DmiNode(directory).start()
        self.node.put(model())
        self.calls: queue.Queue[tuple[str, str, Value]] = queue.Queue()
        self.does: Callable[[], None] = lambda: None
        self.mapper = Mapper("bench", "demo", {"tm": self._driver}, edgecore=self.node.socket, http_port=0)
        self._thread = threading.Thread(target=self.mapper.run)
        self._thread.start()
        made = device()
        made["spec"]["methods"] = [{"name": "turn", "description": "on or off", "propertyNames": ["switch"]}]
        self.node.put(made)
        wait_until(lambda: self.node.twins("thermo").get("switch") == "false", "the device reports")

    def _driver(self, spec: Any) -> DeviceDriver:
        made = Door(spec)
        made.bench, made.state = self, {}
        return made

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """What the mapper's port answers."""
        found = call(self.mapper.port, path, headers=headers)
        return found.status, json.loads(found.body) if found.status == 200 else found.body.decode()

    def command(self, *words: str) -> int:
        """The exit status of `edgecore devices call`."""
        where = ["--database", self.database, "--port", str(self.mapper.port)]
        try:
            return main(["devices", "call", *words, *where])
        except SystemExit as end:
            return int(str(end.code))

    def stop(self) -> None:
        """Stop both."""
        self.mapper.stop()
        self._thread.join(PATIENCE)
        self.node.stop()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.stop()


def test_a_method_is_called_and_its_value_is_reported(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command of the node's owner; the device reports it, and the cloud's desired value stays what it was."""
    assert bench.command("ns/thermo", "turn", "switch=true") == ExitCode.OK
    assert capsys.readouterr().out == "Write data true to device ns/thermo successfully.\n"
    assert bench.calls.get(timeout=PATIENCE) == ("turn", "switch", True)
    wait_until(lambda: bench.node.twins("thermo")["switch"] == "true", "the new value is reported")
    assert bench.command("ns/thermo", "turn", "false", "--json") == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told["answers"] == {"switch": "Write data false to device ns/thermo successfully."}
    assert bench.command("ns/thermo") == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[1].split() == ["turn", "switch", "on", "or", "off"]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["ns/nobody", "turn", "true"], ExitCode.REFUSED, "the node has no such Device"),
        (["ns/thermo", "open", "true"], ExitCode.REFUSED, "its methods: turn"),
        (["ns/thermo", "turn"], ExitCode.USAGE, "it takes PROPERTY=VALUE of: switch"),
        (["ns/thermo", "turn", "switch=9"], ExitCode.REFUSED, "switch is BOOLEAN in the device's model"),
        (["ns/thermo", "turn", "switch=a/b"], ExitCode.REFUSED, "without a slash"),
    ],
    ids=["device", "method", "no value", "type", "slash"],
)
def test_what_cannot_be_called_is_reported(
    bench: Bench, capsys: pytest.CaptureFixture[str], words: list[str], status: ExitCode, told: str
) -> None:
    assert bench.command(*words) == status
    assert told in capsys.readouterr().err
    assert bench.calls.empty()


def test_a_device_that_fails_is_answered(bench: Bench) -> None:
    """An exception is the caller's answer, and the device goes on."""

    def fails() -> None:
        raise OSError("the bolt is stuck")

    bench.does = fails
    assert bench.get(f"{PATH}/turn/switch/true") == (500, "OSError: the bolt is stuck\n")
    bench.does = lambda: None
    assert bench.get(f"{PATH}/turn/switch/true")[0] == 200
    assert bench.calls.get(timeout=PATIENCE) == ("turn", "switch", True)
    assert bench.calls.empty()


def test_the_port_answers_as_mapper_framework_s(bench: Bench) -> None:
    """Its paths and envelope; what is not there is refused, and so are web pages and names of other machines."""
    status, told = bench.get(PATH)
    parameters = [{"PropertyName": "switch", "ValueType": "BOOLEAN"}]
    methods = [{"Name": "turn", "Path": f"{PATH}/turn/{{propertyName}}/{{data}}", "Parameters": parameters}]
    assert (status, told["apiVersion"], told["statusCode"], told["Data"]) == (200, "v1", 200, {"Methods": methods})
    assert bench.get("/api/v1/ping")[1]["Message"] == "This is v1 API, the server is running normally."
    data = bench.get("/api/v1/device/ns/thermo/temperature")[1]["Data"]
    assert (data["DeviceName"], data["Namespace"], data["Value"], data["Type"]) == ("thermo", "ns", "21", "INT")
    wrong = [f"{PATH}/open/switch/true", f"{PATH}/turn/temperature/1", f"{PATH}/turn/switch/7", "/api/v1/x", "/"]
    wrong += ["/api/v1/device/ns/thermo/none", "/api/v1/devicemethod/ns/nobody"]
    assert [bench.get(path)[0] for path in wrong] == [500] * len(wrong)
    assert bench.get(f"{PATH}/turn/switch/true", Origin="http://evil.example")[0] == 403
    assert bench.get(f"{PATH}/turn/switch/true", Host="evil.example")[0] == 403
    # an image of a page has no Origin
    assert bench.get(f"{PATH}/turn/switch/true", **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert call(bench.mapper.port, f"{PATH}/turn/switch/true", "POST").status == 405
    assert bench.calls.empty()


def test_a_rule_of_the_cloud_calls_a_method(bench: Bench, tmp_path: Path) -> None:
    """A Rule from rest to servicebus with the mapper's port: the node's servicebus makes the call."""
    (tmp_path / "bus").mkdir()
    with stopping(BusNode(tmp_path / "bus").start()) as bus:
        answer = bus.ask(f"{bench.mapper.port}:{PATH}/turn/switch/true")
    assert answer.status_code == 200
    assert json.loads(answer.body or b"")["statusCode"] == 200
    assert bench.calls.get(timeout=PATIENCE) == ("turn", "switch", True)


def test_without_a_mapper_the_command_has_the_remedy(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--database", bench.database, "--port", str(free_port())]
    with pytest.raises(SystemExit) as end:
        main(["devices", "call", "ns/thermo", "turn", "true", *where])
    assert end.value.code == ExitCode.REFUSED
    assert "the mapper serves methods on" in capsys.readouterr().err


def test_arguments_are_held_to_the_method_and_the_model() -> None:
    """Each property once; of a single one the name may be left out, also before a value with an equals sign."""
    one, two = Method("m", "", ("a",)), Method("m", "", ("a", "b"))
    assert read_arguments(one, ["x=1"], {}) == {"a": "x=1"}
    assert read_arguments(two, ["a=1", "b=x=2"], {}) == {"a": "1", "b": "x=2"}
    for words in (["1"], ["c=1"], ["a=1", "a=2"], []):
        with pytest.raises(NodeError) as refused:
            read_arguments(two, words, {})
        assert refused.value.usage
    with pytest.raises(NodeError, match="out of range"):
        read_arguments(one, ["11"], {"a": ModelProperty("a", "INT", "", "0", "10")})
    with pytest.raises(NodeError, match="ReadOnly"):
        read_arguments(one, ["1"], {"a": ModelProperty("a", "INT", "ReadOnly")})


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, b"Write device data error: unable to find", "Write device data error"),
        (200, b'{"apiVersion":"v1","statusCode":404,"timeStamp":"","Message":"no"}', "no"),
        (200, b"<html>", "no mapper's"),
        (200, b'{"statusCode":"x"}', "no mapper's"),
    ],
    ids=["text", "envelope", "page", "other"],
)
def test_an_answer_that_is_no_success_is_an_error(status: int, body: bytes, told: str) -> None:
    with pytest.raises(NodeError, match=told):
        answer_of(HttpReply(status, (), body))


def test_a_call_that_has_begun_may_be_done_after_its_caller_has_gone() -> None:
    """So its caller learns that the outcome is unknown."""
    begun, free = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert free.wait(PATIENCE)

    def wake() -> None:
        threading.Thread(target=calls.carry_out).start()
        assert begun.wait(PATIENCE)

    calls = MethodCalls(wake)
    with pytest.raises(MethodRefused, match="it may still take effect"):
        calls.call(work, 0.01)
    free.set()


def test_calls_that_wait_are_bounded_in_number_and_time_and_not_made_later() -> None:
    """A device that is away holds up a few callers, and the others get an error immediately."""
    full, done, refused = threading.Event(), queue.Queue[str](), queue.Queue[str]()

    def wake() -> None:
        assert full.wait(PATIENCE)

    calls = MethodCalls(wake)

    def ask() -> None:
        try:
            calls.call(lambda: done.put("done"), 0.01)
        except MethodRefused as error:
            refused.put(str(error))

    threads = [threading.Thread(target=ask) for _ in range(MOST_WAITING)]
    for each in threads:
        each.start()
    wait_until(lambda: len(calls._waiting) == MOST_WAITING, "all wait")
    with pytest.raises(MethodRefused, match="the device already has 16 calls waiting"):
        calls.call(lambda: done.put("done"), 0.01)
    full.set()
    for each in threads:
        each.join(PATIENCE)
    assert all("the method was not called" in refused.get_nowait() for _ in threads)
    calls.carry_out()
    assert done.empty()
