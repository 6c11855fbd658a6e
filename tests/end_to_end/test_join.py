"""A node joins a cloud with TLS: cloudcore and edgecore as processes, a token, certificates, pods, renewal."""

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from edgehub.certificates.certificate import Certificate
from edgehub.certificates.token import Token
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, is_ready, pod, restarts_of
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.patience import PATIENCE

LIFE = 20.0
"""Seconds of a certificate where it is renewed: the first time after 14 to 18."""


@pytest.fixture
def stopped_machine() -> Iterator[Machine]:
    """The link is the same on every runtime."""
    with closing(Machine(EmbeddedUnderTest())) as made:
        made.cloud.tls_options = []
        yield made


def certificate_of(machine: Machine) -> Certificate:
    """The node's."""
    return Certificate.from_pem((machine.edge.root / "certs" / "server.crt").read_bytes())


def metric(machine: Machine, name: str) -> float:
    """A value of /metrics; 0 when it is not there."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", machine.edge.get("/metrics")[1], re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_node_joins_and_runs_a_pod(stopped_machine: Machine) -> None:
    """Token, join, run: the pod is ready over wss, and the node says when its certificate ends."""
    machine = stopped_machine
    machine.cloud.start()
    done = machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0))
    assert done.returncode == ExitCode.OK, done.stderr
    assert "certificate valid until" in done.stdout
    machine.edge.run()
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", is_ready)
    certificate = certificate_of(machine)
    assert certificate.common_name == f"system:node:{NODE}"
    expires = metric(machine, "edgehub_certificate_expiration_timestamp_seconds")
    assert expires == pytest.approx(certificate.not_after)
    assert metric(machine, "edgehub_connected") == 1.0


def test_a_configured_token_is_enough(stopped_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `join`, as KubeEdge's users have it: the first run fetches the certificate before it dials.

    What makes the key is not loaded into the agent, and the token is not in its log.
    """
    machine = stopped_machine
    machine.cloud.start()
    token = machine.cloud.client.token(3600.0, node=NODE, replace=True)
    assert machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0)).returncode == ExitCode.OK
    for file in (machine.edge.root / "certs").iterdir():
        file.unlink()
    text = machine.edge.file.read_text()
    machine.edge.file.write_text(text.replace('token: ""', f'token: "{token}"'))
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    machine.edge.imports_itself = True
    machine.edge.run()
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", is_ready)
    imported = set(re.findall(r"\| +([\w.]+)$", machine.edge.process.text(), re.MULTILINE))
    assert "edgehub.tls" in imported
    assert not imported & {"cryptography", "edgehub.certificates.obtain"}
    assert token not in machine.edge.process.text()


def test_tokens_that_do_not_do(stopped_machine: Machine) -> None:
    """Each with its own reason; the node's file stays as it was. Only the key that the cloud was shown is kept."""
    machine = stopped_machine
    machine.cloud.start()
    good = machine.cloud.client.token(3600.0)
    digest, _, jwt = good.partition(".")
    brief = machine.cloud.client.token(1.0)
    ends = Token.parse(brief).expires
    assert ends is not None
    wait_until(lambda: machine.clock.now() > ends + 1.0, "the brief token has expired")
    cases = {
        "the cloud's CA is not the token's": f"{'0' * 64}.{jwt}",
        "answered 401": f"{digest}.{jwt[:-4]}AAAA",
        "the token has expired: at 20": brief,
        "is malformed": "abc",
    }
    for words, token in cases.items():
        done = machine.edge.join(machine.cloud, token)
        assert done.returncode == ExitCode.NOT_JOINED
        assert words in done.stderr
        assert token not in done.stderr + done.stdout
    assert [each.name for each in (machine.edge.root / "certs").iterdir()] == ["server.key.joining"]
    assert "127.0.0.1:1" in machine.edge.file.read_text()


def test_a_stolen_node_is_locked_out_until_it_is_allowed(stopped_machine: Machine) -> None:
    """Its link ends within a second, it says why, and neither a restart nor a token brings it back."""
    machine = stopped_machine
    machine.cloud.start()
    assert machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0)).returncode == ExitCode.OK
    machine.edge.run()
    wait_until(lambda: metric(machine, "edgehub_connected") == 1.0, "connected")
    machine.cloud.client.revoke("node", NODE, "stolen")
    wait_until(lambda: machine.cloud.client.nodes() == [], "its link has ended")
    wait_until(lambda: f"1008 node {NODE} is revoked since" in machine.edge.process.text(), "the node says why")
    machine.cloud.kill()
    machine.cloud.start()
    wait_until(lambda: bool(machine.cloud.client.connections().refused), "the node has tried again")
    assert "stolen" in machine.cloud.client.connections().refused[0].why
    assert metric(machine, "edgehub_connected") == 0.0
    again = machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0))
    assert again.returncode == ExitCode.NOT_JOINED
    assert f"cloudcore allow node {NODE}" in again.stderr
    machine.cloud.client.allow("node", NODE)
    wait_until(lambda: metric(machine, "edgehub_connected") == 1.0, "connected again")


def test_a_failing_certificate_stops_no_pod(stopped_machine: Machine) -> None:
    """Joined, then the certificate is gone and no token is there: the node restarts, and its pod runs on."""
    machine = stopped_machine
    machine.cloud.start()
    assert machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0)).returncode == ExitCode.OK
    machine.edge.run()
    machine.cloud.apply(pod("p", container("exec sleep 3600")))
    before = machine.cloud.pods.wait("p", is_ready)
    machine.edge.kill()
    (machine.edge.root / "certs" / "server.crt").unlink()
    machine.edge.run()
    wait_until(lambda: is_ready(machine.edge.pods().get("p", {})), "the pod is ready without the cloud")
    wait_until(lambda: "no token to get one with" in machine.edge.process.text(), "the log says why there is no link")
    now = machine.edge.pods()["p"]
    assert restarts_of(now) == restarts_of(before) == 0


@pytest.mark.slow
def test_a_renewal_loses_no_message(stopped_machine: Machine) -> None:
    """The link is replaced while configmaps change: the last change of each reaches the node."""
    machine = stopped_machine
    assert machine.cloud.tls_options is not None
    machine.cloud.tls_options += ["--certificate-lifetime", str(LIFE)]
    machine.cloud.start()
    assert machine.edge.join(machine.cloud, machine.cloud.client.token(3600.0)).returncode == ExitCode.OK
    first = certificate_of(machine)
    machine.edge.run()
    reader = container("exec sleep 3600", volumeMounts=[{"name": "v", "mountPath": "/config"}])
    machine.cloud.apply(_configmap(0), pod("p", reader, volumes=({"name": "v", "configMap": {"name": "c"}},)))
    before = machine.cloud.pods.wait("p", is_ready)
    file = machine.edge.volume(before, "configmap", "v") / "number"
    number, issued = 0, 'edgehub_certificate_requests_total{outcome="issued"}'
    connections, requests = metric(machine, "edgehub_connections_total"), metric(machine, issued)
    deadline = machine.clock.monotonic() + LIFE + PATIENCE
    while metric(machine, "edgehub_connections_total") <= connections or metric(machine, issued) <= requests:
        assert machine.clock.monotonic() < deadline, "not renewed"
        number += 1
        machine.cloud.apply(_configmap(number))
    assert metric(machine, issued) == requests + 1
    wait_until(lambda: file.read_text() == str(number), f"change {number} is in the volume")
    assert certificate_of(machine).not_after > first.not_after
    assert restarts_of(machine.cloud.pods.wait("p", is_ready)) == 0


def _configmap(number: int) -> dict[str, object]:
    meta = {"name": "c", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"number": str(number)}}
