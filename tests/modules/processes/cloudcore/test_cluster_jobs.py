"""Jobs of a cluster: the kinds and the rights in deploy/jobs.yaml are the ones that cloudcore uses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from modules.cloud.client.transport import ApiRequest
from modules.cloud.taskmanager.definitions import definitions
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.deployment import DEPLOY
from tests.modules.processes.cloudcore.jobs import JobAuthors, next_job, report
from tests.modules.processes.cloudcore.test_rights import requests, used_in

__all__ = ["requests"]
GROUP = "operations.kubeedge.io"


@pytest.fixture
def both(tmp_path: Path, requests: list[ApiRequest]) -> Iterator[Cluster]:
    made = Cluster(tmp_path, lambda: {"jobs": True})
    yield made
    made.close()


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "jobs.yaml").read_text()))


def test_the_kinds_equal_the_embedded_api_servers() -> None:
    """deploy/jobs.yaml has them for a cluster."""
    kinds = [each for each in documents() if each["kind"] == "CustomResourceDefinition"]
    assert kinds == definitions()


def test_jobs_of_a_cluster_are_served_with_their_rights(both: Cluster, requests: list[ApiRequest]) -> None:
    """A node gets the job, and the status is in the cluster."""
    authors = JobAuthors(both.cluster.client)
    authors.wait()
    authors.node("n1")
    spec = {"imagePrePullTemplate": {"images": ["x"], "nodeNames": ["n1"]}}
    with both.core.edge() as edge:
        authors.create("ImagePrePullJob", "p", spec)
        asked = next_job(edge)
        assert asked.content_as(dict[str, Any]) == spec
        report(edge, asked.route.resource, "Check")
        report(edge, asked.route.resource, "Pull", extend='[{"image":"x","status":"True"}]')
        status = authors.ended("ImagePrePullJob", "p")
    assert status["phase"] == "Completed"
    assert status["nodeStatus"][0]["imageStatus"] == [{"image": "x", "status": "True"}]
    used = {(right.verb, right.resource) for right in used_in(requests) if right.group == GROUP}
    role = next(each for each in documents() if each["metadata"]["name"] == "cloudcore-jobs")
    granted = {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}
    assert used <= granted
    assert {("list", "imageprepulljobs"), ("watch", "configupdatejobs"), ("update", "imageprepulljobs/status")} <= used
