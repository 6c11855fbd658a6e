"""The OCI runtime as a person on the node meets it: images, its removal, and the demo in real containers."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.runtimes.oci.spec import Machine as Kernel
from tests.end_to_end.commands import edgecore
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, mount, pod, state_of
from tests.end_to_end.processes import PATIENCE, REPOSITORY, mounts_below, processes_of, run_program, wait_until
from tests.end_to_end.runtimes import OciUnderTest
from tests.modules.runtimes.oci.node import reason_missing
from tests.support.images import busybox_image, docker_archive

OCI = pytest.mark.parametrize("runtime", ["oci"], indirect=True)


def _edgecore(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program("edgecore", *arguments, "--config", str(machine.edge.file))


def _asked(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return edgecore(*arguments, "--config", str(machine.edge.file))


@OCI
@pytest.mark.gives_its_machine_back
def test_an_image_from_an_archive(machine: Machine) -> None:
    """A running node imports it immediately, a pod of it runs, and its name lists and removes it."""
    archive = docker_archive(busybox_image("example.org/own:1", Labels={"own": "yes"}), machine.directory)
    imported = _asked(machine, "images", "import", str(archive))
    assert imported.returncode == 0, imported.stderr
    assert "example.org/own:1" in imported.stdout
    machine.cloud.apply(pod("p", container(image="example.org/own:1", imagePullPolicy="Never")))
    made = machine.cloud.pods.wait("p", is_ready)
    assert made["status"]["podIP"].startswith("10.99.")
    in_use = _edgecore(machine, "images", "remove", "example.org/own:1")
    assert (in_use.returncode, "pod default/p could not start again" in in_use.stderr) == (ExitCode.NOT_DONE, True)
    machine.cloud.delete("Pod", "p")
    wait_until(lambda: machine.runtime.pods(machine.edge.root / "edged") == 0, "the pod is gone")
    refused = _asked(machine, "images", "export", "example.org/own:1", str(machine.directory / "own.tar"))
    assert (refused.returncode, "discardUnpackedLayers" in refused.stderr) == (ExitCode.NOT_DONE, True)
    assert _asked(machine, "images", "remove", "example.org/own:1").returncode == 0
    assert "example.org/own:1" not in _asked(machine, "images", "list").stdout
    assert _asked(machine, "images", "remove", "example.org/nosuch:1").returncode == ExitCode.NOT_DONE


@OCI
def test_reset_removes_everything(machine: Machine) -> None:
    """Not while edgecore runs; then containers, mounts, namespaces and images are gone, and the node starts anew."""
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", is_ready)
    refused = _edgecore(machine, "reset", "--runtime", "--yes")
    assert refused.returncode == ExitCode.NOT_DONE
    assert "stop that one first" in refused.stderr
    machine.edge.kill()
    done = _edgecore(machine, "reset", "--runtime", "--yes")
    assert done.returncode == 0, done.stderr
    root = machine.edge.root / "edged" / "oci"
    assert not root.exists()
    assert [each for each in mounts_below(machine.directory) if "/oci/" in str(each)] == []
    assert machine.runtime.left_behind() == {}
    machine.start_edge()
    machine.cloud.pods.wait("p", is_ready)


@OCI
@pytest.mark.gives_its_machine_back
def test_a_pod_is_isolated_and_limited(machine: Machine) -> None:
    """It has its own files, processes, hostname and address, and is killed over its limit of memory."""
    script = "hostname; ls / | grep -c work; exec tail /dev/zero"
    limited = container(script, resources={"limits": {"memory": "16Mi"}})
    machine.cloud.apply(pod("p", limited, restartPolicy="Never"))
    made = machine.cloud.pods.wait("p", lambda each: bool(state_of(each, "terminated")))
    assert state_of(made, "terminated")["reason"] == "OOMKilled"
    assert machine.edge.lines(made) == ["p", "0"]


@OCI
@pytest.mark.gives_its_machine_back
def test_users_of_its_own(machine: Machine) -> None:
    """`hostUsers: false`: its root is nobody on the machine, owns the files of its image and volumes, and may see the
    whole of /proc (a masked file in it is a device).
    """
    if not Kernel.read().user_namespaces:
        pytest.skip("this kernel has no id-mapped mounts below overlays")
    script = "id -u; stat -c %u /bin/busybox; echo x > /data/x && stat -c %u /data/x; cat /proc/self/uid_map"
    script += "; [ -c /proc/kcore ] || echo seen"
    own = container(script, volumeMounts=[mount("data", "/data")], securityContext={"procMount": "Unmasked"})
    volumes = ({"name": "data", "emptyDir": {}},)
    machine.cloud.apply(pod("p", own, volumes=volumes, restartPolicy="Never", hostUsers=False))
    made = machine.cloud.pods.wait("p", lambda each: bool(state_of(each, "terminated")))
    *lines, mapping, proc = machine.edge.lines(made)
    assert (lines, proc) == (["0", "0", "0"], "seen")
    assert mapping.split() == ["0", "65536", "65536"]


@OCI
@pytest.mark.gives_its_machine_back
def test_a_stop_while_a_network_plugin_hangs(machine: Machine) -> None:
    """host-local waits for a lock that a test holds; edgecore stops in order all the same, and starts the pod later."""
    runtime = machine.runtime
    assert isinstance(runtime, OciUnderTest)
    with runtime.addresses_locked():
        machine.cloud.apply(pod("p"))
        wait_until(runtime.waits_for_addresses, "host-local waits for its lock")
        machine.edge.process.signal(signal.SIGTERM)
        assert machine.edge.process.wait() == ExitCode.OK
        wait_until(lambda: not runtime.waits_for_addresses(), "host-local has ended too")
    machine.start_edge()
    machine.cloud.pods.wait("p", is_ready)


_NETWORK: Final = """
ip link set lo up
ip link add eth0 type veth peer name eth1
ip address add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip link set eth1 up
ip route add default via 192.0.2.2
mount -t tmpfs tmpfs /run
"$@"
cat /proc/self/mountinfo
echo "the machine afterwards:"
ip -brief link
iptables-save
find /run
"""
"""The demo on a machine of its own, as far as network and /run go: its pods have the network that edgecore makes where
none is configured.
"""


def test_the_demo_in_real_containers() -> None:
    """`make run ARGS=--oci`: all pods are where they should be, and nothing is left, nor of the default pod network."""
    if reason := reason_missing():
        pytest.skip(reason)
    apart = ["unshare", "--net", "--mount", "sh", "-euc", _NETWORK, "sh"]
    demo = [sys.executable, "-m", "modules.processes.demo", "--once", "--timeout", "600", "--oci"]
    ended = subprocess.run(
        [*apart, *demo], cwd=REPOSITORY, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown, _, left = ended.stdout.partition("the machine afterwards:")
    assert "eth0" in left
    assert "edgecore" not in left
    scratch = Path(shown.splitlines()[0].rpartition(" ")[2])
    assert shown.count(scratch.name) == 1, "the first line names it, and no mount does"
    assert (processes_of(scratch), scratch.exists()) == ([], False)
    assert list(Path("/sys/fs/cgroup").glob(f"*/{scratch.name}")) == []
