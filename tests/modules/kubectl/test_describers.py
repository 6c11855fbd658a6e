"""Descriptions: the recorded texts are kubectl 1.32.4's, and are compared with it where it is.

Three differ from kubectl's on purpose: no token of a service account is shown, events are sorted by when they were last
seen, and a text of several lines stays in its column.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from modules.kubectl.describers.common import Related, events_about, labels_and_annotations, moment
from modules.kubectl.describers.kinds import describe_object, smart_label
from modules.kubectl.describers.pod import probe_text
from modules.kubectl.describers.pod_resources import pod_amounts, qos_class
from modules.kubectl.describers.writer import AlignedWriter
from tests.modules.kubectl import described_objects as objects
from tests.modules.kubectl.fixed_server import real_kubectl

_TEXTS: Final = Path(__file__).parent / "descriptions"
_NOW: Final = datetime(2026, 11, 21, 0, 50, tzinfo=UTC).timestamp()
DESCRIBED: Final = [obj for obj in objects.ALL if obj["kind"] != "Event"]
_OURS: Final = (objects.TOKEN, objects.NAMESPACE)
"""What kubectl describes otherwise, or not with so small a server."""


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def name_of(obj: dict[str, Any]) -> str:
    """The file of an object's description."""
    return f"{obj['kind'].lower()}-{obj['metadata']['name']}"


def described(obj: dict[str, Any], now: float = _NOW) -> str:
    """The description of one of the objects, with what belongs to it."""
    events = events_about(objects.EVENTS, obj)
    return describe_object(obj, Related(events, pods=[objects.POD], lease=objects.LEASE), now)


@pytest.mark.parametrize("obj", DESCRIBED, ids=map(name_of, DESCRIBED))
def test_a_description_is_as_recorded(obj: dict[str, Any]) -> None:
    assert described(obj) == (_TEXTS / f"{name_of(obj)}.txt").read_text()


def test_descriptions_equal_the_real_kubectls() -> None:
    """Its lines: it shows the keys of a Secret in any order. An age may become another one meanwhile."""
    with real_kubectl(objects.ALL) as kubectl:
        for obj in DESCRIBED:
            if obj not in _OURS:
                meta = obj["metadata"]
                place = ("-n", meta.get("namespace", "default"))
                before = time.time()
                printed = kubectl.run("describe", obj["kind"].lower(), meta["name"], *place)
                ours = [sorted(described(obj, now).splitlines()) for now in (before, time.time())]
                assert sorted(printed.splitlines()) in ours


@pytest.mark.parametrize(
    ("kind", "fields", "lines"),
    [
        ("Service", {"spec": {"selector": {"b": "2", "a": "1"}}}, ["Selector: a=1,b=2"]),
        ("Service", {"spec": {"loadBalancerIP": "192.0.2.1", "loadBalancerSourceRanges": ["10.0.0.0/8", "10.1.0.0/16"],
                              "healthCheckNodePort": 30001},
                     "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}, {"hostname": "h"},
                                                             {"ip": "192.0.2.2"}]}}},
         ["Desired LoadBalancer IP: 192.0.2.1", "LoadBalancer Ingress: 192.0.2.1 (VIP), h, 192.0.2.2",
          "HealthCheck NodePort: 30001", "LoadBalancer Source Ranges: 10.0.0.0/8,10.1.0.0/16"]),
        ("Namespace", {"status": {"phase": "Terminating", "conditions": [
            {"type": "NamespaceContentRemaining", "status": "True", "lastTransitionTime": "2026-11-21T00:00:00Z",
             "reason": "SomeResourcesRemain", "message": "pods. has 1 resource instances"}]}},
         ["Status: Terminating", "Conditions:", "Type Status LastTransitionTime Reason Message",
          "---- ------ ------------------ ------ -------",
          "NamespaceContentRemaining True Sat, 21 Nov 2026 00:00:00 +0000 SomeResourcesRemain "
          "pods. has 1 resource instances"]),
        ("PersistentVolumeClaim", {"spec": {"volumeMode": "Block", "dataSource": {
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}}},
         ["VolumeMode: Block", "DataSource:", "APIGroup: snapshot.storage.k8s.io", "Kind: VolumeSnapshot", "Name: s"]),
        ("PersistentVolume", {"spec": {"accessModes": ["ReadOnlyMany", "ReadWriteOnce", "ReadOnlyMany"],
                                       "csi": {"driver": "d", "volumeHandle": "h"}}},
         ["Access Modes: RWO,ROX", "VolumeAttributes: <none>"]),
    ],
)  # fmt: skip
def test_a_description_has_the_lines_of_kubectls(kind: str, fields: dict[str, Any], lines: list[str]) -> None:
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **fields}
    text = describe_object(obj, Related(), _NOW)
    told = [" ".join(line.split()) for line in text.splitlines()]
    assert [line for line in told if line in lines] == lines


def test_a_namespace_shows_the_scopes_of_its_quotas() -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"scopes": ["Terminating", "BestEffort"]}}
    text = describe_object({"apiVersion": "v1", "kind": "Namespace"}, Related(quotas=[quota]), _NOW)
    assert [" ".join(line.split()) for line in text.splitlines()][-6:-4] == [
        "Name: q", "Scopes: BestEffort, Terminating"
    ]  # fmt: skip


def test_no_value_of_a_secret_is_shown() -> None:
    for secret in (objects.SECRET, objects.TOKEN):
        text = described(secret)
        assert "7 bytes" in text
        assert "hunter2" not in text
        assert "aHVudGVyMg" not in text


@pytest.mark.parametrize("kind", sorted({obj["kind"] for obj in objects.ALL}))
@pytest.mark.parametrize(
    "broken", [{}, {"metadata": None, "spec": [], "status": "x"}, {"spec": {"containers": [1, {}]}}]
)
def test_an_object_may_lack_everything(kind: str, broken: dict[str, Any]) -> None:
    api_version = next(obj["apiVersion"] for obj in objects.ALL if obj["kind"] == kind)
    assert describe_object({"apiVersion": api_version, "kind": kind, **broken}, Related(), _NOW)


def test_control_characters_are_harmless() -> None:
    hostile = "x\x1b[2J\tStatus:\tReady"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": hostile, "labels": {hostile: hostile}},
           "spec": {"containers": [{"name": hostile, "image": hostile}]},
           "status": {"message": f"one\n{hostile}"}}  # fmt: skip
    for obj in (pod, {**pod, "kind": "Other"}, {**pod, "kind": "ConfigMap", "data": {hostile: hostile}}):
        text = describe_object(obj, Related([]), _NOW)
        assert "\x1b" not in text
        assert obj["kind"] == "ConfigMap" or "\t" not in text


def test_a_text_of_several_lines_stays_in_its_column() -> None:
    out = AlignedWriter()
    out.field(1, "Message", "one\ntwo")
    out.field(1, "X", 3)
    assert out.text() == "  Message:  one\n            two\n  X:        3\n"


def test_events_are_sorted_by_when_they_were_last_seen() -> None:
    seen = {"e1": "2026-11-20T01:00:00Z", "e2": "2026-11-20T03:00:00Z", "e3": "2026-11-20T02:00:00.000000Z"}
    events = [
        objects.event("e2", "Pod", "web", "Second", lastTimestamp=seen["e2"]),
        objects.event("e3", "Pod", "web", "Series", lastTimestamp=None, series={"lastObservedTime": seen["e3"]}),
        objects.event("e1", "Pod", "web", "First", lastTimestamp=seen["e1"]),
    ]
    text = describe_object(objects.BARE_POD, Related(events), _NOW)
    assert [line.split()[1] for line in text.splitlines()[-3:]] == ["First", "Series", "Second"]


def test_only_events_about_the_object_are_its_events() -> None:
    pod = objects.POD
    other = objects.event("x", "Pod", "web", "Other")
    other["involvedObject"] = {**other["involvedObject"], "uid": "an earlier pod of this name"}
    assert events_about([other, *objects.EVENTS], pod) == objects.EVENTS[:4]


def test_an_invalid_time_is_unknown() -> None:
    assert moment("") == moment("soon") == "<unknown>"


@pytest.mark.parametrize(
    ("field", "label"),
    [("leaseDurationSeconds", "Lease Duration Seconds"), ("protocolURL", "Protocol URL"), ("uid", "UID"),
     ("apiVersion", "API Version"), ("a.b/c", "a.b/c"), ("x", "X"), ("PDFLoader", "PDF Loader")],
)  # fmt: skip
def test_labels_are_made_from_the_names_of_fields(field: str, label: str) -> None:
    assert smart_label(field) == label


def test_a_probe_is_on_one_line() -> None:
    ending = "delay=0s timeout=1s period=10s #success=1 #failure=3"
    assert probe_text({"httpGet": {"path": "x", "port": 80, "host": "::1"}}) == f"http-get http://[::1]:80/x {ending}"
    assert probe_text({"tcpSocket": {"port": 80}, "initialDelaySeconds": 3}).startswith("tcp-socket :80 delay=3s")
    assert probe_text({}) == f"unknown {ending}"


def _container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": cpu, "memory": "1Gi"}}, **more}


def test_the_requests_of_a_pod_are_the_most_that_is_in_use_at_a_time() -> None:
    sidecar = _container("100m", restartPolicy="Always")
    pod = {"spec": {"containers": [_container("200m"), _container("300m")],
                    "initContainers": [sidecar, _container("1")], "overhead": {"cpu": "10m"}}}  # fmt: skip
    assert pod_amounts(pod, "requests")["cpu"] * 1000 == 1110


def test_the_qos_class_is_found_where_the_status_has_none() -> None:
    half = {"resources": {"requests": {"cpu": "1"}}}
    assert qos_class({"spec": {"containers": [{}]}}) == "BestEffort"
    assert qos_class({"spec": {"containers": [_container("1")]}}) == "Guaranteed"
    assert qos_class({"spec": {"containers": [_container("1"), half]}}) == "Burstable"


_LIMITS = {
    "kind": "LimitRange",
    "apiVersion": "v1",
    "metadata": {"name": "x", "namespace": "shop"},
    "spec": {
        "limits": [
            {"type": "Container", "min": {"cpu": "0.1"}, "max": {"memory": "1024Mi"}, "default": {"memory": "512Mi"}},
            {"type": "Pod", "maxLimitRequestRatio": {"memory": "2"}},
        ]
    },
}


def test_a_namespace_with_limits() -> None:
    """As kubectl 1.32 prints it."""
    text = describe_object(objects.NAMESPACE, Related(limits=[_LIMITS]), _NOW)
    assert text.partition("\nNo resource quota.\n\n")[2].splitlines() == [
        "Resource Limits",
        " Type       Resource  Min   Max  Default Request  Default Limit  Max Limit/Request Ratio",
        " ----       --------  ---   ---  ---------------  -------------  -----------------------",
        " Container  cpu       100m  -    -                -              -",
        " Container  memory    -     1Gi  -                512Mi          -",
        " Pod        memory    -     -    -                -              2",
    ]


def test_a_limit_range() -> None:
    """As kubectl 1.32 prints it."""
    assert describe_object(_LIMITS, Related(), _NOW).splitlines() == [
        "Name:       x",
        "Namespace:  shop",
        "Type        Resource  Min   Max  Default Request  Default Limit  Max Limit/Request Ratio",
        "----        --------  ---   ---  ---------------  -------------  -----------------------",
        "Container   cpu       100m  -    -                -              -",
        "Container   memory    -     1Gi  -                512Mi          -",
        "Pod         memory    -     -    -                -              2",
    ]


def test_a_namespace_with_quotas() -> None:
    """As kubectl 1.32 prints it."""
    status = {"hard": {"pods": "5", "count/configmaps": "9"}, "used": {"pods": "3"}}
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}, "status": status}
    text = describe_object(objects.NAMESPACE, Related(quotas=[quota]), _NOW)
    assert text.partition("\nResource Quotas\n")[2].splitlines() == [
        "  Name:             q",
        "  Resource          Used  Hard",
        "  --------          ---   ---",
        "  count/configmaps  0     9",
        "  pods              3     5",
        "",
        "No LimitRange resource.",
    ]


def test_an_annotation_has_a_line_of_its_own_up_to_140_characters() -> None:
    out = AlignedWriter()
    labels_and_annotations(out, {"metadata": {"annotations": {"a": "x" * 137, "b": "y" * 138}}})
    assert [line.split()[-1] for line in out.text().splitlines()] == ["<none>", "x" * 137, "b:", "y" * 138]
