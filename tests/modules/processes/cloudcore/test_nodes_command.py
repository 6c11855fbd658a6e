"""`cloudcore nodes`: the nodes and their connections, as a person sees them."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.messages import Cloudcores, LinkSession, NodeConnection
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.nodes_command import history, table
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import lines_of
from tests.modules.processes.cloudcore.stubs import Stub, cells


def node(name: str, ready: str = "True") -> dict[str, Any]:
    """Return a Node with a condition and a version."""
    status = {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"kubeletVersion": "v1.32.10"}}
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


def test_a_connected_node_shows_lag_what_waits_and_its_last_error() -> None:
    connection = NodeConnection("n1", 3700.0, 7.0, 3, 2, 12.0, is_behind=True, last_error="bad", last_error_seconds=60)
    _, line = lines_of(table([node("n1")], [connection], {}))
    assert cells(line) == ["n1", "Ready", "61m", "7s", "3 (slow)", "2", "12s", "v1.32.10", "60s ago: bad"]


def test_a_node_that_no_cloudcore_has_had_shows_never() -> None:
    _, line = lines_of(table([node("n1", "Unknown")], [], {}))
    assert cells(line)[:3] == ["n1", "NotReady", "never"]


def test_a_node_that_is_connected_to_another_cloudcore_shows_its_name() -> None:
    known = Cloudcores("a", ("a", "b"), {"n1": "b", "n2": "dead", "n3": "a"})
    lines = lines_of(table([node(name) for name in ("n1", "n2", "n3")], [], known.elsewhere()))[1:]
    assert [cells(line)[2] for line in lines] == ["at b", "never", "never"]


def test_a_node_that_is_away_shows_since_when_and_a_node_that_never_came_is_marked() -> None:
    gone = LinkSession("n1", "c1", "a", 500.0, 1000.0, "no keepalive for 30 s")
    lines = lines_of(table([node("n1", "Unknown"), node("n2", "Unknown")], [], {}, newest=[gone], now=8200.0))[1:]
    assert [cells(line)[2] for line in lines] == ["away 120m", "never"]


def test_the_history_has_a_line_for_each_connection() -> None:
    sessions = [
        LinkSession("n1", "c2", "a", 1100.0),
        LinkSession("n1", "c1", "a", 500.0, 1000.0, "odd \x1b[2J", "192.0.2.7"),
    ]
    _, lasts, ended = lines_of(history(sessions, 1200.0))
    assert cells(lasts) == ["n1", "1970-01-01T00:18:20Z", "<none>", "100s", "<none>", "a", "<none>"]
    assert cells(ended)[2:] == ["1970-01-01T00:16:40Z", "8m20s", "192.0.2.7", "a", "odd \\x1b[2J"]
    assert lines_of(history([], 0.0)) == ["No connections: the link journal keeps those of the last seven days."]


def test_a_connected_node_that_has_not_registered_is_listed() -> None:
    _, line = lines_of(table([], [NodeConnection("n2", 1.0, 1.0)], {}))
    assert cells(line)[:3] == ["n2", "Unregistered", "1s"]


def test_a_node_is_not_called_unregistered_while_the_api_server_is_away() -> None:
    _, line = lines_of(table([], [NodeConnection("n2", 1.0, 1.0)], {}, are_read=False))
    assert cells(line)[:3] == ["n2", "<unknown>", "1s"]


def test_texts_of_a_node_cannot_control_the_terminal() -> None:
    error = NodeConnection("n1", 1.0, 1.0, last_error="\x1b[2J" + "x" * 500)
    _, line = lines_of(table([node("n1")], [error], {}))
    assert "\x1b" not in line
    assert len(line) < 300


def test_without_nodes_it_prints_a_line() -> None:
    assert lines_of(table([], [], {})) == ["No nodes: none has registered, and none is connected."]


def test_the_command_shows_the_connections_of_a_running_cloudcore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = str(tmp_path / "control")
    with Stub(tmp_path) as stub, stub.edge("n1") as edge:
        edge.ask("default/configmap/missing", "query")
        assert main(["nodes", "--socket", socket]) == ExitCode.OK
        head, line = capsys.readouterr().out.splitlines()
        assert head.split()[:3] == ["NAME", "STATUS", "CONNECTED"]
        assert cells(line)[:2] == ["n1", "Unregistered"]
        assert main(["nodes", "--socket", socket, "-o", "json"]) == ExitCode.OK
        (one,) = json.loads(capsys.readouterr().out)
        assert (one["node"], one["last_error"], one["address"]) == ("n1", "", "127.0.0.1")
        assert main(["nodes", "--socket", socket, "--history", "n1"]) == ExitCode.OK
        _, lasts = capsys.readouterr().out.splitlines()
        assert (cells(lasts)[0], cells(lasts)[2], cells(lasts)[4]) == ("n1", "<none>", "127.0.0.1")
        assert main(["nodes", "--socket", socket, "--history", "-o", "json"]) == ExitCode.OK
        (session,) = json.loads(capsys.readouterr().out)
    assert (session["node"], session["connection"]) == ("n1", one["connection"])


def test_the_command_selects_nodes_by_their_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the words of kubectl; of a node that has not registered no label is known."""
    socket, file = str(tmp_path / "control"), tmp_path / "nodes.json"
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"site": site}}}
        for name, site in (("n1", "kiel"), ("n2", "bonn"))
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    with Stub(tmp_path) as stub, stub.edge("n3"):
        assert main(["apply", "--socket", socket, "-f", str(file)]) == ExitCode.OK
        capsys.readouterr()
        for words, names in (
            (["-l", "site=kiel"], ["n1"]),
            (["--selector", "site in (kiel,bonn),!spare"], ["n1", "n2"]),
            ([], ["n1", "n2", "n3"]),
        ):
            assert main(["nodes", "--socket", socket, "-o", "csv", *words]) == ExitCode.OK
            head, *rows = csv.reader(capsys.readouterr().out.splitlines())
            assert (head[0], [row[0] for row in rows]) == ("NAME", names)
        assert main(["nodes", "--socket", socket, "-l", "site=ulm"]) == ExitCode.OK
        assert capsys.readouterr().out == "No node has these labels.\n"
        assert main(["nodes", "--socket", socket, "-l", "site="]) == ExitCode.OK
        assert main(["nodes", "--socket", socket, "-l", "=x"]) == ExitCode.USAGE
        assert "--selector =x: found '=', expected: !, identifier" in capsys.readouterr().err


def test_other_methods_are_refused(tmp_path: Path) -> None:
    with Stub(tmp_path) as stub:
        assert stub.client.request("POST", "/cloudcore/nodes")[0] == 405
