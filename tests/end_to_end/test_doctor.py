"""`edgecore doctor` on a healthy node, and on nodes with one fault each: its line names the cause."""

import json
import socket
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from edgehub.certificates.certificate import Certificate, format_time
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config.names import PROCESS_ENDPOINT
from tests.edgehub.certificates.authority import Authority
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.processes import run_program, wait_until


@pytest.fixture
def machine(joined_machine: Machine) -> Machine:
    """The node of these tests."""
    return joined_machine


def doctor(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Runs the command on a node's file."""
    return run_program("edgecore", "doctor", "--config", str(file), *more)


def failures(machine: Machine) -> dict[str, str]:
    """Text of each check that failed, by its name."""
    done = doctor(machine.edge.file, "--json")
    assert done.returncode in (ExitCode.OK, ExitCode.UNWELL), done.stderr
    found = {each["check"]: each["text"] for each in json.loads(done.stdout) if each["level"] == "FAIL"}
    assert bool(found) == (done.returncode == ExitCode.UNWELL)
    return found


def test_a_node_that_is_well_and_then_is_not(machine: Machine) -> None:
    """Running and connected: nothing fails, and the link of the node is not disturbed. Then the cloud goes, edgecore is
    killed, its database is spoilt and its port taken: each is named.
    """
    machine.edge.run()
    connections = "edgehub_connections_total 1.0"
    wait_until(lambda: "edgehub_connected 1.0" in machine.edge.get("/metrics")[1], "connected")
    wait_until(lambda: machine.edge.get("/healthz")[0] == 200, "well")
    done = doctor(machine.edge.file)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert f"process {machine.edge.process.pid} runs and is well" in done.stdout
    assert f"system:node:{NODE}, until 20" in done.stdout
    assert connections in machine.edge.get("/metrics")[1]
    assert "Traceback" not in machine.cloud.tail()

    machine.cloud.kill()
    found = failures(machine)
    assert "Connection refused" in found["cloud, link"]
    machine.edge.kill()
    database = machine.edge.root / "edgecore.db"
    for beside in database.parent.glob("edgecore.db-*"):
        beside.unlink()
    database.write_bytes(b"not a database" * 1000)
    with socket.create_server(("127.0.0.1", machine.edge.port)):
        found = failures(machine)
    assert found["edgecore"] == "edgecore does not run"
    assert "not a database" in found["database"]
    assert f"127.0.0.1:{machine.edge.port} is taken: by process" in found["port readOnlyPort"]
    assert database.read_bytes() == b"not a database" * 1000


@pytest.mark.slow
def test_certificates_and_runtimes_that_will_not_do(machine: Machine) -> None:
    """The CA of another cloud, a certificate that has expired, another node's, and no container runtime."""
    certs, file = machine.edge.root / "certs", machine.edge.file
    authority = (certs / "rootCA.crt").read_bytes()
    (certs / "rootCA.crt").write_bytes(Authority().certificate.public_bytes(Encoding.PEM))
    found = failures(machine)
    assert "signed by another CA than this node's CA file" in found["cloud, link"]
    assert "the cloud has another CA" in found["CA"]
    (certs / "rootCA.crt").write_bytes(authority)

    text = file.read_text()
    file.write_text(text.replace(f"hostnameOverride: {NODE}", "hostnameOverride: edge-2"))
    assert "this node is system:node:edge-2" in failures(machine)["certificate"]
    endpoint = f"unix://{machine.edge.root}/none.sock"
    file.write_text(text.replace(PROCESS_ENDPOINT, endpoint))
    assert f"{endpoint} does not answer" in failures(machine)["runtime"]
    file.write_text(text)

    machine.cloud.kill()
    machine.cloud.tls_options = ["--certificate-lifetime", "5"]  # valid yet when it arrives, on any machine
    machine.cloud.start()
    joined = machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0))
    assert joined.returncode == ExitCode.OK, joined.stderr
    certificate = Certificate.from_pem((certs / "server.crt").read_bytes())
    wait_until(lambda: machine.clock.now() > certificate.not_after, "the certificate has expired")
    assert f"it expired at {format_time(certificate.not_after)}" in failures(machine)["certificate"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Every error of it, and the status of a configuration."""
    file = tmp_path / "edgecore.yaml"
    file.write_text("modules: {edgeHub: {heartbeat: -1}}")
    done = doctor(file)
    assert done.returncode == ExitCode.CONFIGURATION
    assert "FAIL" in done.stdout
    assert "heartbeat" in done.stdout
