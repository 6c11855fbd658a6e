"""A status that an edge of 2019 reports while others write the pod."""

from typing import Any

import pytest

from beehive import Message
from beehive.testing import Harness
from modules.apimachinery.api_errors import RefusedError
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import MERGE, ApiCall
from modules.cloud.edgecontroller.upstream.pods import report_status
from modules.cloud.edgecontroller.upstream.requests import UpstreamRequest
from tests.modules.cloud.edgecontroller.controller import WEB
from tests.modules.cloud.objects import pod


def _call(verb: str, **fields: Any) -> ApiCall:
    return ApiCall(verb=verb, api_version="v1", plural="pods", namespace="default", name="web", **fields)


def _report(cluster: Cluster, message: Message, others: int) -> list[Any]:
    """Report that the containers have ended, and let others write the pod before so many of the attempts."""
    steps, left = report_status(UpstreamRequest("n1", "default", "web", message)), others
    answer: Any = None
    try:
        call = next(steps)
        while True:
            if call.subresource == "status" and left:
                left -= 1
                label = {"metadata": {"labels": {"written": str(left)}}}
                assert api_calls.serve(cluster, _call("patch", patch_type=MERGE, body=label)).refusal is None
            result = api_calls.serve(cluster, call)
            if result.refusal is not None:
                call = steps.throw(RefusedError(result.refusal))
            else:
                answer = result.object
                call = steps.send(answer)
    except StopIteration as end:
        return list(end.value)


@pytest.mark.parametrize(("others", "ends"), [(0, True), (1, True), (4, True), (5, False)])
def test_a_deletion_ends_although_others_write_the_pod(others: int, *, ends: bool) -> None:
    """The edge reports the end once, so the pod would stay for ever; an endless writer ends it."""
    with Harness() as bee:
        cluster = Cluster(bee.clock)
        cluster.apply(pod())
        assert api_calls.serve(cluster, _call("delete")).refusal is None
        status = {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}}],
        }
        report = {"Name": "web", "UID": "", "Status": status}
        message = bee.message("node/n1/default/podstatus/web", "update", report, source="edged")
        results = _report(cluster, message, others)
        assert (cluster.storage.find(WEB) is None) is ends
        assert (results == []) is ends
