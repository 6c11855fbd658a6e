"""`/metrics/probes`: the outcomes of probes, under a kubelet's name and labels."""

from collections.abc import Iterator, Mapping
from typing import Final

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response
from edged.pods.model import PodUid
from edged.probes.model import ProbeCounts, ProbeOutcome
from edged.server.samples import TEXT, Sample, prometheus_text
from edged.server.snapshots import Snapshots

_TOTAL: Final = "prober_probe_total"
_NAMES: Final = {
    _TOTAL: (
        "counter",
        "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.",
    ),
}
_RESULTS: Final = {
    ProbeOutcome.SUCCESS: "successful",
    ProbeOutcome.FAILURE: "failed",
    ProbeOutcome.UNKNOWN: "unknown",
}


class ProbeMetrics:
    """Handler of the path.

    Args:
        snapshots: pods, and the counts of their probes.
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def __call__(self, _request: Request) -> Response:
        """Answer Prometheus. Raise HttpStatusError where edged does not run."""
        reports = self._snapshots.reports
        if reports is None:
            raise HttpStatusError(503, "there are no statistics", hint="edged does not run here")
        return Response(200, TEXT, prometheus_text(_NAMES, self._samples(reports.probes())).encode())

    def _samples(self, counts: Mapping[PodUid, ProbeCounts]) -> Iterator[Sample]:
        for pod in self._snapshots.pods:
            for (container, kind, outcome), count in counts.get(PodUid(pod.metadata.uid), {}).items():
                labels = {
                    "container": container,
                    "namespace": pod.metadata.namespace,
                    "pod": pod.metadata.name,
                    "pod_uid": pod.metadata.uid,
                    "probe_type": kind.value.capitalize(),
                    "result": _RESULTS[outcome],
                }
                yield _TOTAL, labels, count, ""
