"""The hostile pod: any pod that a cloud can send, with values, sizes and depths that no API server would let through.

A node in virtual time runs it beside a good pod. No unexpected error occurs, the work that it causes is bounded, the
other pod runs, and after its deletion nothing of it is left.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from edged.pods import labels
from modules.lab.doubles.probes import ServerKey
from modules.runtimes.engine.errors import RequestRefusedError
from modules.runtimes.engine.records import ContainerId, ContainerRecord
from modules.runtimes.process.container_plan import check_request, plan_container
from modules.runtimes.process.driver import HostFiles
from modules.runtimes.process.model import ProcessContainer, stop_signal
from modules.runtimes.process.shim_spawner import MountAbility
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import Bench, OpenEdged, pod
from tests.fuzz.target import Target, ViolationError, must
from tests.support.directories import memory_parent, short_directory

_UID: Final = "uid-hostile"
_MOST_CALLS: Final = 20_000
"""Upper limit of CRI calls in seven minutes of a hostile pod and a good one, with a relist each second."""
_HEARD: Final = ("edged", "beehive")
"""Loggers whose errors count."""

_EXEC: Final = {"exec": {"command": ["sh", "-c", "$(A)"]}, "periodSeconds": 3, "timeoutSeconds": 2}
_HEADERS: Final = [{"name": "A", "value": "b"}]
_GET: Final = {"httpGet": {"port": "web", "path": "/x", "host": "h", "scheme": "HTTP", "httpHeaders": _HEADERS}}
_MAIN: Final[dict[str, Any]] = {
    "name": "main",
    "image": "busybox:1.36",
    "command": ["sleep", "$(A)"],
    "args": ["$(B)", "$$(C)"],
    "workingDir": "/w",
    "ports": [{"name": "web", "containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "127.0.0.1"}],
    "env": [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$(A)"},
        {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}}},
        {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ],
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings", "optional": True}}],
    "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
    "volumeMounts": [
        {"name": "e", "mountPath": "/e", "subPathExpr": "$(A)/x", "mountPropagation": "None"},
        {"name": "c", "mountPath": "/c", "readOnly": True},
        {"name": "p", "mountPath": "/p"},
    ],
    "securityContext": {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "procMount": "Default",
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"},
        "appArmorProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"level": "s0"},
    },
    "livenessProbe": {**_EXEC, "terminationGracePeriodSeconds": 5, "failureThreshold": 2},
    "readinessProbe": {**_GET, "initialDelaySeconds": 1, "successThreshold": 1},
    "startupProbe": {"tcpSocket": {"port": 80, "host": ""}, "periodSeconds": 1},
    "lifecycle": {
        "postStart": {"httpGet": {"port": 80, "path": "/"}},
        "preStop": {"sleep": {"seconds": 3}},
        "stopSignal": "SIGTERM",
    },
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "tty": False,
}
_SIDE: Final[dict[str, Any]] = {
    "name": "side",
    "image": "busybox:1.36",
    "restartPolicy": "Always",
    "startupProbe": {"grpc": {"port": 50, "service": "s"}, "periodSeconds": 1},
    "lifecycle": {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"exec": {"command": ["true"]}}},
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}],
}
_PLAIN: Final[dict[str, Any]] = {"name": "plain", "image": "busybox:1.36", "command": ["sleep", "inf"]}
_SPEC: Final[dict[str, Any]] = {
    "nodeName": "n1",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 5,
    "activeDeadlineSeconds": 3600,
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {"nameservers": ["10.0.0.1"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "5"}]},
    "hostNetwork": False,
    "hostPID": False,
    "shareProcessNamespace": False,
    "hostname": "h",
    "subdomain": "s",
    "setHostnameAsFQDN": False,
    "hostAliases": [{"ip": "10.0.0.3", "hostnames": ["x", "y"]}],
    "priority": 5,
    "overhead": {"cpu": "1m"},
    "resources": {"limits": {"cpu": "1"}},
    "nodeSelector": {},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "securityContext": {
        "runAsUser": 1000,
        "fsGroup": 1000,
        "supplementalGroups": [4, 5],
        "fsGroupChangePolicy": "OnRootMismatch",
        "supplementalGroupsPolicy": "Merge",
        "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "imagePullSecrets": [{"name": "s"}],
    "readinessGates": [{"conditionType": "a/b"}],
    "initContainers": [{"name": "init", "image": "busybox:1.36", "command": ["exit", "0"]}, _SIDE],
    "containers": [_MAIN, _PLAIN],
    "ephemeralContainers": [{"name": "debug", "image": "busybox:1.36", "targetContainerName": "main"}],
    "volumes": [
        {"name": "e", "emptyDir": {"medium": "", "sizeLimit": "1Gi"}},
        {"name": "c", "configMap": {
            "name": "settings", "defaultMode": 420, "items": [{"key": "a", "path": "b/c", "mode": 256}],
        }},
        {"name": "s", "secret": {"secretName": "s", "optional": True, "defaultMode": 256}},
        {"name": "d", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "h", "hostPath": {"path": "/tmp", "type": "Directory"}},
        {"name": "p", "projected": {"defaultMode": 292, "sources": [
            {"configMap": {"name": "settings", "optional": True}},
            {"downwardAPI": {"items": [{"path": "n", "mode": 256, "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}},
    ],
}  # fmt: skip
_METADATA: Final[dict[str, Any]] = {
    "labels": {"app": "x"},
    "annotations": {"x": "y"},
    "creationTimestamp": "2026-11-20T01:54:50Z",
    "ownerReferences": [],
    "deletionGracePeriodSeconds": None,
}
_SMALL: Final[dict[str, Any]] = {"containers": [_PLAIN], "restartPolicy": "Never"}
_INTEGERS: Final = (
    0, -1, 1, 17, 255, 512, 65535, 65536, 70000, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53, 2**63 - 1, -(2**63),
)  # fmt: skip
_TEXTS: Final = (
    "", " ", ".", "..", "../../etc", "/", "a/b", "a\0b", "é", "x" * 300, "x" * 5000, "$(" * 3000, "$(A)" * 500, "-1",
    "1e100", "-5Gi", "100Ei", "0x10", "NaN", "1.5", "Always", "Never", "OnFailure", "Default", "None", "None\n", "UDP",
    "Localhost", "Memory", "File", "SIGKILL", "SIGRTMIN+99", "*", "::1", "256.1.1.1", "9" * 4400,
    "2026-13-40T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "metadata.labels['", "limits.", "%s%n",
    "{}", "a\r\nb", "A" * 70, "Bidirectional", "DirectoryOr", "0777", "docker.io/" + "a/" * 300, "busybox@sha256:0",
    "/a" * 2040, "/" + "x" * 300, "a/" * 9000,
)  # fmt: skip


def _pods() -> Sequence[bytes]:
    """Return the good pods."""
    specs = (_SPEC, _SPEC, {**_SPEC, "containers": [_MAIN]}, _SMALL, {**_SMALL, "hostNetwork": True})
    return [json.dumps({"metadata": _METADATA, "spec": spec}).encode() for spec in specs]


def spoil(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the pods with one to four values that are extreme, missing, of another kind, or repeated."""
    value = json.loads(random.choice(seeds))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        value = _spoilt(random, value)
    return json.dumps(value).encode()


def _spoilt(random: Random, value: Any) -> Any:
    """Return a value with one part replaced: three times in four a part without parts."""
    leaf = random.random() < 0.75
    places = [
        path for path, part in _places(value) if path and leaf is not (isinstance(part, dict | list) and bool(part))
    ]
    return _with(random, value, random.choice(places)) if places else value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Return every part of a value with its path."""
    yield path, value
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(part, (*path, key))


def _with(random: Random, value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value with another value at a path, or without it."""
    if not path:
        return _extreme(random, value)
    if isinstance(value, dict):
        if len(path) == 1 and random.random() < 0.05:
            return {key: part for key, part in value.items() if key != path[0]}
        return {**value, path[0]: _with(random, value[path[0]], path[1:])}
    return [*value[: path[0]], _with(random, value[path[0]], path[1:]), *value[path[0] + 1 :]]


def _extreme(random: Random, value: Any) -> Any:
    if random.random() < 0.03:
        return random.choice((None, True, 1.5, [], {}, "x", 7, [[]], {"": ""}))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice(_INTEGERS)
    if isinstance(value, str):
        return random.choice(_TEXTS)
    if isinstance(value, list):
        return value * random.choice((0, 2, 3, 60))
    if isinstance(value, dict):
        return {**value, random.choice(_TEXTS): next(iter(value.values()), "")}
    return random.choice((None, [], {}, 1))


class _Answers(dict[ServerKey, int]):
    """HTTP probes that always succeed."""

    def get(self, _key: ServerKey, _default: object = None) -> int:
        """Return status 200."""
        return 200


class _Failures(logging.Handler):
    """Collects logged errors: no pod may cause one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(record)


@contextmanager
def _watched() -> Iterator[_Failures]:
    """Collect the loggers' errors even while logging is disabled; print nothing."""
    failures, disabled = _Failures(), logging.root.manager.disable
    loggers = [logging.getLogger(name) for name in _HEARD]
    before = [(logger.propagate, logger.level) for logger in loggers]
    logging.disable(logging.NOTSET)
    for logger in loggers:
        logger.propagate, logger.level = False, logging.ERROR
        logger.addHandler(failures)
        logger.manager._clear_cache()  # type: ignore[attr-defined]
    try:
        yield failures
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(failures)
            logger.propagate = propagate
            logger.setLevel(level)
        logging.disable(disabled)


def _check(data: bytes, _: Random) -> None:
    try:
        asked = json.loads(data)
        metadata, spec = asked["metadata"], asked["spec"]
        hostile = pod("hostile", metadata=metadata if isinstance(metadata, dict) else {})
        hostile["spec"] = spec
    except (ValueError, KeyError, TypeError):
        return
    hostile["metadata"] |= {"name": "hostile", "namespace": "default", "uid": _UID}
    with short_directory("fuzz-", memory_parent()) as directory, _watched() as failures:
        _live(Bench(directory), hostile, grown=len(data) % 3 == 0)
        for record in failures.found:
            raise ViolationError(_place(record)) from record.exc_info[1] if record.exc_info else None


def _place(record: logging.LogRecord) -> str:
    """Return kind and location of an exception."""
    error = record.exc_info[1] if record.exc_info else None
    trace = error.__traceback__ if error is not None else None
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{Path(code.co_filename).name}:{code.co_name}"
        trace = trace.tb_next
    return f"{type(error).__name__} in {place}: {str(error)[:150]}"


def _live(bench: Bench, hostile: dict[str, Any], *, grown: bool) -> None:
    """Run the pod until its deletion. With `grown` it is an update of a good pod."""
    try:
        settings = {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "b"}}
        bench.meta.objects["default/configmap/settings"] = settings
        bench.network.statuses = _Answers()
        bench.start()
        bench.tell("insert", pod("good"))
        if grown:
            bench.tell("insert", {**hostile, "spec": json.loads(json.dumps(_SMALL))})
            bench.run(5)
        bench.tell("update" if grown else "insert", hostile)
        bench.run(60)
        must(_good_runs(bench), "the other pod runs")
        for config in bench.runtime.configs.values():
            _plan(config)
        going = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 1}
        bench.tell("update", {**hostile, "metadata": {**hostile["metadata"], **going}})
        bench.run(60)
        bench.tell("delete", hostile)
        bench.run(300)
        must(_good_runs(bench), "the other pod runs on")
        must(not _left(bench), "nothing of a deleted pod is left")
        must(bench.runtime.calls.total() < _MOST_CALLS, "the work that a pod makes is bounded")
    finally:
        bench.stop()
        OpenEdged.started.clear()


def _plan(config: cri.ContainerConfig) -> None:
    """Plan the pod's mounts as the process runtime does."""
    with suppress(RequestRefusedError):
        check_request(cri.CreateContainerRequest(config=config))
        stop_signal(config)
        request = cri.CreateContainerRequest(config=config, sandbox_config=cri.PodSandboxConfig(hostname="h"))
        container = ProcessContainer(ContainerId("c"), Path("/nowhere"), request, ContainerRecord(created_at=0))
        plan_container(container, MountAbility("mount", ""), HostFiles())


def _good_runs(bench: Bench) -> bool:
    return any(
        c.labels[labels.POD_NAME] == "good" and c.state == cri.CONTAINER_RUNNING
        for c in bench.runtime.containers.values()
    )


def _left(bench: Bench) -> bool:
    runtime = bench.runtime
    owners = {made.labels[labels.POD_UID] for made in runtime.sandboxes.values()}
    owners |= {made.labels[labels.POD_UID] for made in runtime.containers.values()}
    files = [*(bench.settings.root / "pods").glob(_UID), *bench.settings.pod_logs.glob(f"*_{_UID}")]
    return bool(files) or _UID in owners


TARGETS: Final = (Target("hostile pod", _pods, _check, 0.02, make=spoil),)
