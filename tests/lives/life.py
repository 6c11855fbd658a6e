"""A random life of a real node and its cloud."""

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Event
from typing import Final

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE
from tests.end_to_end.pods import config_map, is_ready, phase
from tests.end_to_end.processes import comes_true, run_program
from tests.end_to_end.runtimes import RuntimeUnderTest
from tests.lives.drawn import LASTING, PODS, WORKLOADS, pod_of, service_of, workload_of
from tests.modules.cloud.router.rules import from_topic, from_url, to_service, to_topic
from tests.modules.edge.eventbus.broker import Application
from tests.modules.processes.cloudcore.devices import device, model
from tests.modules.processes.cloudcore.routes import call
from tests.replay.live_rules import EquippedMachine
from tests.support.http_application import HttpApplication
from tests.support.kubectl import Kubectl

_PODS: Final = "/api/v1/namespaces/default/pods"
_READ: Final = (
    _PODS,
    "/api/v1/nodes",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/services",
    "/apis/devices.kubeedge.io/v1beta1/namespaces/default/devices",
)
_STEP: Final = 40.0
"""Seconds to wait for what a life need not reach."""
_never: Final = Event()


class _NothingError(Exception):
    """There is nothing of a kind yet that an action could change."""


class Life(EquippedMachine):
    """What users, devices, applications, the link and the power do to a node, drawn.

    Args:
        runtime: of the node.
        draw: of all decisions.
        is_late: whether the recording begins when a third of the life is over.
    """

    def __init__(self, runtime: RuntimeUnderTest, draw: Random, *, is_late: bool) -> None:
        super().__init__(runtime)
        self.machine.edge.longest_back_off = 4.0
        self.machine.is_recorded = not is_late
        self._draw = draw
        self._is_late = is_late
        self._number = 0
        self._pods: set[str] = set()
        self._devices: set[str] = set()
        self._workloads: set[tuple[str, str]] = set()
        self._listener: Application | None = None
        self._ports = (0, 0)
        """Of an application on the node, and of a server beside the cloud."""
        self.said: list[str] = []
        """What was done, with the times."""
        self.failed = 0
        """Actions that were refused, or met a cloud or a node that was away."""

    @property
    def runtime(self) -> RuntimeUnderTest:
        """Of the node."""
        return self.machine.runtime

    def live(self, actions: int, kept: Path) -> None:
        """Live, and keep recordings and logs in a directory.

        Raises:
            AssertionError: a process ended by itself, or left something behind; or most actions failed.
        """
        try:
            with self._begun():
                for number in range(actions):
                    if self._is_late and number == actions // 3:
                        self.machine.is_recorded = True
                        self._restart(self._draw.random() < 0.5)
                    self._act()
                _never.wait(3.0)  # what is done in the last second of a recording does not count
                self._end_edge(self._draw.random() < 0.2)
            assert self.failed <= actions // 2, f"{self.failed} of {actions} actions failed"
        finally:
            self._keep(kept)
            self.close()

    @contextmanager
    def _begun(self) -> Iterator[None]:
        cloud = self.machine.cloud
        self.broker.start()
        cloud.start()
        self.people.wait()
        self.authors.wait()
        self.people.apply(model())
        self._settings()
        with ExitStack() as ends:
            application, server = (ends.enter_context(HttpApplication()) for _ in range(2))
            self._ports = application.port, server.port
            self._listener = self.application()
            ends.callback(self._deafen)
            self.start()
            self._rules()
            yield

    def _act(self) -> None:
        """Do one thing that is possible; the API may refuse it, and it may meet a cloud or a node that is away."""
        what = self._draw.choice(_ACTIONS)
        self._say(what.__name__.strip("_"))
        try:
            what(self)
        except _NothingError:
            self._say("  there is none")
            self._act()
        except (AssertionError, OSError, ValueError) as error:
            self._say(f"  {type(error).__name__}: {str(error)[:200]}")
            self.failed += 1
        for name, process in (("cloudcore", self.machine.cloud), ("edgecore", self.machine.edge.process)):
            assert process.runs, f"{name} has ended by itself\n{process.tail()}"

    def _say(self, text: str) -> None:
        self.said.append(f"{time.strftime('%H:%M:%S')} {text}")

    def _keep(self, kept: Path) -> None:
        (kept / "said.txt").write_text("\n".join(self.said) + "\n")
        found = [*self.machine.directory.glob("*.log"), *self.machine.directory.glob("*.trace")]
        for file in [*found, *(self.machine.edge.root / "edged" / "traces").glob("*.trace")]:
            shutil.copy(file, kept)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    def _one_of(self, names: set[str]) -> str:
        if not names:
            raise _NothingError
        return self._draw.choice(sorted(names))

    def _wait(self, true: Callable[[], bool]) -> None:
        if not comes_true(true, _STEP):
            self._say("  not waited for")

    def _pause(self, longest: float) -> None:
        _never.wait(self._draw.random() * longest)

    def _cloudcore(self, verb: str, *words: str) -> None:
        done = run_program("cloudcore", verb, "--socket", str(self.machine.cloud.socket), *words)
        self._say(f"  {verb} {' '.join(words)[:80]}: {done.returncode} {(done.stdout + done.stderr).strip()[:100]}")

    # users

    def _pod(self) -> None:
        kind, name, cloud = self._draw.choice(PODS), self._name("pod"), self.machine.cloud
        self._say(f"  {name} {kind}")
        cloud.apply(pod_of(kind, self._draw, name))
        self._pods.add(name)
        if kind == "no-settings" and self._draw.random() < 0.7:
            self._pause(2.0)
            cloud.apply(config_map(f"late-{name}", A="1"))
        if kind in LASTING and self._draw.random() < 0.6:
            self._wait(lambda: self._is_done(name))

    def _is_done(self, name: str) -> bool:
        found = self.machine.cloud.get("Pod", name)
        return is_ready(found) or phase(found) in ("Succeeded", "Failed")

    def _delete(self) -> None:
        name = self._one_of(self._pods)
        self._pods.discard(name)
        self.machine.cloud.delete("Pod", name, grace=self._draw.choice([None, 0, 1]))
        if self._draw.random() < 0.4:
            self._wait(lambda: not self._exists(name))

    def _exists(self, name: str) -> bool:
        return self.machine.cloud.client.request("GET", f"{_PODS}/{name}")[0] == 200

    def _use_a_name_again(self) -> None:
        name = self._one_of(self._pods)
        self.machine.cloud.delete("Pod", name, grace=self._draw.choice([0, 1]))
        self._pause(2.0)
        self.machine.cloud.apply(pod_of("plain", self._draw, name))

    def _label(self) -> None:
        if self._pods and self._draw.random() < 0.6:
            pair = f"l{self._draw.randrange(3)}=v{self._draw.randrange(99)}"
            self._cloudcore("label", "pod", self._one_of(self._pods), pair, "--overwrite")
            return
        value = f"v{self._draw.randrange(99)}"
        self._cloudcore(
            *self._draw.choice(
                [
                    ("label", "node", NODE, f"nl={value}", "--overwrite"),
                    ("annotate", "node", NODE, f"na={value}", "--overwrite"),
                    ("cordon", NODE),
                    ("uncordon", NODE),
                    ("taint", "node", NODE, "x=y:PreferNoSchedule", "--overwrite"),
                ]
            )
        )

    def _image(self) -> None:
        image = {"name": "app", "image": self._draw.choice(["busybox:1.37", "busybox:1.36"])}
        patch = json.dumps({"spec": {"containers": [image]}})
        self._cloudcore("patch", "pod", self._one_of(self._pods), "--type=strategic", "-p", patch)

    def _settings(self) -> None:
        value = f"secret-value-{self._draw.randrange(10**9)}"
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"}}
        self.machine.cloud.apply(config_map("settings", key=value[:15]), {**secret, "stringData": {"k": value}})

    def _workload(self) -> None:
        kind = self._draw.choice(WORKLOADS)
        name = self._name(kind.lower())
        self.machine.cloud.apply(workload_of(kind, self._draw, name))
        self._workloads.add((kind, name))

    def _change_a_workload(self) -> None:
        if not self._workloads:
            raise _NothingError
        kind, name = chosen = self._draw.choice(sorted(self._workloads))
        if self._draw.random() < 0.4:
            self._workloads.discard(chosen)
            self._cloudcore("delete", kind.lower(), name, "--wait=false")
            return
        template = {"metadata": {"annotations": {"x": str(self._draw.random())}}}
        patch = json.dumps({"spec": {"replicas": self._draw.randrange(3), "template": template}})
        self._cloudcore("patch", kind.lower(), name, "--type=merge", "-p", patch)

    def _service(self) -> None:
        self.machine.cloud.apply(service_of(self._draw, self._name("service")))

    def _stream(self) -> None:
        name = self._one_of(self._pods)
        self._cloudcore(*self._draw.choice([("logs", name), ("exec", name, "--", "echo", "hi")]))

    # devices and applications

    def _device(self) -> None:
        name = self._name("device")
        self.people.apply(device(name, node=NODE))
        self._devices.add(name)

    def _desire(self) -> None:
        self.people.apply(device(self._one_of(self._devices), node=NODE, desired=f"{self._draw.randrange(1, 60)}.5"))

    def _remove_a_device(self) -> None:
        name = self._one_of(self._devices)
        self._devices.discard(name)
        self.people.delete("devices", name)

    def _report(self) -> None:
        name = self._one_of(self._devices)
        for _ in range(self._draw.choice([1, 1, 5])):
            value = str(self._draw.randrange(100))
            twin = {"temperature": {"actual": {"value": value}}}
            at = int(time.time() * 1000)
            self._publish(name, "twin/update", {"event_id": value, "timestamp": at, "twin": twin})

    def _ask_for_a_twin(self) -> None:
        self._publish(self._one_of(self._devices), "twin/get", {"event_id": "g", "timestamp": 1})

    def _state(self) -> None:
        state = self._draw.choice(["online", "offline"])
        self._publish(self._one_of(self._devices), "state/update", {"event_id": "s", "timestamp": 1, "state": state})

    def _publish(self, name: str, topic: str, content: JsonObject) -> None:
        assert self._listener is not None
        self._listener.publish(f"$hw/events/device/default/{name}/{topic}", json.dumps(content))

    def _message(self) -> None:
        assert self._listener is not None
        self._listener.publish("default/up/1", str(self._draw.random()))

    def _call(self) -> None:
        if self._draw.random() < 0.5:
            call(self.calls, f"/{NODE}/default/svc/x?q=1")
        else:
            call(self.calls, f"/{NODE}/default/a/b", "POST", b"hello")

    def _ask(self) -> None:
        body = {"method": "PUT", "targetURL": "http://lab.example/call", "payload": "text"}
        call(self.asks, "/", "POST", json.dumps(body).encode())

    def _rules(self) -> None:
        application, server = self._ports
        url = f"http://127.0.0.1:{server}"
        up = from_topic(f"{url}/in", "up/#", NODE), from_url(f"{url}/orders", "http://lab.example/call", NODE)
        self.authors.apply_endpoints(application)
        self.authors.apply(to_topic(), to_service(), *up)

    def _delete_a_rule(self) -> None:
        self.authors.delete(self._draw.choice(["r1", "r2", "r3", "r4"]))

    def _metaserver(self) -> None:
        client = Kubectl(self.machine.edge.api_port)
        match self._draw.choice(["read", "delete", "patch", "create"]):
            case "read":
                client.ask(self._draw.choice(_READ))
            case "delete":
                name = self._one_of(self._pods)
                self._pods.discard(name)
                client.ask(f"{_PODS}/{name}", method="DELETE")
            case "patch":
                body = {"metadata": {"labels": {"c": str(self._draw.randrange(9))}}}
                merge = "application/strategic-merge-patch+json"
                client.ask(f"/api/v1/nodes/{NODE}", method="PATCH", body=body, Content_Type=merge)
            case _:
                client.ask("/api/v1/namespaces/default/configmaps", method="POST", body=config_map(self._name("meta")))

    # failures

    def _outage(self) -> None:
        cloud = self.machine.cloud
        cloud.kill()
        try:
            for _ in range(self._draw.randrange(3)):
                with suppress(_NothingError, AssertionError, OSError):
                    self._draw.choice([Life._report, Life._message, Life._metaserver])(self)
            if self._draw.random() < 0.3:
                self._restart(self._draw.random() < 0.5)
            self._pause(6.0)
        finally:
            cloud.start()
        if self._draw.random() < 0.7:
            _never.wait(3.0)

    def _kill_edgecore(self) -> None:
        self._restart(kill=True)

    def _stand_still(self) -> None:
        """Stop edgecore for seconds, as a machine that is short of processors or whose virtual machine is paused."""
        process = self.machine.edge.process
        process.signal(signal.SIGSTOP)
        try:
            self._pause(4.0)
        finally:
            process.signal(signal.SIGCONT)

    def _stop_edgecore(self) -> None:
        self._restart(kill=False)

    def _restart(self, kill: bool) -> None:
        self._end_edge(kill)
        if self._draw.random() < 0.3:
            self._say("  the containers end meanwhile")
            self._kill_containers()
        try:
            self._change_meanwhile()
        finally:
            self.start() if self._draw.random() < 0.7 else self.machine.start_edge()

    def _change_meanwhile(self) -> None:
        if not self.machine.cloud.runs:
            return
        if self._draw.random() < 0.4:
            self._settings()
        if self._pods and self._draw.random() < 0.4:
            name = self._one_of(self._pods)
            self._pods.discard(name)
            self.machine.cloud.delete("Pod", name)

    def _end_edge(self, kill: bool) -> None:
        process = self.machine.edge.process
        if kill:
            self.machine.edge.kill()
            return
        process.signal(signal.SIGTERM)
        ended = process.wait()
        assert ended in (0, -signal.SIGTERM), f"edgecore ended with {ended}"  # the signal ends one that has just begun

    def _kill_containers(self) -> None:
        self.runtime.kill_containers(self.machine.edge.root / "edged")

    def _restart_the_broker(self) -> None:
        self._deafen()
        self.broker.stop() if self._draw.random() < 0.5 else self.broker.kill()
        self._pause(2.0)
        self.broker.start()
        self._listener = self.application()

    def _deafen(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _dump(self) -> None:
        """Have the flight recorder written, unless edgecore's interpreter starts just now: the signal would end it."""
        if self.machine.edge.process.outlives(signal.SIGUSR2):
            self.machine.edge.process.signal(signal.SIGUSR2)

    def _rest(self) -> None:
        self._pause(5.0)


_WEIGHTS: Final[dict[Callable[[Life], None], int]] = {
    Life._pod: 8, Life._delete: 4, Life._use_a_name_again: 2, Life._label: 3, Life._image: 1, Life._settings: 3,
    Life._workload: 3, Life._change_a_workload: 2, Life._service: 2, Life._stream: 2, Life._device: 1,
    Life._desire: 1, Life._remove_a_device: 1, Life._report: 3, Life._ask_for_a_twin: 1, Life._state: 1,
    Life._message: 1, Life._call: 2, Life._ask: 1, Life._rules: 1, Life._delete_a_rule: 1, Life._metaserver: 3,
    Life._outage: 1, Life._stand_still: 1, Life._kill_edgecore: 1, Life._stop_edgecore: 1, Life._kill_containers: 1,
    Life._restart_the_broker: 1, Life._dump: 1, Life._rest: 3,
}  # fmt: skip
_ACTIONS: Final = [action for action, weight in _WEIGHTS.items() for _ in range(weight)]
