"""The OCI runtime as a person on the node meets it: images, its removal, and the demo in real containers."""

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.runtimes.oci.spec import Machine as Kernel
from tests.end_to_end.commands import edgecore
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, mount, pod, state_of
from tests.end_to_end.processes import REPOSITORY, mounts_below, processes_of, run_program, wait_until
from tests.end_to_end.runtimes import OciUnderTest
from tests.modules.runtimes.oci.node import reason_missing
from tests.support.images import busybox_image, docker_archive
from tests.support.patience import PATIENCE
from tests.support.security_table import modes, rows

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


_MODES: Final = {
    "directories of pods, plug-ins and devices": (
        r"edged/pods(/UID(/containers(/app)?|/volumes(/kubernetes\.io~[a-z-]+)?)?)?/|"
        r"edged/(plugins_registry|device-plugins|pod-resources)/"
    ),
    "sockets of CRI, devices and plug-ins; of mappers": r".*\.sock",
    "state of containers and images": r"edged/oci/",
    "databases; the lock; chains": r"[a-z-]+\.db(-[a-z]+)?|edged/(edgecore\.lock|chains)",
    "a pod's log directories, a container's log": r"logs/(pods|containers)/.*",
    "/etc/hosts, termination message, emptyDir": (
        r"edged/pods/UID/(etc-hosts|containers/app/0|volumes/kubernetes\.io~empty-dir/d/)"
    ),
    "tokens, and the directories of projected volumes": r"edged/pods/UID/volumes/kubernetes\.io~projected/t/.*",
}
"""By row of the table in docs/security.md, the paths below a node's root; those of directories end with a slash."""
_OF_THE_TEST: Final = r"\./|edged/|logs/|edged/image-archives/.*|edgecore\.(yaml|log)|.*\.(crt|key|log|yaml|json|pid)"
_INSIDE: Final = "edged/oci/"
"""The directory that only root enters; modes below it are the images' and crun's."""


@OCI
def test_modes_agree_with_the_table_of_security(machine: Machine) -> None:
    """Each path of a node belongs to one row, and all modes of a row come up."""
    token = {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 3600}}]}
    users: dict[str, dict[str, int]] = {"all": {}, "one": {"runAsUser": 1000}, "group": {"fsGroup": 2000}}
    for name, security in users.items():
        volumes = ({"name": "d", "emptyDir": {}}, {"name": "t", "projected": token})
        main = container(volumeMounts=[mount("d", "/d"), mount("t", "/t")])
        machine.cloud.apply(pod(name, main, volumes=volumes, securityContext=security))
    for name in users:
        machine.cloud.pods.wait(name, is_ready)
    found: dict[str, set[int]] = {row: set() for row in _MODES}
    for path, mode in _modes_below(machine.edge.root):
        owners = [row for row, pattern in _MODES.items() if re.fullmatch(pattern, path)]
        assert len(owners) == 1 or re.fullmatch(_OF_THE_TEST, path), f"{path} ({mode:o}) is in the rows {owners}"
        if owners:
            found[owners[0]].add(mode)
    table = {row: modes(text) for row, text in rows().items() if modes(text)}
    assert found == table, {row: [f"{each:o}" for each in its] for row, its in found.items() if its != table.get(row)}


def _modes_below(root: Path) -> Iterator[tuple[str, int]]:
    """Paths and modes, links left out, and of the runtime's state all but its directory."""
    for directory, names, files in os.walk(root):
        if f"{os.path.relpath(directory, root)}/" == _INSIDE:
            names.clear()
            files.clear()
        for name in (".", *files):
            path = Path(directory, name)
            status = path.lstat()
            if not stat.S_ISLNK(status.st_mode):
                shown = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", str(path.relative_to(root)))
                yield f"{shown}/" if name == "." else shown, stat.S_IMODE(status.st_mode)
