"""`cloudcore doctor` of a cluster: the decisions, and the command against a cluster."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.cluster_checks import ClusterFacts, check_cluster
from modules.processes.cloudcore.cluster_rights import Right
from modules.processes.common.doctor.check_result import CheckResult, Level
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.version import KUBELET_VERSION
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.deployment import of_kind

WELL = ClusterFacts(where="k, context x", version="v1.32.10", skew=0.5, asked=40, node_versions={"v1.32.10": 3})


def problems(**changes: Any) -> list[CheckResult]:
    """Return the results that are not good, after changes of the facts of a cluster that is well."""
    return [each for each in check_cluster(msgspec.structs.replace(WELL, **changes)) if each.level is not Level.OK]


def test_a_cluster_that_is_well_has_good_results_only() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({"error": "cannot connect"}, Level.FAILED, "cannot connect"),
        ({"version": "v1.21.14", "node_versions": {"v1.21.14": 1}}, Level.FAILED, "v1.21.14"),
        ({"version": "v1.22.0", "node_versions": {"v1.22.0": 1}}, None, ""),
        ({"version": "nginx"}, Level.WARNING, "nginx"),
        ({"skew": -90.0}, Level.WARNING, "90 s behind this machine's"),
        ({"skew": None}, None, ""),
        ({"unanswered": "forbidden"}, Level.UNKNOWN, "forbidden"),
        ({"denied": [Right("", "pods/status", "patch")]}, Level.FAILED, "missing: patch pods/status"),
        ({"denied": [Right("storage.k8s.io", "csidrivers", "list")]}, Level.FAILED, "list csidrivers.storage.k8s.io"),
        ({"denied": [Right("", "pods", "get")] * 12}, Level.FAILED, "and 2 more"),
        ({"node_versions": {}}, Level.WARNING, "none has registered"),
        ({"node_versions": {"v1.32.10": 1, "v1.28.1": 2}}, Level.WARNING, "v1.28.1 (2 nodes)"),
        ({"node_versions": {"v1.33.0": 1}}, Level.WARNING, "v1.33.0 (1 node)"),
        ({"node_versions": {"v1.29.0-kubeedge-v1.17.0": 1}}, None, ""),
        ({"node_versions": {"": 1}}, Level.WARNING, "none (1 node)"),
        ({"certificate_left": -3600.0}, Level.FAILED, "expired 60m ago"),
        ({"certificate_left": 86400.0 * 7}, Level.WARNING, "expires in 7d"),
        ({"certificate_left": 86400.0 * 300}, None, ""),
        ({"lacking_roles": ["cloudcore-certificates"]}, Level.WARNING, "signing requests of nodes"),
        ({"lacking_roles": ["cloudcore-from-kubeedge"]}, Level.WARNING, "come from KubeEdge"),
        ({"lacking_roles": ["cloudcore-devices"], "device_kinds": {"devices": 403}}, Level.WARNING, "devices may not"),
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
def test_each_fault_is_reported_with_a_remedy(changes: dict[str, Any], level: Level | None, text: str) -> None:
    found = problems(**changes)
    assert [each.level for each in found] == ([] if level is None else [level])
    assert all(text in each.text and each.hint for each in found)


def test_an_expired_certificate_is_named_beside_the_refusal_that_it_causes() -> None:
    found = problems(error="TLS failed", certificate_left=-60.0)
    assert [(each.check, each.level) for each in found] == [("cluster", Level.FAILED), ("kubeconfig", Level.FAILED)]


@pytest.mark.parametrize(("groups", "levels"), [({"edgecore.io"}, []), (set(), [Level.FAILED])])
def test_node_states_are_defined_where_they_are_used(groups: set[str], levels: list[Level]) -> None:
    facts = msgspec.structs.replace(WELL, groups=groups)
    found = check_cluster(facts, keeps_state=True)
    assert [each.level for each in found if each.check == "state" and each.level is not Level.OK] == levels
    assert "state" not in [each.check for each in check_cluster(facts)]


def test_the_state_in_the_cluster_and_a_client_certificate_are_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = Cluster(tmp_path)
    path = str(tmp_path / "admin")
    server = f"https://127.0.0.1:{both.cluster.core.api_port}"
    main(["kubeconfig", "--output", path, "--server", server, "--tls-dir", str(tmp_path / "tls")])
    root = str(tmp_path / "none")
    arguments = ["doctor", "--json", "--state", "cluster", "--root", root, "--kubeconfig", path]

    def levels() -> dict[str, str]:
        capsys.readouterr()
        assert main(arguments) == ExitCode.UNWELL, "no cloudcore runs below that root"
        return {each["check"]: each["level"] for each in json.loads(capsys.readouterr().out)}

    found = levels()
    assert (found["state"], found["kubeconfig"], found["rights"]) == ("FAIL", "ok", "ok")
    assert "database" not in found
    both.apply(*of_kind("CustomResourceDefinition"))
    assert levels()["state"] == "ok"
    both.close()


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
