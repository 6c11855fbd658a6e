"""Strategic merge patches of all built-in kinds against kubectl's, which merges as kube-apiserver does."""

from pathlib import Path
from typing import Any

import pytest

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import KINDS
from modules.apimachinery.strategic_merge import merge_strategic
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from tests.modules.cloud.apiserver.fields.patches.answers import read
from tests.modules.cloud.apiserver.fields.patches.drawing import Drawn, drawn
from tests.modules.cloud.apiserver.fields.patches.kubectl import KUBECTL, patched


def merged(case: Drawn) -> dict[str, Any] | None:
    """Return the object after the patch; None for a refusal."""
    try:
        return merge_strategic(case.original, case.patch, schema_of(case.kind))
    except BadRequestError:
        return None


def test_patches_are_merged_as_kubectl_merges_them() -> None:
    answers = read()
    assert len({one.case.kind for one in answers}) == len(KINDS) - 1
    assert 20 < sum(one.result is None for one in answers) < len(answers) / 4
    for one in answers:
        assert merged(one.case) == one.result, one.case


def of_service(*ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "n"}, "spec": {"ports": [*ports], **spec}}


UDP, TCP = {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}
METRICS = {"name": "metrics", "port": 9153}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(Drawn("Service", of_service(UDP, TCP), of_service(METRICS)), of_service(METRICS, UDP, TCP),
            id="a Service keeps its other ports, also two with one number"),
        pytest.param(Drawn("Service", of_service(UDP, TCP), {"spec": {"ports": [{"port": 53, "$patch": "delete"}]}}),
            of_service(), id="a directive removes all elements with the key"),
        pytest.param(Drawn("Service", of_service(UDP, TCP), {"spec": {"ports": [{"port": 53, "name": "x"}]}}),
            of_service({**UDP, "name": "x"}, TCP), id="the first element with the key is merged"),
        pytest.param(
            Drawn("Service", of_service(TCP), {"spec": {"ports": [{"name": "x"}]}}), None, id="no key"
        ),
        pytest.param(
            Drawn(
                "PodDisruptionBudget",
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "n"},
                 "spec": {"selector": {"matchLabels": {"a": "1"}}}},
                {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
            ),
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "n"},
             "spec": {"selector": {"matchLabels": {"b": "2"}}}},
            id="the selector of a PodDisruptionBudget is replaced",
        ),
        pytest.param(
            Drawn(
                "Deployment",
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "n"},
                 "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
                {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            ),
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "n"},
             "spec": {"strategy": {"type": "Recreate"}}},
            id="a strategy loses the keys that are not retained",
        ),
        pytest.param(
            Drawn("Service", of_service(TCP, METRICS), {"spec": {
                "$setElementOrder/ports": [{"port": 9153}, {"port": 80}, {"port": 53}], "ports": [{"port": 80}]}}),
            of_service(METRICS, {"port": 80}, TCP),
            id="an order of elements",
        ),
    ],
)  # fmt: skip
def test_a_patch(case: Drawn, expected: dict[str, Any] | None, tmp_path: Path) -> None:
    assert merged(case) == expected
    if KUBECTL is not None:
        assert patched(case, tmp_path) == expected


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_more_patches_are_merged_as_kubectl_merges_them(tmp_path: Path) -> None:
    for seed in range(10_000, 10_400):
        case = drawn(seed)
        assert merged(case) == patched(case, tmp_path), case
