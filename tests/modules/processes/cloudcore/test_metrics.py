"""cloudcore's metrics: what they mean, and that docs/metrics.toml has each of them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from beehive.hive import Hive
from beehive.message import Message
from beehive.runtime import Threads
from modules.cloud.client.lane_calls import RequestLane
from modules.cloud.cloudhub.node_session import NodeSession
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.devices import DEVICE_STATUS
from modules.cloud.durations import Durations
from modules.cloud.fleet_counts import FleetCounts
from modules.cloud.refusals import Refusals
from modules.lab.site.metrics import metric_advice
from modules.processes.cloudcore.counters import Counters
from modules.processes.cloudcore.metrics import exposition
from tests.modules.processes.cloudcore.stubs import Stub

_HELP: Final = re.compile(r"^# HELP (\S+) ", re.MULTILINE)
_SAMPLE: Final = re.compile(r"^([a-z_]+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z]+)="')


@pytest.fixture
def hive() -> Iterator[Hive]:
    runtime = Threads()
    yield Hive(runtime)
    runtime.close()


def made(hive: Hive) -> Counters:
    """Counters, each with a count."""
    counters = Counters(Refusals(hive.clock), KnownCloudcores("a"))
    counters.refusals.record("n1", "not its own", "Pod", "text")
    session = NodeSession(5.0, window=1, resent=counters.cloudhub.count_resent)
    for uid in ("u1", "u2"):
        content = {"metadata": {"uid": uid}}
        message = Message.new(
            hive.clock,
            source="edgecontroller",
            resource=f"node/n1/default/pod/{uid}",
            operation="insert",
            content=content,
        )
        session.offer(message.with_header(resourceversion="1"))
    now = hive.clock.monotonic()
    session.due(now - 100.0)
    list(session.overdue(now - 90.0))
    counters.cloudhub.sessions["n1"] = session
    counters.cloudhub.dropped["no node"] += 1
    counters.cloudhub.rejected_frames["no JSON"] += 1
    counters.cloudhub.refused_connections["TLS"] += 1
    counters.cloudhub.count_certificate_response(401)
    counters.api.ended(RequestLane.NODE, 429, 0.003)
    counters.api.ended(RequestLane.POD_STATUS, 0, 30.0)
    counters.api.waits[RequestLane.POD_STATUS].observe(0.4)
    counters.api.node_requests["podpatch"] = Durations()
    counters.api.node_requests["podpatch"].observe(30.5)
    counters.api.depths[RequestLane.QUERY].waiting, counters.api.depths[RequestLane.QUERY].in_flight = 7, 2
    watch = counters.api.watch("Pod")
    watch.heard_at, watch.lists, watch.failures = now - 50.0, 2, 3
    meter = counters.meter("edgecontroller", hive.clock)
    meter.waiting()
    meter.begun()
    meter.ended()
    meter.failures += 1
    counters.node_states.writes, counters.node_states.failures = 4, 1
    counters.node_states.left_out.update(n1=5, n2=6)
    counters.work.ended("Deployment", 0.0)
    counters.work.retries["Deployment"] += 1
    counters.work.depths = {"Deployment": 3}
    counters.reconcilers["scheduler"] += 2
    counters.fleet = FleetCounts(hive.clock, DEVICE_STATUS)
    return counters


def samples(text: str) -> dict[str, float]:
    """The samples by name and labels."""
    return {f"{name}{{{labels}}}" if labels else name: float(number) for name, labels, number in _SAMPLE.findall(text)}


def test_every_metric_is_documented_and_every_documented_one_is_exported(hive: Hive) -> None:
    documented = metric_advice("cloudcore")
    exported = _HELP.findall(exposition(hive, made(hive)))
    assert sorted(documented) == sorted(exported)


def test_labels_are_documented(hive: Hive) -> None:
    documented = {name: set(each.labels) for name, each in metric_advice("cloudcore").items()}
    for name, labels, _ in _SAMPLE.findall(exposition(hive, made(hive))):
        family = name if name in documented else re.sub("_(bucket|count|sum)$", "", name)
        assert set(_LABEL.findall(labels)) - {"le"} == documented[family], name


def test_no_label_names_a_node_and_names_end_by_the_conventions(hive: Hive) -> None:
    text = exposition(hive, made(hive))
    assert '"n1"' not in text
    kinds = dict(re.findall(r"^# TYPE (cloudcore_\S+) (\S+)$", text, re.MULTILINE))
    assert {name for name, kind in kinds.items() if kind == "counter"} == {name for name in kinds if "_total" in name}
    assert {name for name, kind in kinds.items() if kind == "histogram"} <= {n for n in kinds if n.endswith("_seconds")}


def test_the_counters_are_shown(hive: Hive) -> None:
    found = samples(exposition(hive, made(hive)))
    assert found["cloudcore_connected_nodes"] == 1
    assert found["cloudcore_waiting_messages"] == 1
    assert found["cloudcore_unacknowledged_messages"] == 1
    assert found["cloudcore_oldest_unacknowledged_seconds"] >= 100
    assert found["cloudcore_resent_messages_total"] == 1
    assert found['cloudcore_refused_connections_total{reason="TLS"}'] == 1
    assert found['cloudcore_certificate_responses_total{code="401"}'] == 1
    assert found['cloudcore_api_requests_total{code="429",lane="node"}'] == 1
    assert found['cloudcore_api_requests_total{code="none",lane="pod_status"}'] == 1
    assert found['cloudcore_api_request_duration_seconds_bucket{lane="node",le="0.005"}'] == 1
    assert found['cloudcore_api_request_duration_seconds_bucket{lane="pod_status",le="10.0"}'] == 0
    assert found['cloudcore_api_request_duration_seconds_count{lane="pod_status"}'] == 1
    assert found['cloudcore_api_request_duration_seconds_sum{lane="pod_status"}'] == 30
    assert found['cloudcore_api_request_wait_seconds_sum{lane="pod_status"}'] == 0.4
    assert found['cloudcore_node_request_duration_seconds_sum{type="podpatch"}'] == 30.5
    assert found['cloudcore_api_waiting_requests{lane="query"}'] == 7
    assert found['cloudcore_api_requests_in_flight{lane="query"}'] == 2
    assert found['cloudcore_watch_age_seconds{kind="Pod"}'] >= 50
    assert found['cloudcore_lists_total{kind="Pod"}'] == 2
    assert found['cloudcore_watch_failures_total{kind="Pod"}'] == 3
    assert found['cloudcore_database_transaction_seconds_count{module="edgecontroller"}'] == 1
    assert found['cloudcore_database_failures_total{module="edgecontroller"}'] == 1
    assert found["cloudcore_node_state_write_failures_total"] == 1
    assert found["cloudcore_node_state_left_out_objects"] == 11
    assert found['workqueue_depth{name="deployment"}'] == 3
    assert found['workqueue_retries_total{name="deployment"}'] == 1
    assert found['workqueue_work_duration_seconds_count{name="deployment"}'] == 1
    assert found['cloudcore_reconciler_failures_total{name="scheduler"}'] == 2


def test_a_kind_without_news_has_no_age(hive: Hive) -> None:
    counters = Counters(Refusals(hive.clock), KnownCloudcores())
    counters.api.watch("Pod")
    assert "cloudcore_watch_age_seconds{" not in exposition(hive, counters)


def test_a_running_cloudcore_counts(tmp_path: Path) -> None:
    with Stub(tmp_path, metrics_address="127.0.0.1") as stub, stub.edge() as edge:
        edge.ask("default/node/n1", "insert", {"metadata": {"name": "n1"}, "status": {}})
        status, body = stub.client.request("GET", "/metrics")
    found = samples(body.decode())
    assert status == 200
    assert found["cloudcore_connected_nodes"] == 1
    assert found['cloudcore_lists_total{kind="Node"}'] == 1
    assert found['cloudcore_api_requests_total{code="201",lane="node"}'] == 1
    assert found['cloudcore_api_request_wait_seconds_count{lane="node"}'] == 2, "a read and the creation"
    assert found['cloudcore_node_request_duration_seconds_count{type="node"}'] == 1
    assert found['cloudcore_database_transaction_seconds_count{module="apiserver"}'] > 0
    assert found['cloudcore_database_transaction_seconds_count{module="edgecontroller"}'] > 0
