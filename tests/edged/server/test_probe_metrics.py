"""`/metrics/probes`: how often probes passed and failed, as a kubelet shows it."""

import pytest

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from edged.pods.model import PodUid, WorkFigures
from edged.probes.model import ProbeKind, ProbeOutcome
from edged.server.probe_metrics import ProbeMetrics
from edged.server.snapshots import EdgedReports, Snapshots
from modules.apimachinery.types import ObjectMeta, Pod
from tests.edged.conftest import Bench, pod

REQUEST = Request(method="GET", target="/metrics/probes", parts=("metrics", "probes"))


def test_outcomes_have_a_kubelets_labels() -> None:
    """Outcomes of removed pods are left out."""
    snapshots = Snapshots()
    snapshots.pods = tuple(
        Pod(metadata=ObjectMeta(name=name, namespace="default", uid=PodUid(uid)))
        for name, uid in (("unprobed", "v"), ("web", "u"))
    )
    counts = {
        ("main", ProbeKind.LIVENESS, ProbeOutcome.SUCCESS): 3,
        ("main", ProbeKind.READINESS, ProbeOutcome.FAILURE): 1,
    }
    all_counts = {PodUid("u"): counts, PodUid("gone"): counts}
    snapshots.reports = EdgedReports(
        lambda: WorkFigures(0, 0, {}, frozenset()), lambda _namespace, _name: None, lambda: all_counts
    )
    lines = ProbeMetrics(snapshots)(REQUEST).body.decode().splitlines()
    labels = 'container="main",namespace="default",pod="web",pod_uid="u"'
    assert lines[1:] == [
        "# TYPE prober_probe_total counter",
        f'prober_probe_total{{{labels},probe_type="Liveness",result="successful"}} 3',
        f'prober_probe_total{{{labels},probe_type="Readiness",result="failed"}} 1',
    ]


def test_without_edged_there_are_no_pods() -> None:
    with pytest.raises(HttpStatusError, match="no statistics"):
        ProbeMetrics(Snapshots())(REQUEST)


def test_probes_are_counted_until_the_pod_is_removed(bench: Bench) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    [main] = pod()["spec"]["containers"]
    probed = pod(containers=[{**main, "livenessProbe": probe}])
    bench.start(probed, wait=10)
    assert bench.snapshots.reports is not None
    [counts] = bench.snapshots.reports.probes().values()
    [((container, kind, _), count)] = counts.items()
    assert (container, kind) == ("main", ProbeKind.LIVENESS)
    assert count >= 5
    bench.tell("delete", probed, wait=60)
    assert bench.snapshots.reports.probes() == {}
