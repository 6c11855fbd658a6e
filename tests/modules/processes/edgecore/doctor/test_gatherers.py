"""The gatherers, on real files, sockets and databases, and on a /proc of our own; none of them changes anything."""

import errno
import json
import os
import socket
import sqlite3
import threading
from contextlib import ExitStack
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from beehive import RealClock
from metamanager.sqlite_open import open_file
from modules.processes.common.at_once import at_once
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.doctor import databases, machine, network, node, oci
from modules.processes.edgecore.join import CloudAddress, joined
from modules.processes.edgecore.ownership import lock_root_directory
from tests.edgehub.certificates.authority import NODE, Authority, CertificateServer, key_pem, name
from tests.support.containerd import PrivateContainerd, reason_missing
from tests.support.ports import free_port

clock = RealClock()


def configured(root: Path, server: CertificateServer) -> EdgeCoreConfig:
    """A node whose websocket and server of certificates are the same test server."""
    return joined(EdgeCoreConfig.below(root), CloudAddress(server.url.removeprefix("https://"), server.url), NODE)


def enrol(root: Path, authority: Authority, *, life: float = 86400.0) -> None:
    """Give the node a certificate of an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = authority.sign(key.public_key(), name(f"system:node:{NODE}", "system:nodes"), life=life)
    directory = root / "certs"
    directory.mkdir(parents=True)
    (directory / "rootCA.crt").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    (directory / "server.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    (directory / "server.key").write_bytes(key_pem(key))


def test_the_lock_names_its_process(tmp_path: Path) -> None:
    """While a process has the directory, its id; before and after, nobody. The lock is not taken for it."""
    assert machine.lock_holder(tmp_path) == ""
    with ExitStack() as stack:
        lock_root_directory(tmp_path, stack)
        assert machine.lock_holder(tmp_path) == str(os.getpid())
    assert machine.lock_holder(tmp_path) == ""
    with ExitStack() as stack:
        lock_root_directory(tmp_path, stack)


def test_a_port_is_taken_by_a_process_with_a_name(tmp_path: Path) -> None:
    """Of its own address, or of all."""
    config = EdgeCoreConfig.below(tmp_path)
    edged = config.modules.edged
    with socket.create_server(("127.0.0.1", free_port())) as listening:
        kubelet = replace(edged.tailored_kubelet_config, read_only_port=listening.getsockname()[1])
        modules = replace(config.modules, edged=replace(edged, tailored_kubelet_config=kubelet))
        config = replace(config, modules=modules)
        (found,) = machine.ports(config)
        assert found.taken.startswith(f"by process {os.getpid()} (")
    assert machine.ports(config)[0].taken == ""


def test_a_missing_directory_counts_as_its_parent(tmp_path: Path) -> None:
    """It is to be made there; nothing is made by looking."""
    found = machine.directory("root", tmp_path / "a" / "b")
    assert (found.exists, found.writable) == (False, True)
    assert found.free > 0
    (tmp_path / "file").touch()
    assert not machine.directory("root", tmp_path / "file").writable
    assert {each.name for each in tmp_path.iterdir()} == {"file"}


def test_the_kernels_tables_are_read_as_they_are(tmp_path: Path) -> None:
    """A /proc of our own: version 2 of cgroups, swap, a kubelet and its port, IPv6 and IPv4."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text("36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "swaps").write_text("Filename Type\n/dev/sda2 partition\n")
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "exe").symlink_to("/usr/bin/kubelet")
    (tmp_path / "net").mkdir()
    row = "0: {} 00000000:0000 0A 0:0 00:0 0 0 0 4711 1\n"
    (tmp_path / "net" / "tcp").write_text("head\n" + row.format("0100007F:280A"))
    (tmp_path / "net" / "tcp6").write_text("head\n" + row.format("00000000000000000000000000000000:286E"))
    kernel = machine.kernel(tmp_path)
    assert (kernel.cgroups, kernel.swap, kernel.conntrack) == ((2,), True, False)
    found = machine.other_agents("edgecore.yaml", tmp_path)
    assert "process 77 is a kubelet" in found
    assert "port 10250 of a kubelet is taken: by a process that this user cannot see" in found
    assert "port 10350 of a kubelet is taken: by a process that this user cannot see" in found


def test_directories_of_root_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edgecore of root makes /etc/kubeedge for itself alone; other users have their own edgecore."""

    def refuse(path: Path, **_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    assert not machine.is_there(Path("/etc/kubeedge/config/edgecore.yaml"))
    assert not machine.has_unit()
    assert not machine.directory("volumes", Path("/closed/volumes")).exists


def test_a_sound_database_is_looked_at_without_a_trace(tmp_path: Path) -> None:
    """Open elsewhere or closed: it is sound, and there are no other files afterwards."""
    path = tmp_path / "edgecore.db"
    assert not databases.inspect_database(path, "meta", clock).exists
    connection = open_file(path)
    beside = sorted(tmp_path.iterdir())
    open_elsewhere = databases.inspect_database(path, "meta", clock)
    assert (open_elsewhere.exists, open_elsewhere.problem) == (True, "")
    assert sorted(tmp_path.iterdir()) == beside
    connection.close()
    before = {each: each.stat().st_mtime_ns for each in tmp_path.iterdir()}
    closed = databases.inspect_database(path, "meta", clock)
    assert (closed.problem, closed.unfinished) == ("", False)
    assert closed.changed > 0
    assert {each: each.stat().st_mtime_ns for each in tmp_path.iterdir()} == before


@pytest.mark.parametrize("content", [b"no database at all" * 300, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_spoilt_database_is_named(tmp_path: Path, content: bytes) -> None:
    """And stays as it is."""
    path = tmp_path / "edgecore.db"
    path.write_bytes(content)
    assert databases.inspect_database(path, "meta", clock).problem
    assert path.read_bytes() == content


def test_a_damaged_page_is_found(tmp_path: Path) -> None:
    """One page of zeros in the middle."""
    path = tmp_path / "edgecore.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", [(str(number), "x" * 500) for number in range(500)])
    connection.close()
    data = bytearray(path.read_bytes())
    data[4096 * 9 : 4096 * 12] = bytes(4096 * 3)
    path.write_bytes(data)
    assert "damaged" in databases.inspect_database(path, "meta", clock).problem


def test_a_healthy_cloud_is_reached(tmp_path: Path) -> None:
    """With the node's own certificate, and its clock is read."""
    authority = Authority()
    with CertificateServer(authority, authority.server_context(tmp_path)) as server:
        root = tmp_path / "edge"
        enrol(root, authority)
        server.answers["/"] = b"not found"
        found = network.cloud(configured(root, server), clock)
        identity = network.identity(configured(root, server), clock)
    assert found.link.answers
    assert found.link.tls_problem == ""
    assert found.certificates is not None
    assert found.certificates.answers
    assert not found.other_authority
    assert found.link.ahead is not None
    assert abs(found.link.ahead) < 30
    assert identity.certificate is not None
    assert (identity.certificate_problem, identity.authority_problem, identity.key_problem) == ("", "", "")


def test_a_cloud_with_an_address_of_ipv6_is_asked(tmp_path: Path) -> None:
    """Whose last part is no number; this one stands for 127.0.0.10."""
    server = HTTPServer(("127.0.0.10", 0), SimpleHTTPRequestHandler)
    answering = threading.Thread(target=server.handle_request)
    answering.start()
    address = CloudAddress(f"ws://[::ffff:7f00:a]:{server.server_port}", "https://127.0.0.1:1")
    found = network.cloud(joined(EdgeCoreConfig.below(tmp_path), address, NODE), clock)
    answering.join()
    server.server_close()
    assert found.link.answers


def test_a_cloud_of_another_authority_is_named(tmp_path: Path) -> None:
    """By TLS, and by the CA that the cloud hands out."""
    with CertificateServer(other := Authority(), other.server_context(tmp_path)) as server:
        root = tmp_path / "edge"
        enrol(root, Authority())
        found = network.cloud(configured(root, server), clock)
    assert "signed by another CA" in found.link.tls_problem
    assert found.other_authority


def test_a_name_that_is_not_in_the_certificate_is_named(tmp_path: Path) -> None:
    """The cloud is called otherwise."""
    authority = Authority()
    with CertificateServer(authority, authority.server_context(tmp_path, ("cloud.example",))) as server:
        root = tmp_path / "edge"
        enrol(root, authority)
        found = network.cloud(configured(root, server), clock)
    assert "not among the names" in found.link.tls_problem


def test_a_clock_that_is_off_is_measured_even_when_tls_fails_for_it(tmp_path: Path) -> None:
    """The cloud's certificate is not valid yet here; its own date says why."""
    authority = Authority()
    with CertificateServer(authority, authority.server_context(tmp_path, since=3600.0)) as server:
        server.clock_off = 7200.0
        root = tmp_path / "edge"
        enrol(root, authority)
        found = network.cloud(configured(root, server), clock)
    assert "not valid yet" in found.link.tls_problem
    assert found.certificates is not None
    assert found.certificates.ahead == pytest.approx(7200.0, abs=30)


def test_files_that_do_not_belong_together_are_named(tmp_path: Path) -> None:
    """Another certificate's key, a CA that is no certificate, a malformed token."""
    authority, root = Authority(), tmp_path / "edge"
    enrol(root, authority)
    (root / "certs" / "server.key").write_bytes(key_pem(ec.generate_private_key(ec.SECP256R1())))
    (root / "certs" / "rootCA.crt").write_text("nothing")
    config = joined(EdgeCoreConfig.below(root), CloudAddress("127.0.0.1:1", "https://127.0.0.1:1"), NODE)
    found = network.identity(config, clock)
    assert "the private key is not that of the certificate" in found.key_problem
    assert "holds no certificate" in found.authority_problem
    (root / "certs" / "server.key").unlink()
    away = network.cloud(config, clock)
    assert away.link.tls_problem == f"{root}/certs/server.key: No such file or directory", "OpenSSL does not say which"
    assert away.certificates is not None
    assert away.certificates.tcp_problem == "Connection refused"
    assert network.cloud(EdgeCoreConfig.below(root), clock).secure is False


def test_a_runtime_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """Its words name the socket."""
    found = node.runtime(EdgeCoreConfig.below(tmp_path))
    assert found.problem
    assert found.endpoint == f"unix://{tmp_path}/edged/embedded.sock"


@pytest.mark.parametrize(
    ("options", "driver"),
    [
        ({"SystemdCgroup": True}, "systemd"),
        ({"SystemdCgroup": False}, "cgroupfs"),
        ({}, "cgroupfs"),
        (None, "cgroupfs"),
    ],
)
def test_containerd_reports_its_cgroup_driver(options: dict[str, bool] | None, driver: str) -> None:
    """In the configuration that it shows; anything else says nothing."""
    runc = {"runtimeType": "io.containerd.runc.v2", "options": options}
    text = json.dumps({"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": runc}}})
    assert node.cgroup_driver(text) == driver
    assert node.cgroup_driver("") == node.cgroup_driver("[]") == node.cgroup_driver('{"containerd": null}') == ""


@pytest.mark.containerd
@pytest.mark.skipif(bool(reason_missing()), reason=reason_missing() or "")
def test_a_real_containerd_is_asked(tmp_path: Path) -> None:
    """Version, conditions and the driver of its cgroups."""
    with PrivateContainerd(cni=True) as containerd:
        config = EdgeCoreConfig.below(tmp_path)
        edged = config.modules.edged
        kubelet = replace(edged.tailored_kubelet_config, container_runtime_endpoint=containerd.endpoint)
        modules = replace(config.modules, edged=replace(edged, tailored_kubelet_config=kubelet))
        found = node.runtime(replace(config, modules=modules))
    assert found.problem == ""
    assert found.version.startswith("containerd ")
    assert {each.name: each.true for each in found.conditions} == {"RuntimeReady": True, "NetworkReady": True}
    assert found.cgroup_driver == "cgroupfs"


def test_what_hangs_keeps_nobody() -> None:
    """The others are there, the late one is not."""
    never = threading.Event()
    found = at_once({"quick": lambda: 1, "never": never.wait, "also": lambda: 2}, 0.5, clock)
    never.set()
    assert found == {"quick": 1, "also": 2}


@pytest.mark.parametrize("error", [ValueError("a bug"), SystemExit("a bug")])
def test_an_unforeseen_error_of_a_part_is_raised(error: BaseException) -> None:
    """It is a bug, and must not look like a slow machine."""

    def part() -> int:
        raise error

    with pytest.raises(type(error), match="a bug"):
        at_once({"part": part}, 60.0, clock)


def test_a_docker_that_is_not_there(tmp_path: Path) -> None:
    """The message has its socket's path."""
    found = node.docker_needs(tmp_path / "d.sock", clock)
    assert f"{tmp_path}/d.sock: No such file" in found.problem


def test_lacks_of_the_oci_runtime(tmp_path: Path) -> None:
    """Programs are looked for in their directories; a release of crun without fixes is reported."""
    programs, proc = (tmp_path / name for name in ("bin", "proc"))
    for directory in (programs, proc):
        directory.mkdir()
    (proc / "filesystems").write_text("nodev\ttmpfs\n\text4\n")
    (proc / "sys" / "kernel").mkdir(parents=True)
    (proc / "sys" / "kernel" / "osrelease").write_text("none\n")
    found = oci.needs(str(programs), proc)
    assert found.missing == ("crun (or runc)", "conmon")
    assert not found.overlay
    (programs / "conmon").touch(mode=0o755)
    (programs / "crun").write_text("#!/bin/sh\necho crun version 1.8.1\n")
    (programs / "crun").chmod(0o755)
    (proc / "filesystems").write_text("nodev\toverlay\n")
    found = oci.needs(str(programs), proc)
    assert (found.missing, found.overlay) == ((), True)
    assert "crun 1.8 lacks" in found.old


def test_the_socket_of_mappers_is_connected_to(tmp_path: Path) -> None:
    """A listening one, a killed process's, and a missing one."""
    path = tmp_path / "dmi.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        found = machine.mapper_socket(path)
        assert (found.problem, bool(found.group)) == ("", True)
    assert machine.mapper_socket(path).problem
    path.unlink()
    assert "No such file" in machine.mapper_socket(path).problem
