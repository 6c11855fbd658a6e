"""CNI plug-ins that are scripts: their input, their order, and what hostile ones can do."""

import errno
import json
import os
import select
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.clock import RealClock
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network import pod_network
from modules.runtimes.oci.network.attachment import FILE, Attachment, read_attachment, write_attachment
from modules.runtimes.oci.network.errors import NetworkConfigurationError, PodNetworkError, TryAgainLaterError
from modules.runtimes.oci.network.plugin import PluginRunner
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.network.turns import MOST_CHAINS, Turns
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import script

SANDBOX = "c" * 64
RESULT = '{"cniVersion":"1.0.0","ips":[{"address":"10.9.0.7/24"}]}'
RECORD = """
dir=$(dirname "$0")
number=$(ls "$dir" | grep -c "^call")
cat > "$dir/call$number.stdin"
env > "$dir/call$number.env"
"""
ADDRESS = RECORD + f"""[ "$CNI_COMMAND" = ADD ] && echo '{RESULT}'; true"""


class Machine:
    """A machine with scripts as plug-ins."""

    def __init__(self, directory: Path, clock: RealClock, runner: PluginRunner | None = None) -> None:
        self.configurations, self.programs = directory / "net.d", directory / "bin"
        self.configurations.mkdir()
        self.sandbox = directory / "sandbox"
        self.sandbox.mkdir()
        self.netns = directory / "netns"
        self.netns.touch()
        searched = [directory / "none", self.programs]
        self.network = PodNetwork(self.configurations, searched, clock, runner=runner or PluginRunner(clock))

    def configure(self, *plugins: dict[str, Any], version: str = "1.0.0", name: str = "10-pods.conflist") -> None:
        """Write a configuration."""
        content = {"cniVersion": version, "name": "pods", "plugins": plugins}
        (self.configurations / name).write_text(json.dumps(content))

    def plugin(self, name: str, text: str) -> None:
        """Install a script."""
        script(self.programs, name, text)

    def calls(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Command, plug-in and input of each call."""
        found = []
        for path in sorted(self.programs.glob("call*.stdin"), key=lambda each: int(each.stem[4:]) // 2):
            environment = dict(line.split("=", 1) for line in path.with_suffix(".env").read_text().splitlines())
            content = json.loads(path.read_text())
            found.append((environment["CNI_COMMAND"], content["type"], {**content, "env": environment}))
        return found

    def attach(self, config: cri.PodSandboxConfig | None = None) -> PodAddresses:
        """Attach the sandbox."""
        return self.network.attach(SANDBOX, self.sandbox, self.netns, config or pod())

    def detach(self) -> None:
        """Detach the sandbox."""
        self.network.detach(SANDBOX, self.sandbox, self.netns)


def pod(**more: Any) -> cri.PodSandboxConfig:
    """The sandbox of a pod."""
    return cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", namespace="shop", uid="u-1"), **more)


@pytest.fixture
def machine(directory: Path, clock: RealClock) -> Machine:
    """A machine without a configuration."""
    return Machine(directory, clock)


def test_a_plugin_gets_the_input_of_the_specification(machine: Machine) -> None:
    """The environment, and its configuration without the capabilities that it declares."""
    machine.plugin("first", ADDRESS)
    machine.configure({"type": "first", "mtu": 1400, "capabilities": {"portMappings": True, "dns": True}})
    ports = [cri.PortMapping(container_port=80, host_port=8080)]
    assert machine.attach(pod(port_mappings=ports)) == PodAddresses("10.9.0.7")
    ((command, _, content),) = machine.calls()
    environment = content.pop("env")
    assert command == "ADD"
    assert content == {
        "type": "first", "mtu": 1400, "name": "pods", "cniVersion": "1.0.0",
        "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
    }  # fmt: skip
    assert environment["CNI_CONTAINERID"] == SANDBOX
    assert environment["CNI_NETNS"] == str(machine.netns)
    assert environment["CNI_IFNAME"] == "eth0"
    assert environment["CNI_PATH"].split(":")[1] == str(machine.programs)
    identity = f"K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID={SANDBOX};K8S_POD_UID=u-1"
    assert environment["CNI_ARGS"] == f"IgnoreUnknown=1;{identity}"
    assert "PATH" in environment


@pytest.mark.parametrize(("version", "in_del"), [("0.3.1", False), ("0.4.0", True), ("1.1.0", True)])
def test_add_goes_forth_and_del_back(machine: Machine, version: str, in_del: bool) -> None:
    """The second gets the first's result; in DEL all get the last, from CNI 0.4.0 on."""
    for name in ("first", "second"):
        machine.plugin(name, ADDRESS)
    machine.configure({"type": "first"}, {"type": "second"}, version=version)
    machine.attach()
    (machine.configurations / "10-pods.conflist").unlink()  # DEL goes by what was kept
    machine.detach()
    calls = machine.calls()
    assert [call[:2] for call in calls] == [("ADD", "first"), ("ADD", "second"), ("DEL", "second"), ("DEL", "first")]
    assert ["prevResult" in call[2] for call in calls] == [False, True, in_del, in_del]
    assert calls[1][2]["prevResult"]["ips"] == [{"address": "10.9.0.7/24"}]
    machine.detach()
    assert len(machine.calls()) == 4
    assert not (machine.sandbox / FILE).exists()


def test_rules_are_looked_after_until_the_last_sandbox_is_detached(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then what binds pods to their addresses goes, too."""
    machine.plugin("first", ADDRESS)
    machine.configure({"type": "first"})
    tidied, rules, other = list[bool](), machine.network._rules, machine.sandbox.with_name("other")
    other.mkdir()
    default = SimpleNamespace(configuration=None, sender_of=lambda _: None)
    default.senders = SimpleNamespace(tidy=lambda: tidied.append(rules.is_idle()))
    monkeypatch.setattr(machine.network, "_default", default)
    machine.attach()
    machine.network.attach("other", other, machine.netns, pod())
    machine.detach()
    assert (tidied, rules.is_idle()) == ([], False)
    machine.network.detach("other", other, machine.netns)
    assert tidied == [True]
    machine.attach()
    machine.network.close()
    rules.begin()
    assert rules._thread is None, "nothing is looked for after the end"


def test_a_sandbox_is_bound_to_an_address_that_its_end_will_know(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What binds it would stay for ever after a kill between the two."""
    machine.plugin("first", ADDRESS)
    machine.configure({"type": "first"})
    kept = list[Attachment | None]()
    default = SimpleNamespace(configuration=None, sender_of=lambda _: SimpleNamespace(mac=b""))
    default.senders = SimpleNamespace(bind=lambda _: kept.append(read_attachment(machine.sandbox)))
    monkeypatch.setattr(machine.network, "_default", default)
    monkeypatch.setattr(pod_network, "announce", lambda *_: None)
    machine.attach()
    assert [each is not None and each.result is not None for each in kept] == [True]


def test_plugins_with_nothing_to_do_are_left_out(machine: Machine) -> None:
    """portmap for a pod without host ports, in ADD and DEL."""
    for name in ("first", "portmap", "bandwidth"):
        machine.plugin(name, ADDRESS)
    machine.configure({"type": "first"}, {"type": "portmap"}, {"type": "bandwidth"})
    machine.attach()
    machine.detach()
    assert [call[:2] for call in machine.calls()] == [("ADD", "first"), ("DEL", "first")]


def test_a_failed_add_is_followed_by_del(machine: Machine) -> None:
    """Of all plug-ins, and the error says what the plug-in has said."""
    machine.plugin("first", ADDRESS)
    failing = (
        RECORD + """[ "$CNI_COMMAND" = DEL ] || { echo '{"code":7,"msg":"bad","details":"no bridge"}'; exit 1; }"""
    )
    machine.plugin("second", failing)
    machine.configure({"type": "first"}, {"type": "second"})
    with pytest.raises(PodNetworkError, match="ADD with the CNI plug-in second: code 7: bad: no bridge"):
        machine.attach()
    assert [call[:2] for call in machine.calls()[2:]] == [("DEL", "second"), ("DEL", "first")]
    assert not (machine.sandbox / FILE).exists()


def test_a_crash_within_add_leaves_enough_for_del(machine: Machine, directory: Path) -> None:
    """What was written before ADD: as after SIGKILL, and the restart of the machine without a namespace."""
    machine.plugin("first", ADDRESS)
    machine.configure({"type": "first"})
    machine.attach()
    kept = json.loads((machine.sandbox / FILE).read_text())
    (machine.sandbox / FILE).write_text(json.dumps({**kept, "result": None}))
    machine.netns.unlink()
    machine.detach()
    command, _, content = machine.calls()[-1]
    assert (command, content["env"]["CNI_NETNS"], "prevResult" in content) == ("DEL", "", False)


def test_a_damaged_record_is_replaced_by_todays_configuration(machine: Machine) -> None:
    """The address is freed nevertheless; without a configuration there is nothing to be done."""
    (machine.sandbox / FILE).write_text('{"network"')
    machine.detach()
    assert not (machine.sandbox / FILE).exists()
    machine.plugin("first", ADDRESS)
    machine.configure({"type": "first"})
    (machine.sandbox / FILE).write_text('{"network"')
    machine.detach()
    assert [call[:2] for call in machine.calls()] == [("DEL", "first")]


def test_all_plugins_get_the_deletion(machine: Machine) -> None:
    """The first error is raised, what is kept stays for another attempt; an unknown container is no error."""
    machine.plugin("first", ADDRESS)
    machine.plugin("second", ADDRESS)
    machine.configure({"type": "first"}, {"type": "second"})
    machine.attach()
    machine.plugin("second", "echo broken >&2; exit 1")
    with pytest.raises(PodNetworkError, match="DEL with the CNI plug-in second: broken"):
        machine.detach()
    assert machine.calls()[-1][:2] == ("DEL", "first")
    machine.plugin("second", """echo '{"code":3,"msg":"unknown container"}'; exit 1""")
    machine.detach()
    assert not (machine.sandbox / FILE).exists()


def test_a_plugin_may_ask_for_another_attempt(machine: Machine) -> None:
    """CNI's code 11 has an error of its own."""
    machine.plugin("first", """[ $CNI_COMMAND = DEL ] || { echo '{"code":11,"msg":"starting"}'; exit 1; }""")
    machine.configure({"type": "first"})
    with pytest.raises(TryAgainLaterError, match="starting"):
        machine.attach()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", "more than 1048576 bytes"),
        ("echo garbage", "no JSON object"),
        ("echo '[1]'", "no JSON object"),
        ("head -c 300000 /dev/zero | tr '\\0' '['", "no JSON object"),
        ("printf '\\377'", "no JSON object"),
        ("echo '{}'", "0 addresses"),
        ("true", "0 addresses"),
        ("""echo '{"ips":[{"address":"nowhere"}]}'""", "does not appear"),
        ("exit 9", "it ended with 9 and said nothing"),
        ("printf '\\033[2Jbad' >&2; exit 1", r"\\x1b\[2Jbad"),
        ("kill -9 $$", "ended with -9"),
    ],
)
def test_a_hostile_plugin_fails_as_an_error(machine: Machine, text: str, error: str) -> None:
    """Bounded in size and depth, and nothing of it reaches a terminal."""
    machine.plugin("first", f'[ "$CNI_COMMAND" = DEL ] && exit\n{text}')
    machine.configure({"type": "first"})
    with pytest.raises(PodNetworkError, match=error):
        machine.attach()


class BeginningClock(RealClock):
    """A clock whose time passes once, when a plug-in has written a file: however slowly it starts, it comes to hang."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._is_asked = False

    def monotonic(self) -> float:
        """See `Clock`."""
        is_first, self._is_asked = not self._is_asked, True
        has_begun = not is_first and self._file.exists() and self._file.read_text().endswith("\n")
        return 1000.0 if has_begun else 0.0


@pytest.mark.parametrize("hang", ["sleep 1000", "exec >&- 2>&-; sleep 1000", "while :; do echo x >&2; done"])
def test_a_plugin_that_hangs_is_killed_with_its_children(directory: Path, clock: RealClock, hang: str) -> None:
    """Also when it has closed its output, or fills its standard error."""
    pids = directory / "pids"
    machine = Machine(directory, clock, PluginRunner(BeginningClock(pids), 0.3))
    machine.configure({"type": "first"})
    machine.plugin("first", f'[ "$CNI_COMMAND" = DEL ] && exit\nsleep 1000 & echo $! $$ > {pids}\n{hang}')
    with pytest.raises(PodNetworkError, match=r"did not end within 0\.3 s and was killed"):
        machine.attach()
    for pid in pids.read_text().split():
        assert has_ended(pid)


def test_a_child_that_stays_does_not_hold_the_plugin(machine: Machine, directory: Path) -> None:
    """It has the plug-in's output open, and writes on."""
    pid = directory / "pid"
    stays = f"(while :; do echo x >&2; sleep 0.1; done) & echo $! > {pid}"
    machine.plugin("first", f"{ADDRESS}\n[ $CNI_COMMAND = DEL ] || {{ {stays}; }}")
    machine.configure({"type": "first"})
    try:
        assert machine.attach().ip == "10.9.0.7"
    finally:
        os.kill(int(pid.read_text()), 9)


class GatedRunner(PluginRunner):
    """A runner whose plug-ins end when the gate opens."""

    def __init__(self, clock: RealClock) -> None:
        super().__init__(clock)
        self.gate, self.entered = threading.Event(), threading.Semaphore(0)
        self.inside = self.most = 0
        self._lock = threading.Lock()

    def run(self, program: Path, task: Mapping[str, str], configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Count the callers inside."""
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.entered.release()
        self.gate.wait()
        with self._lock:
            self.inside -= 1
        return dict(json.loads(RESULT))


@pytest.mark.parametrize(("ids", "most"), [("abcdefgh", MOST_CHAINS), ("aaaa", 1)])
def test_few_sandboxes_at_one_time(directory: Path, clock: RealClock, ids: str, most: int) -> None:
    """At most four, and never two of one sandbox."""
    runner = GatedRunner(clock)
    machine = Machine(directory, clock)
    machine.plugin("first", "")
    machine.configure({"type": "first"})
    network = PodNetwork(machine.configurations, [machine.programs], clock, runner=runner)
    homes = [directory / f"s{number}" for number in range(len(ids))]
    with ThreadPoolExecutor(len(ids)) as pool:
        for home in homes:
            home.mkdir()
        runs = [
            pool.submit(network.attach, each, home, machine.netns, pod()) for each, home in zip(ids, homes, strict=True)
        ]
        for _ in range(most):
            runner.entered.acquire()
        runner.gate.set()
        assert {run.result().ip for run in runs} == {"10.9.0.7"}
    assert runner.most == most


def test_starting_pods_do_not_wait_for_ending_ones() -> None:
    """A free turn goes to an attachment if another sandbox is being detached."""
    turns = Turns()
    served: SimpleQueue[str] = SimpleQueue()
    attached = threading.Event()

    def detach() -> None:
        with turns.to_detach("ends"):
            served.put("ends")

    def attach() -> None:
        with turns.to_attach("starts"):
            served.put("starts")
            attached.wait()

    with ExitStack() as held, ThreadPoolExecutor(2) as pool:
        held.callback(attached.set)
        first, *others = [turns.to_detach(f"{number}") for number in range(MOST_CHAINS)]
        with ExitStack() as ending:
            with first:
                for each in others:
                    ending.enter_context(each)
                pool.submit(detach)
                pool.submit(attach)
                while not turns.concern("starts"):
                    threading.Event().wait(0.001)
            assert served.get() == "starts"
            attached.set()
        assert served.get() == "ends"
    assert not turns.concern("starts")


def test_status_names_missing_parts(machine: Machine) -> None:
    """No file, a wrong one, a missing program; and it notices changes."""
    assert machine.network.status().reason == "NetworkPluginNotReady"
    assert "has no file" in machine.network.status().message
    with pytest.raises(NetworkConfigurationError, match="conflist"):
        machine.attach()
    machine.configure({"type": "first", "ipam": {"type": "host-local"}})
    assert "first, host-local" in machine.network.status().message
    machine.plugin("first", ADDRESS)
    machine.plugin("host-local", ADDRESS)
    assert machine.network.status().ready
    (machine.configurations / "00-first.conf").write_text("{")
    assert "00-first.conf" in machine.network.status().message
    (machine.configurations / "00-first.conf").unlink()
    assert machine.network.status().ready


def test_a_missing_program_is_named_with_its_package(machine: Machine) -> None:
    """ADD fails, and DEL too, until it is there again."""
    machine.configure({"type": "first"})
    with pytest.raises(PodNetworkError, match="apt-get install containernetworking-plugins"):
        machine.attach()
    assert (machine.sandbox / FILE).exists()
    machine.plugin("first", ADDRESS)
    machine.detach()
    assert not (machine.sandbox / FILE).exists()


def test_names_that_would_be_arguments_are_refused(machine: Machine) -> None:
    """`CNI_ARGS` has pairs, separated by `;`."""
    machine.plugin("first", ADDRESS)
    machine.configure({"type": "first"})
    for name in ("a;K8S_POD_NAME=b", "a\0"):
        with pytest.raises(BadRequestError):
            machine.attach(cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name=name)))


def has_ended(pid: str) -> bool:
    """Whether a process ends within the time of a slow machine."""
    try:
        process = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 60)[0])
    finally:
        os.close(process)


@pytest.mark.parametrize("failing", ["the second write", "the addresses", "a sysctl of the interface"])
def test_whatever_fails_in_attaching_a_sandbox_it_is_detached(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """The plug-ins have done their part; the sandbox keeps no address and no attachment."""
    machine.plugin("first", ADDRESS)
    machine.configure({"type": "first"})
    written: list[Path] = []

    def write(directory: Path, attachment: Attachment) -> None:
        written.append(directory)
        if failing == "the second write" and len(written) == 2:
            raise OSError(errno.ENOSPC, "no space left on device")
        write_attachment(directory, attachment)

    def fail(*_: object) -> None:
        raise ValueError("it failed")

    monkeypatch.setattr(pod_network, "write_attachment", write)
    if failing == "the addresses":
        monkeypatch.setattr(pod_network, "_addresses", fail)
    elif failing == "a sysctl of the interface":
        monkeypatch.setattr(pod_network, "in_network_namespace", fail)
    linux = cri.LinuxPodSandboxConfig(sysctls={"net.ipv4.conf.eth0.arp_ignore": "1"})
    with pytest.raises((OSError, ValueError)):
        machine.attach(pod(linux=linux))
    assert [command for command, _, _ in machine.calls()] == ["ADD", "DEL"]
    assert not (machine.sandbox / FILE).exists()


def test_an_address_whose_file_a_power_cut_has_emptied_is_freed(machine: Machine, directory: Path) -> None:
    """host-local frees an address for the container that its file names. A file of this boot is being written."""
    leases = directory / "leases" / "pods"
    leases.mkdir(parents=True)
    contents = {"10.9.0.2": "", "10.9.0.3": "\0\0", "10.9.0.4": "alive\r\neth0", "10.9.0.5": "", "lock": ""}
    for name, content in contents.items():
        (leases / name).write_text(content)
        os.utime(leases / name, None if name == "10.9.0.5" else (1, 1))
    machine.configure({"type": "first", "ipam": {"type": "host-local", "dataDir": str(leases.parent)}})
    machine.network.collect({"alive"})
    assert sorted(each.name for each in leases.iterdir()) == ["10.9.0.4", "10.9.0.5", "lock"]
    assert machine.calls() == []
