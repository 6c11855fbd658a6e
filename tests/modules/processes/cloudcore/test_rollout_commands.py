"""`cloudcore upgrade` and `cloudcore prepull`: the jobs that they make, and how a person sees them."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import TEMPLATE
from modules.cloud.bundle_names import bundle_versions
from modules.cloud.taskmanager.waves import PAUSE, WAVES
from modules.insight.fleet.jobs import next_name
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.control_client import ControlClient
from modules.processes.cloudcore.control_service import ServedBundles
from modules.processes.cloudcore.errors import ControlError
from modules.processes.cloudcore.rollout_commands import _job, jobs_table, label_selector, nodes_table
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import lines_of
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.jobs import JobAuthors, next_job, report
from tests.modules.processes.cloudcore.stubs import Stub, cells

Json = dict[str, Any]
WAVED: Json = {
    "metadata": {"name": "up", "creationTimestamp": "1970-01-01T00:00:00Z", "annotations": {WAVES: "1,all"}},
    "status": {
        "phase": "InProgress",
        "reason": "the next wave waits: n1",
        "nodeStatus": [
            {"nodeName": "n1", "phase": "Successful", "historicVersion": "1.0.0", "currentVersion": "1.1.0",
             "actionFlow": [{"action": "Upgrade", "status": "True", "time": "1970-01-01T00:01:00Z"}]},
            {"nodeName": "n2", "phase": "Failure",
             "actionFlow": [{"action": "Check", "status": "False", "reason": "no \x1b[2J room"}]},
            {"nodeName": "n3", "phase": "Pending"},
            {"nodeName": "n4", "phase": "Failure",
             "actionFlow": [{"action": "Pull", "status": "False", "reason": "no"}],
             "imageStatus": [{"image": "y:1", "status": "False", "reason": "gone"}]},
        ],
    },
}  # fmt: skip


def test_a_job_is_shown_node_by_node_and_all_jobs_in_a_line_each() -> None:
    table = nodes_table(JobKind.NODE_UPGRADE, WAVED, {"n1", "n2"}, 180.0)
    _, one, two, three, four, sentence, first, second = lines_of(table)
    assert cells(four)[-1] == "no: y:1: gone"
    assert cells(one) == ["n1", "1", "Successful", "Upgrade", "2m", "1.0.0", "1.1.0"]
    assert cells(two) == ["n2", "2", "Failure", "Check", "<none>", "<none>", "<none>", "no \\x1b[2J room"]
    assert cells(three)[:3] == ["n3", "2", "Pending (away)"]
    assert sentence == "NodeUpgradeJob up: InProgress: the next wave waits: n1"
    assert first == "wave 1: 1 node: 1 done"
    assert second == "wave 2: 3 nodes: 2 failed, 1 waiting (1 away)"
    empty = {"metadata": {"name": "new"}}
    lines = lines_of(jobs_table([(JobKind.NODE_UPGRADE, WAVED), (JobKind.IMAGE_PRE_PULL, empty)], {"n1"}, 180.0))
    assert cells(lines[1])[:6] == ["new", "ImagePrePullJob", "<none>", "0/0", "0", "0"]
    assert cells(lines[2])[:8] == ["up", "NodeUpgradeJob", "InProgress", "1/4", "2", "0", "1 (1 away)", "3m"]


@pytest.mark.parametrize(
    ("text", "expressions"),
    [
        ("", []),
        ("a=b", [{"key": "a", "operator": "In", "values": ["b"]}]),
        ("a in (c,b)", [{"key": "a", "operator": "In", "values": ["b", "c"]}]),
        ("a!=b", [{"key": "a", "operator": "NotIn", "values": ["b"]}]),
        ("a,!b", [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]),
    ],
)
def test_labels_of_the_command_line_become_a_selector(text: str, expressions: list[Json]) -> None:
    assert label_selector(text).get("matchExpressions", []) == expressions


@pytest.mark.parametrize("text", ["a>1", "a in", "=", "a b"])
def test_labels_that_are_no_selector_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a|found"):
        label_selector(text)


@pytest.mark.parametrize(
    ("code", "why"), [(404, "there is no such job of nodes"), (403, "cannot read the job of nodes")]
)
def test_a_job_that_cannot_be_read_is_not_missing(code: int, why: str) -> None:
    client = Mock(request=lambda *_: (code, b'{"message": "not for you"}'))
    with pytest.raises(ControlError, match=why):
        _job(client, "up")


def test_a_job_goes_on_under_the_next_name() -> None:
    assert [next_name(name) for name in ("up", "up-2", "up-9", "to-1-1", "up-99")] == [
        "up-2", "up-3", "up-10", "to-1-1-2", "up-99-2",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [JobKind.NODE_UPGRADE, JobKind.IMAGE_PRE_PULL])
def test_a_job_that_goes_on_has_the_nodes_that_are_left_and_the_order_of_the_former(
    monkeypatch: pytest.MonkeyPatch, kind: JobKind
) -> None:
    """Whatever kept the nodes; the labels may select others by now."""
    order = {"concurrency": 5, "version": "v1.1.0"}
    given = {**order, "labelSelector": {"matchLabels": {"a": "b"}}}
    names = {"Successful": "n1", "Failure": "n2", "Pending": "n3", "Unknown": "n4", "InProgress": "n5"}
    job: Json = {
        "metadata": {"name": "up", "annotations": {WAVES: "1,all", PAUSE: "600", "other": "x"}},
        "spec": given if kind is JobKind.NODE_UPGRADE else {TEMPLATE: given},
        "status": {"phase": "Failure", "nodeStatus": [{"nodeName": n, "phase": p} for p, n in names.items()]},
    }
    made = list[Json]()

    def request(_client: object, _method: str, path: str) -> tuple[int, bytes]:
        return (200, json.dumps(job).encode()) if kind.value.lower() in path else (404, b"")

    monkeypatch.setattr(ControlClient, "request", request)
    monkeypatch.setattr(ControlClient, "call", lambda _client, _verb, _path, obj: made.append(obj))
    assert main(["upgrade", "resume", "up"]) == ExitCode.OK
    wanted = {**order, "nodeNames": ["n2", "n3", "n4", "n5"]}
    assert made[0]["spec"] == (wanted if kind is JobKind.NODE_UPGRADE else {TEMPLATE: wanted})
    assert made[0]["metadata"] == {"name": "up-2", "annotations": {WAVES: "1,all", PAUSE: "600"}}


@pytest.mark.parametrize(
    ("served", "more", "refused"),
    [
        (ServedBundles("/b", ["1.0.0", "1.1.0"]), [], ""),
        (ServedBundles(), [], ""),
        (ServedBundles("/b", ["1.0.0"]), ["--not-served"], ""),
        (ServedBundles("/b", ["1.0.0", "1.0.1+a"]), [], "1.1.0 (it has 1.0.0, 1.0.1+a; `make bundle` makes one"),
        (ServedBundles("/b", []), [], "it has no bundle"),
        (ServedBundles("/b", problem="no such directory"), [], "no such directory"),
    ],
)
def test_a_version_that_no_bundle_has_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    served: ServedBundles,
    more: list[str],
    refused: str,
) -> None:
    """With the versions there are; nodes may have others in sources of their own."""
    made = list[Json]()
    monkeypatch.setattr(ControlClient, "bundles", lambda _client: served)
    monkeypatch.setattr(ControlClient, "call", lambda _client, _verb, _path, obj: made.append(obj))
    assert (main(["upgrade", "nodes", "n1", "--to", "v1.1.0", *more]) == ExitCode.OK) is (refused == "")
    assert (len(made), refused in capsys.readouterr().err) == (int(not refused), True)


def test_the_versions_of_a_directory_are_those_of_its_bundles(tmp_path: Path) -> None:
    for name in ("1.0.0-cp311-x86_64", "1.0.0-cp313-aarch64", "1.0.1.dev5+g0a1-cp311-x86_64"):
        (tmp_path / f"edgecore-{name}.bundle").touch()
    (tmp_path / "edgecore-1.0.2.tar").touch()
    assert bundle_versions(tmp_path) == ["1.0.0", "1.0.1.dev5+g0a1"]


@pytest.mark.parametrize(
    "words",
    [
        ["upgrade", "nodes", "--to", "1.1.0"],
        ["upgrade", "nodes", "n1", "--all", "--to", "1.1.0"],
        ["upgrade", "nodes", "n1", "--to", "../x"],
        ["upgrade", "nodes", "n1", "--to", "1.1.0", "--waves", "1;2"],
        ["upgrade", "nodes", "n1", "--to", "1.1.0", "--pause", "10m"],
        ["upgrade", "nodes", "n1", "--to", "1.1.0", "--tolerate", "2"],
        ["upgrade", "nodes", "-l", "a>1", "--to", "1.1.0"],
        ["prepull", "x"],
    ],
)
def test_a_mistake_makes_no_job(words: list[str], tmp_path: Path) -> None:
    """It is found before cloudcore is asked."""
    assert main([*words, "--socket", str(tmp_path / "none")]) == ExitCode.USAGE


def test_an_image_as_of_kubeedge_is_refused_with_what_there_is_in_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["upgrade", "nodes", "n1", "--to", "1.1.0", "--image=kubeedge/installation-package"])
    assert ended.value.code == ExitCode.USAGE
    assert "signed bundles, no container images" in capsys.readouterr().err


def test_an_upgrade_in_waves_is_ordered_seen_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nodes on which it has not succeeded get it again, in the waves of the first job."""
    with Stub(tmp_path) as stub, stub.edge("n1") as edge:
        authors = JobAuthors(stub.client)
        authors.wait()
        authors.node("n1", site="kiel")
        authors.node("n2", site="kiel")
        authors.node("n3")
        path = ("--socket", str(stub.config.control_socket))

        def run(*words: str) -> str:
            assert main([*words, *path]) == ExitCode.OK
            return capsys.readouterr().out

        def status_of(job: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads(run("upgrade", "status", job, "-o", "json"))
            return found

        assert "no jobs of nodes" in run("upgrade", "status")
        order = ("--waves", "1,all", "--pause", "0", "--tolerate", "0.5", "--timeout", "60")
        said = run("upgrade", "nodes", "-l", "site=kiel", "--to", "1.1.0", *order)
        assert "NodeUpgradeJob upgrade-to-1.1.0 is made" in said
        asked = next_job(edge)
        spec = asked.content_as(dict[str, Any])
        assert (spec["version"], spec["failureTolerate"], spec["timeoutSeconds"]) == ("v1.1.0", "0.5", 60)
        assert spec["checkItems"] == ["mem", "disk"]
        report(edge, asked.route.resource, "Check", "no room")
        assert authors.ended("NodeUpgradeJob", "upgrade-to-1.1.0")["phase"] == "Failure"
        rows = json.loads(run("upgrade", "status", "upgrade-to-1.1.0", "-o", "json"))
        assert [(row["node"], row["state"]) for row in rows] == [("n1", "Failure"), ("n2", "Pending (away)")]
        run("upgrade", "resume", "upgrade-to-1.1.0")
        again = next_job(edge)
        assert again.route.resource.split("/")[-3] == "upgrade-to-1.1.0-2"
        assert again.content_as(dict[str, Any])["nodeNames"] == ["n1", "n2"]
        run("prepull", "busybox:1", "--all", "--secret", "default/s", "--name", "p")
        rows = json.loads(run("upgrade", "status", "-o", "json"))
        assert {row["name"] for row in rows} == {"upgrade-to-1.1.0", "upgrade-to-1.1.0-2", "p"}
        wait_until(lambda: [row["node"] for row in status_of("p")] == ["n1", "n2", "n3"], "--all takes each edge node")
        assert main(["upgrade", "resume", "upgrade-to-1.1.0-2", *path]) == ExitCode.INTERNAL_ERROR
        assert "goes on by itself" in capsys.readouterr().err
        assert main(["upgrade", "nodes", "n1", "--to", "1.1.0", *path]) == ExitCode.INTERNAL_ERROR
        assert "already exists" in capsys.readouterr().err
        assert main(["upgrade", "status", "none", *path]) == ExitCode.INTERNAL_ERROR
        assert "no such job" in capsys.readouterr().err
