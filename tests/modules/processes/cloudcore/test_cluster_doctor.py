"""`cloudcore doctor` of a cluster: the decisions, and the command against a cluster."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.cluster_checks import ClusterFacts, check_cluster
from modules.processes.cloudcore.cluster_rights import Right
from modules.processes.edgecore.doctor.check_result import CheckResult, Level
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.version import KUBELET_VERSION
from tests.modules.processes.cloudcore.clusters import Cluster

WELL = ClusterFacts(where="k, context x", version="v1.32.10", skew=0.5, asked=40, edge_nodes=3)


def problems(**changes: Any) -> list[CheckResult]:
    """Return the results that are not good, after changes of the facts of a cluster that is well."""
    return [each for each in check_cluster(msgspec.structs.replace(WELL, **changes)) if each.level is not Level.OK]


def test_a_cluster_that_is_well_has_good_results_only() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({"error": "cannot connect"}, Level.FAILED, "cannot connect"),
        ({"version": "v1.19.2"}, Level.FAILED, "v1.19.2"),
        ({"version": "nginx"}, Level.WARNING, "nginx"),
        ({"skew": -90.0}, Level.WARNING, "90 s behind this machine's"),
        ({"skew": None}, None, ""),
        ({"unanswered": "forbidden"}, Level.UNKNOWN, "forbidden"),
        ({"denied": [Right("", "pods/status", "patch")]}, Level.FAILED, "missing: patch pods/status"),
        ({"denied": [Right("storage.k8s.io", "csidrivers", "list")]}, Level.FAILED, "list csidrivers.storage.k8s.io"),
        ({"denied": [Right("", "pods", "get")] * 12}, Level.FAILED, "and 2 more"),
        ({"edge_nodes": 0}, Level.WARNING, "none has registered"),
        (
            {"device_kinds": {"devicemodels": 200, "devices": 403, "devicestatuses": 200}},
            Level.WARNING,
            "devices may not",
        ),
        (
            {"device_kinds": {"devicemodels": 200, "devices": 200, "devicestatuses": 404}},
            Level.WARNING,
            "is not stored",
        ),
        ({"device_kinds": {"devicemodels": 404, "devices": 404, "devicestatuses": 404}}, None, ""),
    ],
)
def test_what_is_wrong_is_told_with_a_remedy(changes: dict[str, Any], level: Level | None, text: str) -> None:
    found = problems(**changes)
    assert [each.level for each in found] == ([] if level is None else [level])
    assert all(text in each.text and each.hint for each in found)


def test_a_cluster_is_examined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the rights of an administrator all are granted; with a wrong token nothing can be asked."""
    both = Cluster(tmp_path)
    arguments = ["doctor", "--json", "--root", str(tmp_path / "none"), "--kubeconfig", str(both.kubeconfig())]
    assert main(arguments) == ExitCode.UNWELL, "no cloudcore runs below that root"
    found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["cluster"]["text"].endswith(f"Kubernetes {KUBELET_VERSION}")
    assert (found["rights"]["level"], found["edge nodes"]["level"]) == ("ok", "warning")
    assert found["devices"]["text"] == "their kinds are defined"
    path = both.kubeconfig()
    path.write_text(path.read_text().replace("admins-token", "wrong-token"))
    main([*arguments[:-1], str(path)])
    both.close()
    output = capsys.readouterr().out
    assert "401" in output
    assert "wrong-token" not in output
