"""Who applies a field of a workload that the controllers do not follow is told so."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.workload_warnings import workload_warnings
from modules.cloud.client.calls import ApiCall
from tests.modules.cloud.controllers.site import workload

UNFOLLOWED = "cloudcore's controllers do not follow it; kube-controller-manager does"


@pytest.mark.parametrize(
    ("plural", "spec", "warnings"),
    [
        ("jobs", {"backoffLimit": 3}, []),
        ("jobs", {"podFailurePolicy": {"rules": []}, "maxFailedIndexes": 0}, []),
        ("cronjobs", {"jobTemplate": {"spec": {}}}, []),
        ("statefulsets", {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}, []),
        (
            "statefulsets",
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
            ["spec.persistentVolumeClaimRetentionPolicy"],
        ),
        ("deployments", {"podFailurePolicy": {}}, []),
        ("jobs", None, []),
    ],
)
def test_a_field_that_is_not_followed(plural: str, spec: Any, warnings: list[str]) -> None:
    assert list(workload_warnings(plural, {"spec": spec})) == [f"{path}: {UNFOLLOWED}" for path in warnings]


def test_the_warning_comes_with_the_answer() -> None:
    cluster = Cluster(Simulation(1).clock)
    stateful_set = workload("StatefulSet", persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"})
    call = ApiCall(verb="create", api_version="apps/v1", plural="statefulsets", namespace="default", body=stateful_set)
    result = serve(cluster, call)
    assert result.refusal is None
    assert result.warnings == (f"spec.persistentVolumeClaimRetentionPolicy: {UNFOLLOWED}",)
