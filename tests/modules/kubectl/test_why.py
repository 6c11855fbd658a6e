"""`why`: what the server says of a pod, in one sentence."""

import json
import re
from typing import Any

import pytest

from modules.apimachinery.printing.fields import JsonObject
from modules.cli.errors import StatusError
from modules.kubectl.session import Session
from modules.kubectl.why import run
from tests.end_to_end.processes import wait_until
from tests.modules.kubectl.cloud import Cloud, node, pod


def test_why_names_missing_references_until_they_are_there(cloud: Cloud) -> None:
    """And what is wrong with the question."""
    waits = pod("waits")
    waits["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    cloud.make(node(), waits)
    asked = cloud.run("why", "pod", "waits")
    assert asked.lines[0] == (
        "default/waits does not run: container main needs the ConfigMap settings, which does not exist."
    )
    assert asked.lines[-1] == "To do: cloudcore -n default create configmap settings --from-literal=KEY=VALUE"
    assert cloud.run("-n", "default", "create", "configmap", "settings", "--from-literal=KEY=VALUE").status == 0
    later = cloud.run("why", "pod/default/waits", "-o", "json").object
    assert (later["state"], later["remedy"]) == ("waits", ["cloudcore describe node n1"])
    said = "node n1 has never been connected, and has not taken the pod"
    assert later["sentence"] == f"default/waits does not run yet: {said}"
    assert cloud.run("why", "po", "none").err == 'Error from server (NotFound): pods "none" not found\n'
    for word in ("pod", "deploy", "nodes"):
        assert "name one pod, or workload: `cloudcore why pod NAME`" in cloud.run("why", word).err
    texts = [cloud.run("why", *words).out for words in (["waits"], ["pod", "waits"])]
    assert len({re.sub(r"\b\d+s\b", "0s", text) for text in texts}) == 1, "a second may pass between them"
    assert "knows pod, deployment, replicaset, statefulset, daemonset, job, and not node" in (
        cloud.run("why", "node", "n1").err
    )


def test_why_names_the_pod_that_has_the_port(cloud: Cloud) -> None:
    """A pod that ended, or has another protocol, has it no longer, or has another one."""
    ports: dict[str, dict[str, Any]] = {"tcp": {"containerPort": 80, "hostPort": 8080}}
    ports |= {"udp": ports["tcp"] | {"protocol": "UDP"}, "ended": ports["tcp"], "waits": ports["tcp"]}
    pods = {name: pod(name) for name in ports}
    for name, port in ports.items():
        pods[name]["spec"]["containers"][0]["ports"] = [port]
    pods["ended"]["status"] = {"phase": "Succeeded"}
    said = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    del pods["waits"]["spec"]["nodeName"]
    cloud.make(node(), *pods.values())
    asked = cloud.run("why", "pod", "waits")
    assert asked.lines[0] == (
        f"default/waits has no node: {said[:-1]} (it asks for port 8080 of its node, which default/tcp on n1 has)."
    )


def test_why_a_workload_lacks_pods(cloud: Cloud) -> None:
    """A quota refuses them: there is no pod of which one could ask. Then there is one, and it is asked about."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    kinds = {"Deployment": spec | {"replicas": 2}, "StatefulSet": spec | {"serviceName": "web"}}
    named = [("Deployment", "web"), ("StatefulSet", "store")]
    made = [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": kinds[kind]} for kind, name in named
    ]
    cloud.make(node(), quota, *made)

    def first_line(*words: str) -> str:
        return next(iter(cloud.run("why", *words).lines), "")

    wait_until(lambda: "exceeded quota: few" in first_line("deployment", "web"), "the quota is the reason")
    wait_until(lambda: "exceeded quota: few" in first_line("sts/default/store"), "by an Event, without a condition")
    answer = cloud.run("why", "deployment/web", "-o", "json").object
    assert answer["sentence"].startswith('Deployment web: 2 of 2 pods cannot be made: pods "web-')
    assert answer["remedy"] == ["raise the quota, or ask for less: `cloudcore -n default describe resourcequota few`"]
    refused = cloud.run("why", "pod", "web").err
    assert "there is a workload by that name: `cloudcore -n default why deployment web`" in refused
    assert cloud.run("delete", "resourcequota", "few").status == 0
    wait_until(
        lambda: first_line("deployment", "web").startswith("0 of 2 pods of Deployment web run. default/web-"), "made"
    )


class _Asked:
    words = ("pod", "web")
    output = ""


class _Refusing:
    """A server that lets one read a pod and nothing else."""

    def __init__(self, spec: JsonObject) -> None:
        self._spec = spec

    def get(self, path: str, _query: Any = ()) -> JsonObject:
        """Return the pod."""
        if path == "/api/v1/namespaces/default/pods/web":
            return {"metadata": {"name": "web", "namespace": "default"}, "spec": {"nodeName": "n1", **self._spec}}
        if path in ("/api/v1", "/api", "/apis"):
            resources = [("pods", "Pod"), ("secrets", "Secret"), ("nodes", "Node"), ("events", "Event")]
            listed = [
                {
                    "name": name,
                    "kind": kind,
                    "singularName": kind.lower(),
                    "namespaced": name != "nodes",
                    "verbs": ["get"],
                }
                for name, kind in resources
            ]
            return {"versions": ["v1"], "groups": [], "groupVersion": "v1", "resources": listed}
        raise StatusError(403, "Forbidden", f"{path} is forbidden")

    def raw(self, method: str, path: str, query: Any = (), **_limits: int) -> bytes:
        """Refuse."""
        raise StatusError(403, "Forbidden", f"{path} is forbidden")


def test_a_node_is_not_asked_about_pods_that_it_is_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether a claim exists is not known there."""

    class Chosen:
        words = ("pod", "web")
        output = "json"

    server = _Refusing({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
    assert run(Session("edgecore", server), Chosen()) == 0  # type: ignore[arg-type]
    notes = [note.split(":")[1] for note in json.loads(capsys.readouterr().out)["notes"]]
    assert notes == [" nodes n1", " its events", " the steps that node n1 has kept"]


def test_what_may_not_be_read_is_reported_as_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not said to be missing."""
    server = _Refusing({"volumes": [{"name": "v", "secret": {"secretName": "key"}}]})
    session = Session("cloudcore", server)  # type: ignore[arg-type]

    class Chosen:
        words = ("pod", "web")
        output = "json"

    assert run(session, Chosen()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sentence"] == "default/web is bound to n1, which has said nothing about it yet"
    notes = [note.split(":")[1] for note in answer["notes"]]
    assert notes == [" Secret key", " nodes n1", " its events", " the steps that node n1 has kept"]


class _Journalling(_Refusing):
    """A cloudcore that knows how many nodes have stored the pod, and when its node's Lease was renewed."""

    def __init__(self, answer: bytes = b"", ready: str = "True") -> None:
        super().__init__({})
        self._answer, self._ready = answer, ready

    def get(self, path: str, query: Any = ()) -> JsonObject:
        """Return the node, its Lease, or another object."""
        if path.endswith("/nodes/n1"):
            ready = {"type": "Ready", "status": self._ready, "lastTransitionTime": "2025-01-15T08:00:00Z"}
            return {"metadata": {"name": "n1"}, "status": {"conditions": [ready]}}
        if path.endswith("/kube-node-lease/leases/n1"):
            return {"spec": {"renewTime": "1970-01-02T00:00:00Z"}}
        if path == "/apis/coordination.k8s.io/v1":
            lease = {"name": "leases", "kind": "Lease", "singularName": "lease", "namespaced": True, "verbs": ["get"]}
            return {"groupVersion": "coordination.k8s.io/v1", "resources": [lease]}
        found = super().get(path, query)
        if path == "/apis":
            version = {"groupVersion": "coordination.k8s.io/v1", "version": "v1"}
            group = {"name": "coordination.k8s.io", "versions": [version], "preferredVersion": version}
            return {**found, "groups": [group]}
        return found

    def raw(self, method: str, path: str, query: Any = (), **_limits: int) -> bytes:
        """Return the pod's changes."""
        if path != "/cloudcore/changes":
            raise StatusError(404, "NotFound", path)
        assert dict(query) == {"kind": "Pod", "namespace": "default", "name": "web", "limit": "1"}
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"writes":[{"holders":1,"acknowledged":0}]}', "which has not confirmed that it has it"),
        (b'{"writes":[{"holders":1,"acknowledged":1}]}', "which has it, and has said nothing about it yet"),
        (b'{"writes":[{"holders":-1}]}', "which has said nothing about it yet"),
        (b'{"writes":[]}', "which has said nothing about it yet"),
        (b"no journal", "which has said nothing about it yet"),
    ],
)
def test_whether_the_node_has_stored_the_pod(capsys: pytest.CaptureFixture[str], answer: bytes, said: str) -> None:
    assert run(Session("cloudcore", _Journalling(answer)), _Asked()) == 0  # type: ignore[arg-type]
    assert capsys.readouterr().out.splitlines()[0] == f"default/web is bound to n1, {said}."


def test_a_node_that_is_away_counts_from_its_lease_and_is_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Its condition changes 40 s later. Its steps are no use of a tunnel that is not there."""
    assert run(Session("cloudcore", _Journalling(ready="Unknown")), _Asked()) == 0  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert re.match(r"default/web does not run yet: node n1 has been away for [5-9]\dy, and has not taken the pod", out)
    assert "the steps that node n1 has kept" not in out


class _Keeping(_Refusing):
    """A node that answers what it is given."""

    def __init__(self, answer: bytes, uid: str = "u1") -> None:
        super().__init__({})
        self._answer, self._uid = answer, uid
        self.asked = list[str]()

    def get(self, path: str, _query: Any = ()) -> JsonObject:
        """Return the pod with a uid."""
        found = super().get(path)
        found.setdefault("metadata", {})["uid"] = self._uid
        return found

    def raw(self, method: str, path: str, query: Any = (), **_limits: int) -> bytes:
        """Return the answer; it has no journal of changes."""
        if path == "/cloudcore/changes":
            return super().raw(method, path, query)
        self.asked.append(path)
        return self._answer


FAILED = {"at": 1.8e9, "reason": "Failed", "text": "Error: \x1b[31mno\nspace", "is_warning": True, "count": 7}


@pytest.mark.parametrize(
    ("program", "path"),
    [("edgecore", "/edgecore/chains/default/web"), ("cloudcore", "/api/v1/nodes/n1/proxy/edgecore/chains/default/web")],
)
def test_the_steps_that_the_node_has_kept_are_shown(
    capsys: pytest.CaptureFixture[str], program: str, path: str
) -> None:
    server = _Keeping(json.dumps({"uid": "u1", "steps": [FAILED], "left_out": 3, "later": "a key"}).encode())
    assert run(Session(program, server), _Asked()) == 0  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert server.asked == [path]
    assert "kubelet          Failed (7 times): Error: \\x1b[31mno space" in out
    assert "◆" in out
    assert "3 earlier steps are left out" in out


@pytest.mark.parametrize(
    "answer",
    [b"", b"\xff", b"[" * 100_000, b"{}", b'{"uid":"u1","steps":{}}', b'{"uid":"u1","steps":[{"at":"x"}]}',
     json.dumps({"uid": "u1", "steps": [FAILED] * 257}).encode()],
)  # fmt: skip
def test_answers_of_a_node_are_not_believed(capsys: pytest.CaptureFixture[str], answer: bytes) -> None:
    assert run(Session("cloudcore", _Keeping(answer)), _Asked()) == 0  # type: ignore[arg-type]
    assert "not known: the steps that node n1 has kept" in capsys.readouterr().out


def test_the_steps_of_an_earlier_pod_of_the_name_are_not_its(capsys: pytest.CaptureFixture[str]) -> None:
    server = _Keeping(json.dumps({"uid": "old", "steps": [FAILED]}).encode())
    assert run(Session("cloudcore", server), _Asked()) == 0  # type: ignore[arg-type]
    assert "Failed" not in capsys.readouterr().out


ENDED = {
    "startTime": "2027-01-15T07:58:20Z",
    "containerStatuses": [{
        "name": "app", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2027-01-15T07:58:30Z"}},
    }],
}  # fmt: skip


class _Crashed(_Refusing):
    """A server with a pod that crashes, and its log or the refusal of it."""

    def __init__(self, log: bytes | StatusError) -> None:
        super().__init__({})
        self._log = log

    def get(self, path: str, _query: Any = ()) -> JsonObject:
        """Return the pod."""
        found = super().get(path)
        return {**found, "status": ENDED} if path.endswith("/pods/web") else found

    def raw(self, method: str, path: str, query: Any = (), **limits: int) -> bytes:
        """Return the log."""
        if not path.endswith("/pods/web/log"):
            return super().raw(method, path, query, **limits)
        assert dict(query)["redact"] == dict(query)["previous"] == "true"
        if isinstance(self._log, StatusError):
            raise self._log
        return self._log


@pytest.mark.parametrize("program", ["edgecore", "cloudcore"])
def test_the_last_lines_of_a_container_that_crashed(capsys: pytest.CaptureFixture[str], program: str) -> None:
    """From both sides; a node is not trusted to leave out what has the form of a secret, or escape sequences."""
    log = b"early\n" * 20 + b"connect postgres://u:p@db\n\n\x1b[31mno route\n"
    assert run(Session(program, _Crashed(log)), _Asked()) == 0  # type: ignore[arg-type]
    out = capsys.readouterr().out
    shown = out.partition("The last lines of container app:\n")[2].partition("\n\n")[0].split("\n")
    assert shown == ["  early"] * 8 + ["  connect postgres://(left out)@db", "  \\x1b[31mno route"]


@pytest.mark.parametrize(
    ("refusal", "notes"),
    [
        (StatusError(403, "Forbidden", "no right"), ["(not known: the last lines of container app: no right)"]),
        (StatusError(400, "BadRequest", "no previous container"), []),
        (b"", []),
    ],
)
def test_last_lines_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str], refusal: StatusError | bytes, notes: list[str]
) -> None:
    assert run(Session("cloudcore", _Crashed(refusal)), _Asked()) == 0  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert [line for line in out.split("\n") if "last lines" in line] == notes


class _Known(_Journalling):
    """A cloudcore that knows the link of the node."""

    def __init__(self, connections: JsonObject, links: list[JsonObject] | None = None) -> None:
        super().__init__(b'{"writes":[]}')
        self._own = {"nodes": connections, "links": {"links": links or []}, "cloudcores": {"own": "a"}}

    def raw(self, method: str, path: str, query: Any = (), **limits: int) -> bytes:
        """Return what cloudcore knows of the node."""
        if path == "/cloudcore/changes" or not path.startswith("/cloudcore/"):
            return super().raw(method, path, query)
        return json.dumps(self._own[path.removeprefix("/cloudcore/")]).encode()


_HELD: JsonObject = {"node": "n1", "connected_seconds": 9, "keepalive_seconds": 1}
_CLOSED: JsonObject = {
    "node": "n1",
    "connection": "c",
    "cloudcore": "a",
    "began": 5.0,
    "ended": 65.0,
    "reason": "it was closed",
}


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (
            _Known({"refused": [{"why": "node n1 is revoked (stolen)"}]}, [_CLOSED]),
            "[0-9]+y \\(its connection is refused: node n1 is revoked \\(stolen\\)\\), and has not taken the pod",
        ),
        (_Known({}, [_CLOSED]), "default/web does not run yet: node n1 has been away for"),
        (
            _Known({"nodes": [{**_HELD, "clock_ahead_seconds": 7200}]}),
            "\\(the clock of node n1 is 120m ahead, so the times of its steps are wrong\\)",
        ),
        (
            _Known({"nodes": [{
                "node": "n1", "connected_seconds": 9, "keepalive_seconds": 1, "unacknowledged": 1, "oldest_seconds": 90,
                "last_error": "default/configmap/c: no space",
            }]}),
            "node n1 is behind: it has not acknowledged a message for 90s \\(default/configmap/c: no space\\)",
        ),
    ],
)  # fmt: skip
def test_the_link_of_the_node_is_described_as_on_the_page(
    capsys: pytest.CaptureFixture[str], server: _Known, said: str
) -> None:
    assert run(Session("cloudcore", server), _Asked()) == 0  # type: ignore[arg-type]
    assert re.search(said, capsys.readouterr().out)


class _Alone(_Keeping):
    """A node without a link, or with one."""

    def __init__(self, link: JsonObject) -> None:
        super().__init__(b'{"uid":"u1","steps":[]}')
        self._state = {"node": "n1", "started_at": 5.0, "link": {"enabled": True, **link}}

    def get(self, path: str, query: Any = ()) -> JsonObject:
        """Return the state of the agent, or the pod."""
        return self._state if path == "/edgecore/state" else super().get(path, query)


def test_a_node_without_a_link_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    server = _Alone({"lost_at": 65.0, "why": "it is\nrevoked"})
    assert run(Session("edgecore", server), _Asked()) == 0  # type: ignore[arg-type]
    said = (
        r"\(n1 has had no link to its cloud for \d+y and goes on by itself, without what the cloud has changed since; "
    )
    assert re.search(said + "the last error: it is revoked\\)", capsys.readouterr().out)
    assert run(Session("edgecore", _Alone({"connected_at": 9.0})), _Asked()) == 0  # type: ignore[arg-type]
    assert "link" not in capsys.readouterr().out
