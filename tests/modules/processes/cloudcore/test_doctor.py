"""`cloudcore doctor`: the decisions, and the command against a running cloudcore."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.cloud.messages import Cloudcores, LinkSession, NodeConnection
from modules.insight.fleet.lacks import Lack
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import TlsConfig
from modules.processes.cloudcore.control_service import AuditState
from modules.processes.cloudcore.doctor_checks import CloudFacts, DatabaseServer, check_cloud
from modules.processes.common.doctor.check_result import CheckResult, Level
from modules.processes.common.exit_codes import ExitCode
from tests.modules.cloud.apiextensions.definition import definition
from tests.modules.cloud.objects import pod
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.control_client import Apply
from tests.support.postgresql import PrivatePostgresql, needs_postgresql

NOW = 1795139667.0
DAY = 24 * 3600.0


def node(name: str = "n1", ready: str = "True") -> dict[str, Any]:
    """Return a Node."""
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


RUNS = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}]}
WELL = CloudFacts(
    now=NOW, process=7, socket="/run/cloudcore.sock", free_bytes=1 << 40, certificates={"ca.crt": NOW + 3650 * DAY},
    nodes=[node()], pods=[{**pod(nodeName="n1"), "status": RUNS}], connections=[NodeConnection("n1", 60.0, 5.0)],
)  # fmt: skip


def problems(**changes: Any) -> list[CheckResult]:
    """Return the results that are not good, after changes of the facts of a cloudcore that is well."""
    results = check_cloud(msgspec.structs.replace(WELL, **changes))
    return [each for each in results if each.level is not Level.OK]


def test_a_cloudcore_that_is_well_has_good_results_only() -> None:
    assert problems() == []
    assert [each.check for each in check_cloud(WELL)] == ["cloudcore", "database", "certificate", "nodes"]


def test_without_a_process_only_what_can_be_known_is_checked() -> None:
    (found,) = problems(process=0, nodes=[], connections=[])
    assert (found.level, "/run/cloudcore.sock" in found.text, "cloudcore run" in found.hint) == (
        Level.FAILED,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({"unready": "edgecontroller is not ready"}, Level.FAILED, "is not ready: edgecontroller"),
        ({"free_bytes": 1 << 20}, Level.FAILED, "1 MiB are free"),
        ({"free_bytes": 500 << 20}, Level.WARNING, "500 MiB are free"),
        ({"database": DatabaseServer("pg://x", "postgresql", (14, 9))}, Level.WARNING, "pg://x: postgresql 14.9"),
        (
            {"database": DatabaseServer("pg://x", "postgresql", (15, 1), is_verified=False)},
            Level.WARNING,
            "pg://x: postgresql 15.1, over the network without proof of its name",
        ),
        ({"database": DatabaseServer("my://x", "mysql", (8,))}, Level.WARNING, "my://x: mysql 8"),
        ({"database": DatabaseServer("pg://x", "postgresql", error="refused")}, Level.FAILED, "pg://x: refused"),
        (
            {"audit": AuditState("/a.log", 3, "No space left")},
            Level.FAILED,
            "/a.log has gaps: 3 events are missing (No",
        ),
        ({"audit": AuditState("/a.log", 3)}, Level.WARNING, "/a.log has gaps: 3 events are missing"),
        ({"certificates": {"ca.crt": NOW - DAY}}, Level.FAILED, "ca.crt expired 24h ago"),
        ({"certificates": {"ca.crt": NOW + DAY}}, Level.WARNING, "ca.crt expires in 24h"),
        ({"certificates": {"ca.crt": None}}, Level.FAILED, "ca.crt cannot be read"),
        ({"nodes": [node(ready="Unknown")], "connections": []}, Level.FAILED, "n1 has never been connected"),
        ({"nodes": [node(ready="False")]}, Level.FAILED, "n1 is behind: not Ready"),
        (
            {"connections": [], "sessions": [LinkSession("n1", "c", "a", 1.0, NOW - 5.0, "it was closed")]},
            Level.FAILED,
            "n1 is lost: its connection ended 5s ago · it was closed",
        ),
        (
            {"connections": [], "sessions": [LinkSession("n1", "c", "a", 1.0, NOW - 7200.0, "it was closed")]},
            Level.FAILED,
            "n1 is away: 120m ago · 1 pod bound to it · it was closed",
        ),
        (
            {
                "connections": [],
                "sessions": [LinkSession("n1", "c", "a", 1.0, NOW - 50.0)],
                "refused": {"n1": "revoked"},
            },
            Level.FAILED,
            "n1 is away: 50s ago · 1 pod bound to it · revoked",
        ),
        (
            {"connections": [NodeConnection("n1", 9.0, 1.0, unacknowledged=2, oldest_seconds=70.0)]},
            Level.FAILED,
            "it has not acknowledged a message for 70s",
        ),
        ({"connections": [NodeConnection("n1", 9.0, 1.0, 3, is_behind=True)]}, Level.FAILED, "it reads slowly"),
        (
            {"connections": [NodeConnection("n1", 9.0, 1.0, last_error="disk full", last_error_seconds=5.0)]},
            Level.WARNING,
            "its last error, 5s ago: disk full",
        ),
        (
            {"connections": [NodeConnection("n1", 9.0, 1.0, clock_ahead_seconds=3601.0)]},
            Level.WARNING,
            "The clock of n1 is 60m ahead",
        ),
        (
            {"connections": [NodeConnection("n1", 9.0, 1.0, certificate_ends=NOW + DAY)]},
            Level.WARNING,
            "The certificate of n1 ends in 1 day: it is connected and has not renewed it",
        ),
        (
            {"lacks": [Lack("default", "Deployment web", 3, 2, "exceeded quota: few, requested: pods=1")]},
            Level.WARNING,
            "Deployment web: 2 of 3 pods cannot be made: exceeded quota: few",
        ),
        ({"unevaluated": ["a.b", "c.d"]}, Level.WARNING, "rules in CEL are not evaluated (2): a.b, c.d"),
        ({"pods": [pod(nodeName="")]}, Level.WARNING, "1 has no node: default/web"),
        ({"pods": [pod(nodeName="n9")]}, Level.WARNING, "1 is on nodes that do not exist: default/web"),
        (
            {"connections": [*WELL.connections, NodeConnection("n2", 9.0, 1.0)]},
            Level.FAILED,
            "n2 is behind: it has not registered",
        ),
    ],
)
def test_each_problem_is_reported_once_with_a_remedy(changes: dict[str, Any], level: Level, text: str) -> None:
    (found,) = problems(**changes)
    assert (found.level, text in found.text, bool(found.hint)) == (level, True, True), found


def test_several_cloudcores_are_named_and_a_node_of_another_one_is_no_problem() -> None:
    several = Cloudcores("a", ("a", "b"), {"n1": "b"})
    assert problems(connections=[], cloudcores=several) == []
    results = check_cloud(msgspec.structs.replace(WELL, cloudcores=several))
    assert [each.text for each in results if each.check == "cloudcores"] == ["2 are alive: a, b; this is a"]


def test_an_old_error_is_no_problem() -> None:
    assert problems(connections=[NodeConnection("n1", 9.0, 1.0, last_error="x", last_error_seconds=700.0)]) == []


def test_of_an_api_server_that_is_away_nothing_is_guessed() -> None:
    (found,) = problems(unanswered="connection refused", nodes=[], pods=[])
    assert (found.check, found.level, found.text) == ("API server", Level.FAILED, "connection refused")


def test_many_troubled_nodes_are_counted_and_not_all_listed() -> None:
    sessions = [LinkSession(f"n{number}", str(number), "a", 1.0, NOW - 7200.0 * number) for number in range(1, 50)]
    found = problems(
        nodes=[node(each.node, "Unknown") for each in sessions], connections=[], pods=[], sessions=sessions
    )
    assert [each.text for each in found] == [
        "46 more nodes are away",
        *(
            f"n{number} is away: {ago} ago · no pod bound to it"
            for number, ago in ((1, "120m"), (10, "20h"), (11, "22h"))
        ),
    ]


def test_the_command_examines_a_running_cloudcore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pod without a node is a warning, and a node without a connection a failure; the certificates are read."""
    socket = ["--socket", str(tmp_path / "control")]
    tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
    ruled = definition()
    ruled["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{"rule": "true"}]
    with Stub(tmp_path, tls=tls, store_unevaluated_validations=True) as stub:
        stub.client.run(Apply([pod(nodeName=""), ruled]))
        assert main(["doctor", *socket]) == ExitCode.OK
        text = capsys.readouterr().out
        assert "is ready" in text
        assert "server.crt expires in" in text
        assert "1 has no node: default/web" in text
        assert "rules in CEL are not evaluated (1): devices.devices.example.io" in text
        stub.client.run(Apply([{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}]))
        assert main(["doctor", "--json", *socket]) == ExitCode.UNWELL
        found = {each["check"]: each["level"] for each in json.loads(capsys.readouterr().out)}
        assert found["node n1"] == "FAIL"


@needs_postgresql
def test_a_database_server_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It runs, and then it does not."""
    with PrivatePostgresql() as server:
        main(["doctor", "--root", str(tmp_path), "--database", server.url])
        assert ": postgresql 1" in capsys.readouterr().out
        url = server.url
    main(["doctor", "--json", "--root", str(tmp_path), "--database", url])
    found = {each["check"]: each["level"] for each in json.loads(capsys.readouterr().out)}
    assert found["database"] == "FAIL"


def test_the_command_without_a_cloudcore_names_the_command_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--root", str(tmp_path)]) == ExitCode.UNWELL
    assert "start it: `cloudcore run`" in capsys.readouterr().out
