"""What the embedded API server refuses of a Rule."""

from typing import Any

import pytest

from beehive import RealClock
from modules.apimachinery.api_errors import ApiError
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.router.admission import ADMISSIONS
from modules.cloud.router.definitions import definitions
from tests.modules.cloud.router.rules import from_url, to_topic

URL = "http://server.example/x"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(RealClock(), admissions=ADMISSIONS)
    for definition in definitions():
        made.apply(definition)
    return made


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        (from_url(URL, "http://bank.example/"), "target_url"),
        (from_url(URL, node="n2"), "node_name"),
        (to_topic("/a", name=from_url(URL)["metadata"]["name"]), ""),
        (from_url("http://new.example/"), ""),
    ],
    ids=["another URL", "another node", "no URL any more", "another server"],
)
def test_a_rule_gets_no_url_by_its_age(cluster: Cluster, changed: dict[str, Any], field: str) -> None:
    """Of several Rules with one URL the oldest has it: an old one may not be given a younger one's."""
    stored, _ = cluster.apply(from_url(URL))
    wanted = {**stored, "spec": changed["spec"]}
    if not field:
        cluster.update(wanted)
        return
    with pytest.raises(ApiError) as refused:
        cluster.update(wanted)
    assert f"spec.sourceResource.{field}: Invalid value: " in str(refused.value)
    assert "delete the Rule, and create it with another" in str(refused.value)


def test_a_rule_of_paths_gets_no_url(cluster: Cluster) -> None:
    stored, _ = cluster.apply(to_topic("/a"))
    with pytest.raises(ApiError, match=r"target_url: Invalid value"):
        cluster.update({**stored, "spec": from_url(URL)["spec"]})
