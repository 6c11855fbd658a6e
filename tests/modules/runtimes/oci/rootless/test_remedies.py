"""What a machine lacks for an ordinary user's node: one line, with the command that brings it."""

import os
import subprocess
from pathlib import Path

import pytest

from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.kernel import unmount
from modules.runtimes.oci.programs import ProgramMissingError, Programs
from modules.runtimes.oci.rootless import entering, identifiers, node_network
from modules.runtimes.oci.rootless.node_network import Forward, NodeNetwork
from modules.runtimes.oci.rootless.settings import rootless_settings


@pytest.fixture
def _has_sub_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "subuid"
    file.write_text(f"{os.getuid()}:100000:65536\n")
    for module in (entering, identifiers):
        monkeypatch.setattr(module, "SUBUID", file)
        monkeypatch.setattr(module, "SUBGID", file)


@pytest.mark.usefixtures("_has_sub_ids")
def test_without_newuidmap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's package of it is named."""
    monkeypatch.setattr(entering, "_SEARCHED", str(tmp_path))
    with pytest.raises(StateDirectoryError, match=r"newuidmap is not installed \(apt-get install uidmap\)"):
        entering.check()


def test_without_sub_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """usermod gives them."""
    monkeypatch.setattr(entering, "_SEARCHED", f"{tmp_path}:/usr/bin")
    for module in (entering, identifiers):
        monkeypatch.setattr(module, "SUBUID", tmp_path / "none")
    monkeypatch.setattr(entering, "_mapper", str)
    with pytest.raises(StateDirectoryError, match="usermod --add-subuids"):
        entering.check()


def test_without_slirp4netns(tmp_path: Path) -> None:
    """Pods that use the machine's network run without it."""
    network = NodeNetwork(tmp_path, str(tmp_path))
    with pytest.raises(PodNetworkError, match=r"slirp4netns is not installed \(apt-get install slirp4netns\)"):
        network.check()
    with pytest.raises(PodNetworkError, match="does not answer"):
        network.forwards()


def test_the_namespace_is_made_without_slirp4netns(tmp_path: Path) -> None:
    """Pods of before are detached in it."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root, or a user namespace")
    network = NodeNetwork(tmp_path, str(tmp_path))
    try:
        with pytest.raises(PodNetworkError, match="slirp4netns is not installed"):
            network.ensure()
        assert network.namespace.stat().st_dev != tmp_path.stat().st_dev
    finally:
        unmount(network.namespace)


@pytest.mark.parametrize(("exists", "remedy"), [(False, "modprobe tun"), (True, "chmod 666 /dev/net/tun")])
def test_without_tun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool, remedy: str) -> None:
    """A module, or a right of the device."""
    (tmp_path / "slirp4netns").write_text("#!/bin/sh\n")
    (tmp_path / "slirp4netns").chmod(0o755)
    tun = tmp_path / "tun"
    if exists:
        tun.touch()
    monkeypatch.setattr(node_network, "_TUN", tun)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tun and Path(path).exists() and bool(mode))
    with pytest.raises(PodNetworkError, match=remedy):
        NodeNetwork(tmp_path, str(tmp_path)).check()


@pytest.mark.parametrize(("command", "is_kept"), [(["sleep", "1000"], True), (["true"], False)])
def test_a_holder_that_has_ended_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], is_kept: bool
) -> None:
    """Also while nobody has waited for it, and it has its number and its user namespace still."""
    record = tmp_path / "holder"
    monkeypatch.setattr(os, "posix_spawnp", lambda *_arguments, **_options: 4321)
    with subprocess.Popen(command) as process:
        if not is_kept:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        record.write_text(str(process.pid))
        entering.ensure_holder(record)
        process.kill()
    assert record.read_text() == (str(process.pid) if is_kept else "4321")


def test_runc_is_refused(tmp_path: Path) -> None:
    """It wants control groups."""
    with pytest.raises(ProgramMissingError, match="crun not found"):
        rootless_settings(Programs(Path("/usr/bin/runc"), None), None, (), tmp_path, tmp_path, keep_blobs=False)  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_no_question_of_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own words."""
    network = NodeNetwork(tmp_path)

    def refuse(_command: str, _arguments: object) -> None:
        raise PodNetworkError("ask", "slirp_add_hostfwd failed")

    monkeypatch.setattr(network, "_ask", refuse)
    monkeypatch.setattr(node_network, "_first_unprivileged", lambda: 1024)
    with pytest.raises(PodNetworkError, match=r"port 8080 of tcp at 127\.0\.0\.1: it is taken"):
        network.add(Forward("tcp", "127.0.0.1", 8080, 8080))
    with pytest.raises(PodNetworkError, match="ip_unprivileged_port_start=80"):
        network.add(Forward("tcp", "127.0.0.1", 80, 80))


@pytest.mark.parametrize(
    ("path", "searched"),
    [
        (
            "/usr/local/bin:/usr/bin:/bin:/usr/games",
            "/usr/local/bin:/usr/bin:/bin:/usr/games:/usr/local/sbin:/usr/sbin:/sbin",
        ),
        ("/usr/sbin:/usr/bin", "/usr/sbin:/usr/bin:/usr/local/sbin:/sbin"),
    ],
)
def test_iptables_is_found_though_it_is_for_administrators(
    monkeypatch: pytest.MonkeyPatch, path: str, searched: str
) -> None:
    """The PATH of an ordinary user of Debian leads to no sbin."""
    monkeypatch.setenv("PATH", path)
    for _ in range(2):
        entering.search_programs_of_administrators()
        assert os.environ["PATH"] == searched
