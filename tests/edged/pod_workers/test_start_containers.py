"""The start of one container, and what an earlier edgecore left of it, with parts that note what they are asked for."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.simulation import Simulation
from edged.cri.contract import ContainerId, SandboxId
from edged.cri.errors import AlreadyExistsError, CriError
from edged.errors import ConfigError
from edged.pod_workers import host_dns
from edged.pod_workers.errors import ContainerStartError
from edged.pod_workers.start_containers import ContainerStarter, PodSandbox, StartContext
from edged.pods.actions import ContainerStart, PodActions
from edged.pods.config.device_options import DeviceRunContainerOptions
from edged.pods.config.resources import HostResources
from edged.pods.config.security import ImageUser
from edged.pods.model import PodFacts
from edged.settings import EdgedSettings
from modules.apimachinery.types import Container, EphemeralContainer, Pod, PodDNSConfig, VolumeMount
from protos.cri.v1 import api_pb2 as cri
from protos.status import StatusCode
from tests.edged.pods.builders import REF, UID, a_container, a_pod, a_sandbox, running

POD = a_pod()
(CONTAINER,) = POD.spec.containers
NOTHING = PodFacts(REF)
TAKEN = AlreadyExistsError("CreateContainer", "bb", StatusCode.ALREADY_EXISTS, "bb_bb1_default_1 is reserved")


def refusal(code: StatusCode) -> CriError:
    """An error of the runtime."""
    return CriError("StartContainer", "c", code, "no")


class Bench:
    """A starter whose parts are all one mock, so that its calls are in order."""

    def __init__(self, root: Path) -> None:
        self.parts = parts = Mock()
        parts.images.ensure_image_exists.return_value = ("sha256:a1", ImageUser())
        parts.resources.devices.run_container_options.return_value = DeviceRunContainerOptions()
        parts.resources.directories.mounts.return_value = []
        parts.resources.host = HostResources(2**30)
        parts.node.state.addresses = ("192.0.2.1",)
        parts.node.status.return_value.allocatable = {}
        self.runtime = parts.runtime
        self.runtime.create_container.side_effect = ["c"]
        resolv_conf = root / "resolv.conf"
        resolv_conf.write_bytes(b"# g\xe9n\xe9r\xe9, in Latin-1\nnameserver 192.0.2.53\n")
        settings = EdgedSettings(
            node_name="n1", root=root, pod_logs=root, runtime_endpoint="unix:///none", resolv_conf=resolv_conf
        )
        self.starter = ContainerStarter(
            settings, Simulation(1).clock, parts.runtime, parts.images, parts.resources, parts.node, parts.events
        )

    def start(
        self, container: Container = CONTAINER, pod: Pod = POD, facts: PodFacts = NOTHING, **options: Any
    ) -> ContainerId:
        """Start a container of a pod."""
        config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="bb1", uid=UID), **options)
        context = StartContext(PodSandbox(SandboxId("s0"), config, ("10.89.0.2",)), {}, Mock(), facts)
        return self.starter.start_container(pod, ContainerStart(container, 1), context)

    def calls(self) -> list[str]:
        """What the runtime and the events were asked for, in order."""
        return [name for name, _, _ in self.parts.mock_calls if name.startswith(("runtime.", "events."))]

    def twin(
        self, state: cri.ContainerState.ValueType = cri.CONTAINER_CREATED, attempt: int = 1, name: str = "bb"
    ) -> Any:
        """A container that the runtime has already."""
        return cri.Container(id="old", state=state, metadata=cri.ContainerMetadata(name=name, attempt=attempt))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_container_is_created_before_it_is_started(bench: Bench) -> None:
    assert bench.start() == "c"
    assert bench.calls() == [
        "runtime.create_container", "events.created", "runtime.start_container", "events.started",
    ]  # fmt: skip
    bench.runtime.start_container.assert_called_once_with("c")


@pytest.mark.parametrize("code", [StatusCode.UNKNOWN, StatusCode.FAILED_PRECONDITION])
def test_a_new_container_that_does_not_start_stays(bench: Bench, code: StatusCode) -> None:
    """Its exit code and log tell why."""
    bench.runtime.start_container.side_effect = refusal(code)
    with pytest.raises(ContainerStartError) as refused:
        bench.start()
    assert refused.value.waiting.reason == "RunContainerError"
    assert bench.calls()[2:] == ["runtime.start_container", "events.failed"]


def test_a_container_that_an_earlier_edgecore_created_is_started(bench: Bench) -> None:
    bench.runtime.create_container.side_effect = TAKEN
    bench.runtime.list_containers.return_value = [bench.twin()]
    assert bench.start() == "old"
    assert bench.calls() == [
        "runtime.create_container", "runtime.list_containers", "events.created", "runtime.start_container",
        "events.started",
    ]  # fmt: skip
    assert bench.runtime.list_containers.call_args.args[0].pod_sandbox_id == "s0"


@pytest.mark.parametrize(
    "twin", [{"state": cri.CONTAINER_RUNNING}, {"state": cri.CONTAINER_EXITED}, {"attempt": 2}, {"name": "other"}]
)
def test_another_container_is_not_taken_for_it(bench: Bench, twin: dict[str, Any]) -> None:
    bench.runtime.create_container.side_effect = TAKEN
    bench.runtime.list_containers.return_value = [bench.twin(**twin)]
    with pytest.raises(ContainerStartError) as refused:
        bench.start()
    assert refused.value.waiting.reason == "CreateContainerError"
    assert "runtime.start_container" not in bench.calls()


def test_one_that_an_earlier_edgecore_created_and_that_cannot_be_started_is_made_again(bench: Bench) -> None:
    bench.runtime.create_container.side_effect = [TAKEN, "c"]
    bench.runtime.list_containers.return_value = [bench.twin()]
    bench.runtime.start_container.side_effect = [refusal(StatusCode.FAILED_PRECONDITION), None]
    assert bench.start() == "c"
    started = [call.args[0] for call in bench.runtime.start_container.call_args_list]
    assert (started, bench.runtime.remove_container.call_args.args) == (["old", "c"], ("old",))


def test_one_of_an_earlier_edgecore_that_fails_otherwise_stays(bench: Bench) -> None:
    bench.runtime.create_container.side_effect = TAKEN
    bench.runtime.list_containers.return_value = [bench.twin()]
    bench.runtime.start_container.side_effect = refusal(StatusCode.UNKNOWN)
    with pytest.raises(ContainerStartError):
        bench.start()
    bench.runtime.remove_container.assert_not_called()


def test_the_image_waits_for_a_configuration_that_has_failed(bench: Bench) -> None:
    """The pull policy Always sends a request to the registry at each attempt."""
    images, mounts = bench.parts.images.ensure_image_exists, bench.parts.resources.directories.mounts
    mounts.side_effect = ConfigError("mount", "a volume", "there is none")
    for _ in range(2):
        with pytest.raises(ContainerStartError) as refused:
            bench.start()
        assert refused.value.waiting.reason == "CreateContainerConfigError"
        assert images.call_count == 1, "it is asked for first, and not again"
    mounts.side_effect = None
    bench.start()
    assert images.call_count == 2
    before = mounts.call_count
    bench.runtime.create_container.side_effect = ["c2"]
    bench.start()
    assert mounts.call_count == before + 1, "it is well again, and not checked twice"


def test_a_pod_that_is_removed_has_no_failed_configuration(bench: Bench) -> None:
    mounts = bench.parts.resources.directories.mounts
    mounts.side_effect = ConfigError("mount", "a volume", "there is none")
    with pytest.raises(ContainerStartError):
        bench.start()
    bench.starter.forget_pod(UID)
    bench.parts.images.forget_pod.assert_called_once_with(UID)
    mounts.side_effect = None
    before = mounts.call_count
    bench.start()
    assert mounts.call_count == before + 1


@pytest.mark.parametrize("host_network", [False, True])
def test_a_pod_on_the_hosts_network_has_the_hosts_addresses(bench: Bench, host_network: bool) -> None:
    pod = a_pod(host_network=host_network)
    sandbox = PodSandbox(SandboxId("s0"), cri.PodSandboxConfig(), ("fd00::2", "10.89.0.2"))
    assert bench.starter.pod_ips(pod, sandbox) == (("192.0.2.1",) if host_network else ("10.89.0.2", "fd00::2"))


@pytest.mark.parametrize("has_users", [False, True])
def test_a_container_has_the_users_of_its_sandbox(bench: Bench, has_users: bool) -> None:
    linux = cri.LinuxPodSandboxConfig()
    namespaces = linux.security_context.namespace_options
    if has_users:
        namespaces.userns_options.mode = cri.POD
        namespaces.userns_options.uids.add(host_id=65536, container_id=0, length=65536)
    bench.start(linux=linux)
    made = bench.runtime.create_container.call_args.args[1].linux.security_context.namespace_options
    assert made.HasField("userns_options") is has_users
    assert [each.host_id for each in made.userns_options.uids] == ([65536] if has_users else [])


def test_an_ephemeral_container_joins_a_running_one(bench: Bench) -> None:
    debugger = EphemeralContainer(name="d", image="busybox", target_container_name="bb")
    facts = PodFacts(REF, (a_sandbox(),), (running(a_container()),))
    bench.start(debugger, facts=facts)
    made = bench.runtime.create_container.call_args.args[1].linux.security_context.namespace_options
    assert (made.pid, made.target_id) == (cri.TARGET, "bb-0")
    with pytest.raises(ContainerStartError):
        bench.start(debugger)


@pytest.mark.parametrize("handler", ["", "kata"])
@pytest.mark.parametrize("host_network", [False, True])
def test_a_sandbox_is_made_with_its_addresses(bench: Bench, handler: str, host_network: bool) -> None:
    """The log directory is there before it. A pod on the host's network has none of its own. The host's resolv.conf
    may have comments in any encoding.
    """
    bench.runtime.run_pod_sandbox.return_value = SandboxId("s1")
    network = cri.PodSandboxNetworkStatus(ip="10.89.0.3", additional_ips=[cri.PodIP(ip="fd00::3"), cri.PodIP()])
    bench.runtime.pod_sandbox_status.return_value.status.network = network
    bench.parts.resources.cgroups.parent.return_value = "/pods/x"
    pod = a_pod(host_network=host_network, runtime_class_name=handler or None)
    made = bench.starter.ensure_sandbox(pod, NOTHING, PodActions(create_sandbox=True, attempt=3))
    assert (made.id, made.config.metadata.attempt) == ("s1", 3)
    assert made.config.dns_config.servers == ["192.0.2.53"]
    assert bench.runtime.run_pod_sandbox.call_args.args[1:] == ((handler,) if handler else ())
    assert made.ips == (() if host_network else ("10.89.0.3", "fd00::3"))
    assert bench.calls()[:1] + bench.calls()[-1:] == ["runtime.run_pod_sandbox", "events.sandbox_made"]
    names = [name for name, _, _ in bench.parts.mock_calls]
    assert names.index("resources.directories.make_log_directory") < names.index("runtime.run_pod_sandbox")


@pytest.mark.parametrize(
    ("more", "ip", "servers", "is_told"),
    [
        ({}, "10.89.0.3", [], True),
        ({"dns_policy": "Default"}, "10.89.0.3", [], True),
        ({"dns_policy": "None"}, "10.89.0.3", [], False),
        ({"dns_config": PodDNSConfig(nameservers=("192.0.2.1",))}, "10.89.0.3", ["192.0.2.1"], False),
        ({"host_network": True}, "10.89.0.3", ["::1", "127.0.0.1"], False),
        ({}, "", [], False),
    ],
)
def test_a_pod_that_reaches_no_name_server_of_the_machine_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], ip: str, servers: list[str], *, is_told: bool
) -> None:
    """Unless it wants none, has one, or is on the machine's network, as are plain processes."""
    monkeypatch.setattr(host_dns, "UPLINKS", ())
    bench.starter._settings.resolv_conf.write_text("nameserver ::1\nnameserver 127.0.0.1\n")
    bench.runtime.run_pod_sandbox.return_value = SandboxId("s1")
    network = cri.PodSandboxNetworkStatus(ip=ip)
    bench.runtime.pod_sandbox_status.return_value.status.network = network
    bench.parts.resources.cgroups.parent.return_value = "/pods/x"
    made = bench.starter.ensure_sandbox(a_pod(**more), NOTHING, PodActions(create_sandbox=True))
    assert made.config.dns_config.servers == servers
    assert ("events.names_unresolved" in bench.calls()) is is_told


@pytest.mark.parametrize("is_known", [False, True])
def test_containers_join_the_sandbox_that_runs(bench: Bench, is_known: bool) -> None:
    bench.parts.resources.cgroups.parent.return_value = "/pods/x"
    facts = PodFacts(REF, (a_sandbox(),) if is_known else ())
    made = bench.starter.ensure_sandbox(POD, facts, PodActions(sandbox=SandboxId("s0")))
    assert (made.id, made.ips) == ("s0", ("10.89.0.2",) if is_known else ())
    assert bench.calls() == []


@pytest.mark.parametrize(("mode", "handlers", "is_able"), [
    ("Enabled", {"": True}, True), ("IfPossible", {"": True}, True), ("IfPossible", {"": False, "other": True}, False),
    ("Enabled", {}, False), (None, {"": True}, False),
])  # fmt: skip
def test_mounts_may_be_recursively_read_only_where_the_runtime_can(
    bench: Bench, mode: str | None, handlers: dict[str, bool], is_able: bool
) -> None:
    """Another would ignore it, and the container could write below the volume; it is asked only where needed."""
    bench.runtime.status.return_value = cri.StatusResponse(
        runtime_handlers=[
            cri.RuntimeHandler(name=name, features=cri.RuntimeHandlerFeatures(recursive_read_only_mounts=able))
            for name, able in handlers.items()
        ]
    )
    bench.start(a_container(volume_mounts=(VolumeMount(name="v", read_only=True, recursive_read_only=mode),)))
    assert bench.parts.resources.directories.mounts.call_args.kwargs == {"has_recursive": is_able}
    assert bench.runtime.status.called is (mode is not None)
