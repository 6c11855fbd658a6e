"""The audit log of a cloudcore: who asked what at each address, and no secret."""

import http.client
import json
import signal
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import AuditLogConfig, TlsConfig
from modules.processes.cloudcore.control_service import AuditState
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import Process, wait_until
from tests.end_to_end.test_backup import call
from tests.modules.processes.cloudcore.stubs import Stub
from tests.modules.processes.cloudcore.test_secure_port import Secure
from tests.support.control_client import Apply
from tests.support.patience import PATIENCE

_TOKENS = 'admins-token,alice,1,"system:masters"\nplain-token,bob,2\n'
_CONF = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "conf-"}, "data": {"a": "s3cret"}}


class Audited:
    """A cloudcore with an audit log, and its clients."""

    def __init__(self, stub: Stub, directory: Path) -> None:
        self.secure = Secure(stub, directory)
        self.stub = stub
        self.path = directory / "audit.log"

    def ask(
        self, method: str, path: str, token: str = "", *, body: object = None, node: str = "", **headers: str
    ) -> int:
        """Return the status of a request at the secure port."""
        context = ssl.create_default_context(cafile=str(self.secure.files.authority))
        if node:
            context.load_cert_chain(*self.secure.node_files(node))
        connection = http.client.HTTPSConnection("127.0.0.1", self.secure.port, timeout=PATIENCE, context=context)
        with closing(connection):
            given = {"Authorization": f"Bearer {token}"} if token else {}
            sent = None if body is None else msgspec.json.encode(body)
            connection.request(method, path, sent, {"Content-Type": "application/json", **given, **headers})
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def events(self, word: str) -> list[dict[str, Any]]:
        """Return the events whose lines have a word."""
        return [json.loads(line) for line in self.path.read_text().splitlines() if word in line]

    def event(self, word: str) -> dict[str, Any]:
        """Return the one event whose line has a word."""
        wait_until(lambda: bool(self.events(word)), f"an event has {word}")
        (found,) = self.events(word)
        return found


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[Audited]:
    """Start a cloudcore with users, the page and an audit log."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(_TOKENS)
    tokens.chmod(0o600)
    with Stub(
        tmp_path, tls=TlsConfig(directory=tmp_path / "tls", https_port=0), secure_port=0, insecure_port=0,
        token_auth_file=tokens, page=True, audit_log=AuditLogConfig(path=tmp_path / "audit.log"),
    ) as stub:  # fmt: skip
        yield Audited(stub, tmp_path)


def short(event: dict[str, Any]) -> tuple[object, ...]:
    """Return user, verb, status and decision of an event."""
    decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
    return event["user"].get("username"), event["verb"], event["responseStatus"]["code"], decision


def test_each_request_is_an_event_with_its_user_object_and_outcome(audited: Audited) -> None:
    """An administrator, a user without a right, a node, nobody, and somebody with a wrong token."""
    pods = "/api/v1/namespaces/default/configmaps"
    assert audited.ask("POST", f"{pods}?fieldManager=a1", "admins-token", body=_CONF, **{"User-Agent": "k/1"}) == 201
    made = audited.event("a1")
    assert short(made) == ("alice", "create", 201, "allow")
    assert made["user"] == {"username": "alice", "uid": "1", "groups": ["system:masters", "system:authenticated"]}
    reference = made["objectRef"]
    assert (reference["resource"], reference["namespace"], reference["apiVersion"]) == ("configmaps", "default", "v1")
    assert reference["name"].startswith("conf-")
    assert (made["stage"], made["sourceIPs"], made["userAgent"]) == ("ResponseComplete", ["127.0.0.1"], "k/1")
    assert made["requestReceivedTimestamp"] <= made["stageTimestamp"]

    for path, credentials, status, found in (
        (f"{pods}?limit=101", {"token": "plain-token"}, 403, ("bob", "list", 403, "forbid")),
        ("/api/v1/nodes/n1?limit=102", {"node": "n1"}, 404, ("system:node:n1", "get", 404, "allow")),
        (
            "/api/v1/namespaces/default/secrets/a?limit=103",
            {"node": "n1"},
            403,
            ("system:node:n1", "get", 403, "forbid"),
        ),
        (f"{pods}?limit=104", {}, 403, ("system:anonymous", "list", 403, "forbid")),
        (f"{pods}?limit=105", {"token": "wrong-token"}, 401, (None, "list", 401, None)),
        ("/version?limit=106", {}, 200, ("system:anonymous", "get", 200, "allow")),
    ):
        assert audited.ask("GET", path, **credentials) == status
        assert short(audited.event(path.partition("?")[2])) == found
    as_bob = {"Impersonate-User": "bob"}
    assert audited.ask("GET", f"{pods}?limit=107", "admins-token", **as_bob) == 403
    impersonated = audited.event("limit=107")
    assert (short(impersonated), impersonated["impersonatedUser"]["username"]) == (
        ("alice", "list", 403, "forbid"),
        "bob",
    )
    assert audited.ask("GET", "/livez", "admins-token") == 200
    assert audited.ask("GET", f"{pods}?token=s3cret&limit=108", "admins-token") == 200
    audited.event("limit=108")
    whole = audited.path.read_text()
    assert "/livez" not in whole
    assert not any(each in whole for each in ("s3cret", "admins-token", "plain-token", "wrong-token"))
    assert stat.S_IMODE(audited.path.stat().st_mode) == 0o600


def test_a_watch_is_an_event_when_it_begins_and_one_when_it_ends(audited: Audited) -> None:
    """Both have the same id; otherwise nobody would see a command that runs for days."""
    context = ssl.create_default_context(cafile=str(audited.secure.files.authority))
    plain = socket.create_connection(("127.0.0.1", audited.secure.port), timeout=PATIENCE)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        head = ("GET /api/v1/pods?watch=1&limit=201 HTTP/1.1", "Host: 127.0.0.1", "Authorization: Bearer admins-token")
        connection.sendall("\r\n".join((*head, "", "")).encode())
        assert b"200 OK" in connection.recv(4096)
        begun = audited.event("limit=201")
        assert (begun["stage"], *short(begun)) == ("ResponseStarted", "alice", "watch", 200, "allow")
    wait_until(lambda: len(audited.events("limit=201")) == 2, "its end is recorded")
    ended = audited.events("limit=201")[1]
    assert (ended["stage"], ended["auditID"]) == ("ResponseComplete", begun["auditID"])


def test_the_control_socket_the_insecure_port_and_sign_ins_are_recorded(audited: Audited) -> None:
    """Everybody at the first two is the administrator."""
    audited.stub.client.run(Apply([{**_CONF, "metadata": {"name": "own"}}]))
    applied = audited.event("configmaps/own?fieldManager=cloudcore&force=true")
    assert short(applied) == ("administrator", "patch", 201, "allow")
    audited.stub.client.revoke("node", "n7", "a reason that is s3cret")
    assert short(audited.event("/cloudcore/revocations")) == ("administrator", "post", 200, "allow")
    insecure = next(each for each in audited.stub.core._listeners if "http:" in each.url)
    connection = http.client.HTTPConnection("127.0.0.1", insecure.port, timeout=PATIENCE)
    for host, status in (("localhost", 200), ("evil.example", 403)):
        connection.request("GET", f"/api/v1/nodes?limit={status}", headers={"Host": host})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert short(audited.event(f"limit={status}"))[:3] == ("administrator", "list", status)
    connection.close()
    host = f"127.0.0.1:{audited.secure.port}"
    own = {"Origin": f"https://{host}", "X-Edgecore-Page": "1", "Sec-Fetch-Site": "same-origin"}
    for token, status in (("admins-token", 200), ("wrong-token", 401)):
        assert audited.ask("POST", "/page/v1/session", body={"token": token}, **own) == status
    wait_until(lambda: len(audited.events("/page/v1/session")) == 2, "both sign-ins are recorded")
    found = [short(each) for each in audited.events("/page/v1/session")]
    assert found == [("alice", "post", 200, "allow"), ("system:anonymous", "post", 401, None)]
    assert "s3cret" not in audited.path.read_text()
    status, metrics = audited.stub.client.request("GET", "/metrics")
    assert audited.stub.client.audit() == AuditState(str(audited.path))
    assert (status, b'cloudcore_audit_events_total{outcome="dropped"} 0.0' in metrics) == (200, True)


def test_a_process_writes_it_as_its_options_say(tmp_path: Path) -> None:
    """All requests up to the end are there when it has stopped."""
    root, ready, path = tmp_path / "c", tmp_path / "ready", tmp_path / "audit.log"
    arguments = [
        "run", "--root", str(root), "--listen", "127.0.0.1:0", "--ready-file", str(ready),
        "--audit-log-path", str(path), "--audit-log-maxsize", "1", "--audit-log-maxbackup", "2",
    ]  # fmt: skip
    process = Process("modules.processes.cloudcore", arguments, tmp_path / "log")
    try:
        wait_until(lambda: ready.exists() or not process.runs, "the cloud is ready")
        call("cloudcore", "create", "configmap", "last", "--from-literal=a=s3cret", "--root", str(root))
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.tail()
    finally:
        process.kill()
    found = [json.loads(line) for line in path.read_text().splitlines()]
    (made,) = [each for each in found if each["verb"] == "create"]
    assert (made["kind"], made["apiVersion"], made["objectRef"]["name"]) == ("Event", "audit.k8s.io/v1", "last")
    assert "s3cret" not in path.read_text()


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--audit-log-maxsize", "5"], "add --audit-log-path"),
        (["--audit-log-path", "-"], "is a file"),
        (["--audit-log-path", "a", "--audit-log-maxsize", "0"], "1 to 10000 MB"),
        (["--audit-log-path", "a", "--audit-log-maxbackup", "0"], "1 to 1000 full files"),
    ],
)
def test_wrong_options(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], remedy: str) -> None:
    assert main(["run", "--root", str(tmp_path), *options]) == ExitCode.USAGE
    assert remedy in capsys.readouterr().err


def test_a_file_that_cannot_be_opened_is_no_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rather than a cloud whose requests nobody records."""
    path = tmp_path / "none" / "audit.log"
    arguments = ["run", "--root", str(tmp_path / "c"), "--listen", "127.0.0.1:0", "--audit-log-path", str(path)]
    assert main(arguments) == ExitCode.START_FAILED
    assert "cannot open the audit log" in capsys.readouterr().err
