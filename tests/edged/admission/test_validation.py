"""What no node could run is refused once, in the API server's words, with the path of each field."""

from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from edged.admission.admit import NodeInfo
from edged.admission.admitter import PodAdmitter, was_admitted
from edged.admission.validation import field_errors, validate_pod
from edged.pods.manager import PodManager
from modules.apimachinery.types import Pod, PodStatus
from modules.apimachinery.types.codec import from_value
from tests.edged.conftest import Bench, pod

PORT = "must be between 1 and 65535, inclusive"
ID = "must be between 0 and 2147483647, inclusive"
MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def read(**spec: Any) -> Pod:
    """A pod with one container, and these fields."""
    return from_value(Pod, pod(**spec))


def container(**fields: Any) -> dict[str, Any]:
    """The only container of a pod with these fields."""
    return {"containers": [{"name": "main", "image": "busybox", **fields}]}


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (
            container(ports=[{"containerPort": 70000}]),
            f"containers[0].ports[0].containerPort: Invalid value: 70000: {PORT}",
        ),
        (container(ports=[{"containerPort": 0}]), "containers[0].ports[0].containerPort: Required value"),
        (
            container(ports=[{"containerPort": 1, "hostPort": -1}]),
            "containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
        ),
        (
            container(ports=[{"containerPort": 1, "protocol": "ICMP"}]),
            'containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
        ),
        (
            container(ports=[{"containerPort": 1, "hostIP": "1.2.3"}]),
            'containers[0].ports[0].hostIP: Invalid value: "1.2.3": '
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            container(securityContext={"runAsUser": -1}),
            f"containers[0].securityContext.runAsUser: Invalid value: -1: {ID}",
        ),
        (
            container(securityContext={"runAsGroup": 2**31}),
            f"containers[0].securityContext.runAsGroup: Invalid value: 2147483648: {ID}",
        ),
        ({"securityContext": {"fsGroup": 2**32}}, f"securityContext.fsGroup: Invalid value: 4294967296: {ID}"),
        ({"securityContext": {"runAsUser": -5}}, f"securityContext.runAsUser: Invalid value: -5: {ID}"),
        (
            {"securityContext": {"supplementalGroups": [1, -1]}},
            f"securityContext.supplementalGroups[1]: Invalid value: -1: {ID}",
        ),
        (
            container(livenessProbe={"httpGet": {"port": 65536}}),
            f"containers[0].livenessProbe.httpGet.port: Invalid value: 65536: {PORT}",
        ),
        (
            container(readinessProbe={"grpc": {"port": 0}}),
            f"containers[0].readinessProbe.grpc.port: Invalid value: 0: {PORT}",
        ),
        (
            container(startupProbe={"exec": {"command": ["x"]}, "periodSeconds": -1}),
            "containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            container(lifecycle={"preStop": {"sleep": {"seconds": -1}}}),
            "containers[0].lifecycle.preStop.sleep.seconds: Invalid value: -1: "
            "must be greater than or equal to 0",
        ),
        (
            container(resources={"limits": {"memory": "-1Gi"}}),
            'containers[0].resources.limits[memory]: Invalid value: "-1Gi": must be greater than or equal to 0',
        ),
        (
            {"activeDeadlineSeconds": 0},
            "activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            {"restartPolicy": "Sometimes"},
            'restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        ),
        ({"containers": []}, "containers: Required value"),
        ({"initContainers": [{"name": "main", "image": "x"}]}, 'initContainers[0].name: Duplicate value: "main"'),
        (container(name="../x"), 'containers[0].name: Invalid value: "../x": '
         "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
         "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
         "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"),
        (container(name=""), "containers[0].name: Required value"),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "x", "defaultMode": -1}}]},
            f"volumes[0].configMap.defaultMode: Invalid value: -1: {MODE}",
        ),
        (
            {"volumes": [{"name": "v", "secret": {"items": [{"key": "a", "path": "a", "mode": 512}]}}]},
            f"volumes[0].secret.items[0].mode: Invalid value: 512: {MODE}",
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 5}}]}}]},
            "volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: "
            "may not specify a duration less than 10 minutes",
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "-1"}}]},
            "volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
        ),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a\0b"}]),
            'containers[0].volumeMounts[0].subPath: Invalid value: "a\\u0000b": must not contain a zero byte',
        ),
        (
            container(workingDir="/é" * 1366),
            "containers[0].workingDir: Too long: may not be more than 4095 bytes",
        ),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/\0"}}]},
            'volumes[0].hostPath.path: Invalid value: "/\\u0000": must not contain a zero byte',
        ),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/v\0"}]),
            'containers[0].volumeMounts[0].mountPath: Invalid value: "/v\\u0000": must not contain a zero byte',
        ),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": "\0"}]),
            'containers[0].volumeMounts[0].subPathExpr: Invalid value: "\\u0000": must not contain a zero byte',
        ),
        (
            container(terminationMessagePath="/dev/\0"),
            'containers[0].terminationMessagePath: Invalid value: "/dev/\\u0000": must not contain a zero byte',
        ),
        (
            container(resources={"requests": {"cpu": "-1"}}),
            'containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            container(resources={"requests": {"cpu": "many"}}),
            'containers[0].resources.requests[cpu]: Invalid value: "many": '
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"overhead": {"cpu": "-1"}},
            'overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"priority": -(2**31) - 1},
            "priority: Invalid value: -2147483649: must be between -2147483648 and 2147483647, inclusive",
        ),
        (
            {"priority": 2**31},
            "priority: Invalid value: 2147483648: must be between -2147483648 and 2147483647, inclusive",
        ),
        ({"volumes": [{"name": "v", "emptyDir": {}}] * 2}, 'volumes[1].name: Duplicate value: "v"'),
        (
            container(securityContext={"procMount": "Unmasked"}),
            'containers[0].securityContext.procMount: Invalid value: "Unmasked": '
            "`hostUsers` must be false to use `Unmasked`",
        ),
        (
            container(securityContext={"procMount": "Half"}),
            'containers[0].securityContext.procMount: Unsupported value: "Half": '
            'supported values: "Default", "Unmasked"',
        ),
    ],
)  # fmt: skip
def test_each_field_is_named_by_its_path(spec: dict[str, Any], fault: str) -> None:
    """With the value and the rule."""
    assert list(map(str, field_errors(read(**spec)))) == [f"spec.{fault}"]


def test_quantities_of_an_api_server_are_taken() -> None:
    """Such as the bounds of ranges, and missing optional fields."""
    good = container(
        ports=[{"containerPort": 65535, "hostPort": 1, "hostIP": "::1", "protocol": "SCTP"}, {"containerPort": 1}],
        securityContext={"runAsUser": 0, "runAsGroup": 2**31 - 1},
        livenessProbe={"tcpSocket": {"port": "web"}, "terminationGracePeriodSeconds": 1},
        lifecycle={"postStart": {"httpGet": {"port": "80"}}},
    )
    assert field_errors(read(**good, securityContext={"fsGroup": 0}, activeDeadlineSeconds=1)) == []
    assert all(field_errors(read(priority=priority)) == [] for priority in (-(2**31), 0, 2**31 - 1))
    paths = container(
        workingDir="/" + "x" * 4094,
        terminationMessagePath="/" + "x" * 4094,
        resources={"requests": {"cpu": "0"}, "limits": {"cpu": "500m"}},
    )
    assert field_errors(read(**paths)) == []
    assert validate_pod(read()) is None


def test_a_pod_has_so_many_containers_and_volumes_at_most() -> None:
    """Eight hundred took four seconds, twenty thousand an hour. What else is wrong with them is not listed."""
    many = [{"name": f"c{number}", "image": "busybox"} for number in range(200)]
    assert (
        field_errors(read(containers=many, initContainers=[{**one, "name": f"i-{one['name']}"} for one in many[:56]]))
        == []
    )
    bad = [{"name": "", "image": ""}] * 57
    told = field_errors(read(containers=many, initContainers=bad))
    assert list(map(str, told)) == ["spec.containers: Too many: 257: must have at most 256 items"]
    told = field_errors(read(volumes=[{"name": "v", "emptyDir": {}}] * 513))
    assert list(map(str, told)) == ["spec.volumes: Too many: 513: must have at most 512 items"]


def test_the_message_is_bounded_however_much_is_wrong() -> None:
    """It names the first faults and counts the others."""
    options = validate_pod(read(**container(ports=[{"containerPort": -1, "protocol": "x" * 10_000}] * 5000)))
    assert options is not None
    assert len(options.message) < 5000
    assert options.message.endswith("and 9980 more")


@pytest.mark.parametrize(
    ("wrong", "end"), [(19, "inclusive"), (20, "inclusive"), (21, "and 1 more"), (22, "and 2 more")]
)
def test_the_message_counts_only_what_it_leaves_out(wrong: int, end: str) -> None:
    options = validate_pod(read(**container(ports=[{"containerPort": -1}] * wrong)))
    assert options is not None
    assert options.message.endswith(end)
    assert options.message.count("containerPort") == min(wrong, 20)


def admitter() -> PodAdmitter:
    """An admitter of a node without any pods."""
    return PodAdmitter(Mock(), PodManager(), Mock(), Mock())


@pytest.mark.parametrize(
    ("status", "meta", "is_new", "rejected"),
    [
        ({}, {}, True, True),
        ({"startTime": "2026-11-20T01:54:50Z"}, {}, True, False),
        ({}, {}, False, False),
        ({"phase": "Failed"}, {}, True, None),
        ({}, {"deletionTimestamp": "2026-11-20T01:54:50Z"}, True, None),
        ({}, {"deletionTimestamp": "2026-11-20T01:54:50Z"}, False, None),
    ],
)
def test_an_invalid_pod_is_rejected_ended_or_left_to_its_end(
    status: dict[str, str], meta: dict[str, str], is_new: bool, rejected: bool | None
) -> None:
    """A new one never starts; one that has started is ended, with its containers in the status; one that has ended, or
    that the cloud ends, gets no other reason.
    """
    made = read(metadata=meta, **container(ports=[{"containerPort": -1}]))
    record = PodManager().put(replace(made, status=from_value(PodStatus, status)))
    decider = admitter()
    node_info = decider.node_info_for(record.pod)
    options = decider.rejection(record, node_info) if is_new else decider.fault(record.pod)
    assert (options.rejected if options is not None else None) is rejected


def test_a_pod_that_is_refused_takes_no_room() -> None:
    """Neither one whose spec changes after it has left."""
    pods = PodManager()
    decider = PodAdmitter(Mock(), pods, Mock(), Mock())
    record = pods.put(read(**container(resources={"requests": {"cpu": "1"}})))
    assert decider.rejection(record, NodeInfo("n1", {"cpu": Fraction(0)})) is not None
    assert decider.fault(record.pod) is None
    assert record.ref.uid not in pods.taken_room


def test_a_pod_that_has_ended_without_a_start_needs_no_admission() -> None:
    assert was_admitted(replace(read(), status=from_value(PodStatus, {"phase": "Failed"})))
    assert not was_admitted(read())


def test_a_machine_that_was_not_looked_at_has_apparmor() -> None:
    """Until it is known to have none."""
    node = Mock()
    node.state.report = None
    info = PodAdmitter(Mock(), PodManager(), node, Mock()).node_info_for(read())
    assert info is not None
    assert info.has_apparmor is True


@pytest.mark.parametrize(
    "spec",
    [
        {"securityContext": {"fsGroup": -1}},
        {"securityContext": {"supplementalGroups": [2**63 - 1]}},
        container(ports=[{"containerPort": 2**40}]),
        container(securityContext={"runAsUser": 2**63 - 1}),
        container(ports=[{"containerPort": 1, "hostPort": 2**31}]),
    ],
)
def test_a_pod_that_is_invalid_is_refused_once(
    bench: Bench, spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It is Failed with the reason, nothing of it is made, and nobody tries again: it used to be a traceback a turn."""
    bench.start(pod("bad", **spec), pod("web"), wait=600)
    status = bench.meta.statuses("bad")[-1]
    assert (status["phase"], status["reason"]) == ("Failed", "FailedValidation")
    assert "spec." in status["message"]
    assert [c.metadata.name for c in bench.runtime.containers.values()] == ["main"]
    assert len([e for e in bench.meta.events.values() if e["reason"] == "FailedValidation"]) == 1
    assert not [record for record in caplog.records if record.exc_info]


def test_a_running_pod_that_becomes_invalid_is_ended(bench: Bench) -> None:
    """Its containers are stopped, and the status says why; an update that only repeats it changes nothing."""
    bench.start(pod())
    changed = pod(activeDeadlineSeconds=-1, metadata={"resourceVersion": "2"})
    for _ in range(3):
        bench.tell("update", changed)
    bench.run(60)
    [served] = bench.snapshots.pods
    assert (served.status.phase, served.status.reason) == ("Failed", "FailedValidation")
    assert served.status.container_statuses[0].state.terminated is not None
    assert len([e for e in bench.meta.events.values() if e["reason"] == "FailedValidation"]) == 1
