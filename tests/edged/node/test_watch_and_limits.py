"""How the machine and the runtime are looked at."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock, patch

import grpc
import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from edged.cri.errors import UnavailableError
from edged.errors import VolumeError
from edged.node.machine import MachineError, MachineInfo, default_addresses, read_machine
from edged.node.status import NodeReport, node_status
from edged.node.watch import NodeWatch, largest_images, pod_machine, throttled_processors
from edged.settings import EdgedSettings
from modules.apimachinery.types import Nanoseconds, NodeStatus, encode
from modules.lab.doubles.container_runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as pb
from tests.edged.posted import Posted

AWAY = UnavailableError("Status", "", grpc.StatusCode.UNAVAILABLE, "gone")


class Watched:
    """A node watch over a runtime in memory."""

    def __init__(self, root: Path, node_ip: str = "192.0.2.9") -> None:
        self.simulation = Simulation(1)
        self.runtime = FakeRuntime(self.simulation)
        self.reports = Posted[NodeReport]()
        self.settings = EdgedSettings(
            node_name="n1", root=root, pod_logs=root, runtime_endpoint="", node_ip=node_ip, server_port=10255
        )

    def start(self, seconds: float = 0.0) -> NodeReport:
        """Start it, let time pass; the last report."""
        self.simulation.start(NodeWatch, self.settings, self.runtime, self.reports, "v1", MachineInfo())
        return self.run(seconds)

    def run(self, seconds: float) -> NodeReport:
        """The last report after so much time."""
        self.simulation.run_until_idle()
        self.simulation.run_for(seconds)
        return self.reports[-1]


def test_the_throttle_counters_of_processors_are_masked(tmp_path: Path) -> None:
    """Of each processor that has them, in order; other files are left out."""
    for name in ("cpu10/thermal_throttle", "cpu2/thermal_throttle", "cpu3/topology", "cpufreq/thermal_throttle"):
        (tmp_path / name).mkdir(parents=True)
    assert throttled_processors(tmp_path) == tuple(f"{tmp_path}/cpu{number}/thermal_throttle" for number in (2, 10))


def test_a_healthy_node_is_reported_immediately_and_every_period(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    report = watched.start()
    assert (report.runtime_version, report.runtime_problem, report.network_problem) == ("fake://1.0", "", "")
    assert report.machine.addresses == ("192.0.2.9",)
    assert report.machine.memory > 0
    watched.run(30)
    assert len(watched.reports) == 4
    assert watched.runtime.calls["version"] == 1


def test_the_runtimes_handlers_are_reported_with_their_features(tmp_path: Path) -> None:
    """Also while the runtime is away."""
    watched = Watched(tmp_path)
    features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True)
    answer = watched.runtime.status()
    answer.runtime_handlers.extend([pb.RuntimeHandler(name="", features=features), pb.RuntimeHandler(name="x")])
    with patch.object(watched.runtime, "status", side_effect=[answer, AWAY]):
        for report in (watched.start(), watched.run(10)):
            assert encode(node_status(report, NodeStatus(), Nanoseconds(0)).runtime_handlers) == (
                b'[{"name":"","features":{"recursiveReadOnlyMounts":true,"userNamespaces":false}},'
                b'{"name":"x","features":{"recursiveReadOnlyMounts":false,"userNamespaces":false}}]'
            )


def test_a_proxy_of_services_is_reported_as_kube_proxys_version(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.start().proxy_version == ""
    watched.settings = replace(watched.settings, has_service_proxy=True)
    report = watched.start()
    assert node_status(report, NodeStatus(), Nanoseconds(0)).node_info.kube_proxy_version == "v1"


def test_another_address_of_the_machine_is_reported(tmp_path: Path) -> None:
    watched = Watched(tmp_path, node_ip="")
    for address in ("192.0.2.1", "192.0.2.7"):
        with (
            patch("edged.node.watch.default_addresses", return_value=(address,)),
            patch("edged.node.machine.default_addresses", return_value=(address,)),
        ):
            report = watched.run(10) if watched.reports else watched.start()
        assert report.machine.addresses == (address,)


def test_a_runtime_that_is_away_is_the_reports_problem_and_its_name_stays_known(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.start()
    watched.runtime.fail("status", AWAY)
    report = watched.run(11)
    assert "container runtime is down" in report.runtime_problem
    assert report.runtime_version == "fake://1.0"
    assert watched.run(10).runtime_problem == ""


def test_a_runtime_that_came_back_is_asked_for_its_version_again(tmp_path: Path) -> None:
    """It may have been away for an upgrade."""
    watched = Watched(tmp_path)
    watched.start()
    watched.runtime.fail("status", AWAY)
    watched.run(21)
    assert watched.runtime.calls["version"] == 2


@pytest.mark.parametrize(
    ("kind", "field", "told"),
    [
        ("RuntimeReady", "runtime_problem", "container runtime not ready"),
        ("NetworkReady", "network_problem", "container runtime network not ready"),
    ],
)
def test_the_conditions_of_the_runtime_are_reported(tmp_path: Path, kind: str, field: str, told: str) -> None:
    """In the kubelet's words, which people and alerts look for."""
    watched = Watched(tmp_path)
    ill = pb.RuntimeCondition(type=kind, status=False, reason="NoCni", message="no config in /etc/cni")
    answer = pb.StatusResponse(status=pb.RuntimeStatus(conditions=[ill]))
    with patch.object(FakeRuntime, "status", lambda *_: answer):
        assert getattr(watched.start(), field) == f"{told}: {kind}=false reason:NoCni message:no config in /etc/cni"


def test_a_runtime_that_reports_no_conditions_is_not_ready(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    with patch.object(FakeRuntime, "status", lambda *_: pb.StatusResponse()):
        report = watched.start()
    assert report.runtime_problem == "container runtime not ready: it does not report RuntimeReady"
    assert report.network_problem == "container runtime network not ready: it does not report NetworkReady"


def test_a_node_whose_volumes_cannot_be_read_reports_no_others(tmp_path: Path) -> None:
    """The cloud detaches a volume that a report does not name; the last report holds."""
    watched = Watched(tmp_path)
    volumes = Mock(side_effect=[VolumeError("read", "it", retryable=True), ("kubernetes.io/csi/d^1",)])
    watched.simulation.start(
        NodeWatch, watched.settings, watched.runtime, watched.reports, "v1", MachineInfo(), volumes
    )
    watched.run(watched.settings.status_period)
    assert [report.volumes_in_use for report in watched.reports] == [("kubernetes.io/csi/d^1",)]


@pytest.mark.parametrize(("most", "names", "asked"), [(0, [], 0), (1, ["large"], 1), (-1, ["large", "small"], 1)])
def test_as_many_images_are_reported_as_configured(tmp_path: Path, most: int, names: list[str], asked: int) -> None:
    watched = Watched(tmp_path)
    watched.settings = replace(watched.settings, node_status_max_images=most)
    images = [pb.Image(repo_tags=["small"], size=1), pb.Image(repo_tags=["large"], size=2)]
    list_images = Mock(return_value=images)
    with patch.object(FakeRuntime, "list_images", list_images):
        assert [image.names for image in watched.start().images] == [(name,) for name in names]
    assert list_images.call_count == asked


def test_a_runtime_that_cannot_list_its_images_is_reported_without_any(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.runtime.fail("list_images", AWAY)
    report = watched.start()
    assert (report.images, report.runtime_problem) == ((), "")


def test_a_machine_that_cannot_be_read_is_looked_at_again(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    with patch.object(MachineInfo, "machine", side_effect=MachineError("read", "it")):
        watched.simulation.start(NodeWatch, watched.settings, watched.runtime, watched.reports, "v1", MachineInfo())
        watched.simulation.run_for(25)
    assert watched.reports == []
    watched.run(10)
    assert len(watched.reports) == 1


def test_a_root_that_is_not_there_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="root directory"):
        read_machine(tmp_path / "none")


def test_there_is_always_an_address() -> None:
    assert default_addresses()


def _status(capabilities: str) -> Callable[[Path], str]:
    def read_text(path: Path) -> str:
        return f"Name:\tx\nCapEff:\t{capabilities}\n" if path.name == "status" else "250\n"

    return read_text


@pytest.mark.parametrize(("capabilities", "smallest"), [("000001ffffffffff", None), ("00000000a80425fb", 250)])
def test_without_the_capability_no_score_may_be_lower_than_our_own(capabilities: str, smallest: int | None) -> None:
    with patch.object(Path, "read_text", _status(capabilities)):
        assert pod_machine(1 << 30).smallest_oom_adjust == smallest


def test_a_kernel_that_does_not_tell_capabilities_is_taken_for_one_without_them() -> None:
    with patch.object(Path, "read_text", lambda path: "Name:\tx\n" if path.name == "status" else "250\n"):
        assert pod_machine(1 << 30).smallest_oom_adjust == 250


def test_the_period_of_cpu_quotas_is_in_microseconds() -> None:
    assert pod_machine(1 << 30).cfs_period == 100_000
    assert pod_machine(1 << 30, cpu_quota_period=0.005).cfs_period == 5_000


def test_images_and_their_names_are_bounded() -> None:
    """As by a kubelet: five names; -1 is for all, and 0 for none."""
    image = pb.Image(repo_tags=[f"a:{number}" for number in range(9)], size=1)
    assert [len(each.names) for each in largest_images([image], -1)] == [5]
    assert largest_images([image], 0) == ()
