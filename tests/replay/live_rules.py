"""A recording of a real node with what comes to it from outside: rules, a device, a pod with its events, its log; with
the API on the node and edgemesh, whose Services containers know; and with the last words of a container.
"""

import json
from contextlib import closing
from typing import Any

from msgspec.structs import replace

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.devices import EventBusOptions
from modules.processes.edgecore.config.edge_mesh import DataPlaneKind
from modules.processes.edgecore.config.model import ServiceBusOptions
from tests.end_to_end.machine import NODE
from tests.end_to_end.pods import container, is_ready, pod, state_of
from tests.end_to_end.processes import run_program, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest, RuntimeUnderTest
from tests.modules.cloud.router.rules import from_topic, from_url, to_service, to_topic
from tests.modules.edge.eventbus.broker import Application, Broker
from tests.modules.processes.cloudcore.devices import People, device, model
from tests.modules.processes.cloudcore.routes import RuleAuthors, call
from tests.replay.live import RecordedMachine
from tests.support.http_application import HttpApplication
from tests.support.kubectl import Kubectl
from tests.support.ports import free_port

_ASKED = "http://lab.example/call"
_TWIN = "$hw/events/device/default/thermo/twin/update"


def rules_and_streams() -> bytes:
    """Record a node whose rules all carry messages, that has a device, a Service and a pod whose log is read by the
    tunnel, and is stopped and started again: meanwhile a rule and a desired value change. At last all is deleted.
    """
    life = _Life(EmbeddedUnderTest())
    try:
        life.first_process()
        life.second_process()
        return life.machine.trace.read_bytes()
    finally:
        life.close()


class EquippedMachine:
    """A recorded node with all its modules, its cloud, and a broker.

    Args:
        runtime: of the node.
    """

    def __init__(self, runtime: RuntimeUnderTest) -> None:
        self.asks, self.calls, tunnel = free_port(), free_port(), free_port()
        self.machine = machine = RecordedMachine(runtime, self._configured)
        machine.edge.tunnel_port, machine.edge.api_port = tunnel, free_port()
        machine.edge.mesh = {
            "enable": True, "data_plane": DataPlaneKind.USERSPACE, "dns": False, "service_cidrs": (),
        }  # fmt: skip
        calls, tunnels = f"127.0.0.1:{self.calls}", f"127.0.0.1:{tunnel}"
        machine.cloud.options = ["--router-listen", calls, "--tunnel-listen", tunnels]
        self.broker = Broker(machine.directory)
        self.authors, self.people = RuleAuthors(machine.cloud.client, "default"), People(machine.cloud.client)

    def _configured(self, config: EdgeCoreConfig) -> EdgeCoreConfig:
        bus = EventBusOptions(enable=True, mqtt_server_external=f"tcp://127.0.0.1:{self.broker.port}")
        service = ServiceBusOptions(enable=True, port=self.asks)
        return replace(config, modules=replace(config.modules, event_bus=bus, service_bus=service))

    def close(self) -> None:
        """End everything."""
        self.broker.stop()
        self.machine.close()

    def start(self) -> None:
        """Start edgecore, and return when it is connected to the broker."""
        edge = self.machine.edge
        self.machine.start_edge()
        wait_until(lambda: self._has_a_broker() or not edge.process.runs, "MQTT is connected")
        assert edge.process.runs, edge.tail()

    def _has_a_broker(self) -> bool:
        return "connected to the MQTT broker" in self.machine.edge.process.text()

    def application(self) -> Application:
        """Return a client of the broker that gets what Rules send it."""
        return Application(self.broker.port, "capt/#")


class _Life(EquippedMachine):
    """Its applications, and a server beside the cloud."""

    def first_process(self) -> None:
        """All kinds of rules, a device, a pod and its log."""
        machine, authors, people = self.machine, self.authors, self.people
        self.broker.start()
        machine.cloud.start()
        people.wait()
        authors.wait()
        people.apply(model())
        people.apply(device(node=NODE))
        self.start()
        with HttpApplication() as application, HttpApplication() as server, closing(self.application()) as listener:
            url = f"http://127.0.0.1:{server.port}"
            authors.apply_endpoints(application.port)
            up = from_topic(f"{url}/in", "up/#", NODE), from_url(f"{url}/orders", _ASKED, NODE)
            authors.apply(to_topic(), to_service(), *up)
            self._serve()
            machine.cloud.apply(pod("runs", container("echo hello; exec sleep 600")))
            machine.cloud.pods.wait("runs", is_ready)
            self._call_the_node(listener)
            wait_until(lambda: self._posted(listener, server), "the node's message reaches the server")
            wait_until(lambda: self._asked() == "PUT /orders text", "the application's request reaches the server")
            self._report(listener, "21")
            self._read_log()
            self._run_for_two_seconds("first")
        machine.stop_edge()

    def second_process(self) -> None:
        """Meanwhile a rule was deleted, and a desired value changed. All goes on, and is deleted."""
        machine, people = self.machine, self.people
        self.authors.delete("r4")
        people.apply(device(node=NODE, desired="31.5"))
        self.start()
        with HttpApplication() as application, closing(self.application()) as listener:
            self.authors.apply_endpoints(application.port)
            self._call_the_node(listener)
            self._report(listener, "22")
            self._read_log()
            for rule in ("r1", "r2", "r3"):
                self.authors.delete(rule)
            people.delete("devices", "thermo")
            machine.cloud.delete("pod", "runs", grace=1)
            machine.cloud.pods.wait_gone("runs")
            self._run_for_two_seconds("second")
        machine.stop_edge()

    def _serve(self) -> None:
        """Have a Service in the node's store, before a container begins whose variables name it."""
        spec = {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}
        self.machine.cloud.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
        kubectl = Kubectl(self.machine.edge.api_port)
        wait_until(lambda: "web" in str(kubectl.ask("/api/v1/namespaces/default/services").body), "the Service")
        labelled = self.machine.cloud.client.request(
            "PATCH", f"/api/v1/nodes/{NODE}", b'{"metadata":{"labels":{"a":"b"}}}', "application/merge-patch+json"
        )
        assert labelled[0] == 200, labelled

    def _run_for_two_seconds(self, name: str) -> None:
        """What is done in the last second of a recording does not count: let the rest be earlier."""
        machine = self.machine
        says = container("sleep 2; echo words; exit 3", terminationMessagePolicy="FallbackToLogsOnError")
        machine.cloud.apply(pod(name, says, restartPolicy="Never"))
        machine.cloud.pods.wait(name, lambda obj: state_of(obj, "terminated").get("message") == "words\n")

    def _call_the_node(self, listener: Application) -> None:
        wait_until(lambda: call(self.calls, f"/{NODE}/default/svc/x?q=1").status == 200, "the node is connected")
        assert call(self.calls, f"/{NODE}/default/a/b", "POST", b"hello").status == 200
        assert listener.hear() == ("capt/b", b"hello")

    def _posted(self, listener: Application, server: HttpApplication) -> bool:
        """Publish a message, and return whether the server has one; the node may not have subscribed yet."""
        listener.publish("default/up/1", "21")
        return any(heard.body == b"21" for heard in server.heard)

    def _asked(self) -> str:
        body = json.dumps({"method": "PUT", "targetURL": _ASKED, "payload": "text"}).encode()
        try:
            return str(json.loads(call(self.asks, "/", "POST", body).body)["body"])
        except ConnectionError:
            return ""

    def _report(self, listener: Application, value: str) -> None:
        twin: dict[str, Any] = {"temperature": {"actual": {"value": value}}}
        listener.publish(_TWIN, json.dumps({"event_id": value, "timestamp": int(value), "twin": twin}))
        reported = lambda: self.people.reported("thermo") == {"temperature": value}  # noqa: E731 - to wait for
        wait_until(reported, "the report is in the DeviceStatus")

    def _read_log(self) -> None:
        words = ["--socket", str(self.machine.cloud.socket), "runs"]
        wait_until(lambda: run_program("cloudcore", "logs", *words).stdout == "hello\n", "the tunnel has the log")
