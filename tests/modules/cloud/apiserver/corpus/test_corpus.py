"""The corpus with each verb of a client: nothing that Kubernetes takes is refused, and nothing that did not change
makes a change.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject, is_custom
from modules.cloud.client.calls import APPLY, STRATEGIC
from tests.modules.cloud.apiserver.corpus.documents import FILES, collection_of, documents
from tests.modules.cloud.apiserver.reference.playing import Player
from tests.modules.cloud.apiserver.reference.recordings import read
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.patience import PATIENCE

_KUBECTL = shutil.which("kubectl")
_WITHOUT_MERGE = ("CronTab", "Device")
"""Custom objects have no strategic merge patches."""


class Client(Player):
    """A client of an API server without controllers."""

    def done(self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str) -> Any:
        """Return the answer to a request, which must succeed."""
        response = self.ask(method, path, body, media, **query)
        assert response.status < 300, f"{method} {path}: {response.body.decode()}"
        return json.loads(response.body)


def _path_of(obj: JsonObject) -> str:
    return f"{collection_of(obj)}/{obj['metadata']['name']}"


def _version(obj: JsonObject) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _of_user(obj: JsonObject) -> JsonObject:
    """Return an object without what each change changes."""
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in ("resourceVersion", "generation", "managedFields")
    }
    return {**obj, "metadata": metadata}


def _pod_spec(obj: JsonObject) -> JsonObject | None:
    """Return the spec of an object's template, if that may change."""
    found: JsonObject | None = obj["spec"]["template"]["spec"] if obj["kind"] in _CHANGEABLE else None
    return found


_CHANGEABLE = ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet")
_ADDED: JsonObject = {
    "env": ([{"name": "ADDED", "value": "1"}], [{"name": "ADDED", "$patch": "delete"}]),
    "ports": (
        [{"containerPort": 4242, "protocol": "TCP", "name": "added"}],
        [{"containerPort": 4242, "protocol": "TCP", "$patch": "delete"}],
    ),
    "volumeMounts": ([{"name": "added", "mountPath": "/added"}], [{"mountPath": "/added", "$patch": "delete"}]),
}
"""By list of a container: what adds an element, and what takes it away again."""


def _patches(obj: JsonObject) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield strategic merge patches, each with the one that undoes it."""
    added = {"labels": {"corpus": "yes"}, "annotations": {"example.com/corpus": "yes"}}
    removed = {"labels": {"corpus": None}, "annotations": {"example.com/corpus": None}}
    yield {"metadata": added}, {"metadata": removed}
    spec = _pod_spec(obj)
    if spec is None:
        return
    first = spec["containers"][0]
    change, undoing = (
        {
            "volumes": [volume],
            "containers": [{"name": first["name"], **{name: pair[at] for name, pair in _ADDED.items()}}],
        }
        for at, volume in enumerate(({"name": "added", "emptyDir": {}}, {"name": "added", "$patch": "delete"}))
    )
    yield {"spec": {"template": {"spec": change}}}, {"spec": {"template": {"spec": undoing}}}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_created_is_updated_patched_and_deleted(file: Path) -> None:
    """A PUT of what was read changes nothing; what a patch adds, another takes away again, without a trace."""
    client, made = Client(), list(documents(file))
    for obj in made:
        client.done("POST", collection_of(obj), obj)
    for obj in made:
        path = _path_of(obj)
        stored = client.done("GET", path)
        assert _version(client.done("PUT", path, stored)) == _version(stored), path
        for change, undoing in _patches(obj) if obj["kind"] not in _WITHOUT_MERGE else ():
            changed = client.done("PATCH", path, change, STRATEGIC)
            assert _of_user(changed) != _of_user(stored), path
            assert _of_user(client.done("PATCH", path, undoing, STRATEGIC)) == _of_user(stored), path
    for obj in reversed(made):
        client.done("DELETE", _path_of(obj))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_applied_is_taken_again_and_changes_nothing(file: Path) -> None:
    """By server-side apply, and beside a manager who made it otherwise."""
    applied, created = Client(), Client()
    for obj in documents(file):
        path, query = _path_of(obj), {"fieldManager": "corpus", "fieldValidation": "Strict"}
        first = applied.done("PATCH", path, obj, APPLY, **query)
        assert _version(applied.done("PATCH", path, obj, APPLY, **query)) == _version(first), path
        created.done("POST", collection_of(obj), obj)
        also = created.done("PATCH", path, obj, APPLY, **query, force="true")
        assert _version(created.done("PATCH", path, obj, APPLY, **query)) == _version(also), path


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_kube_apiserver_has_taken_each_object(file: Path) -> None:
    """As it is written now: `reference/record.py` makes the recording, and `test_reference.py` plays it."""
    asked = [(request.body, request.code) for request in read(f"corpus-{file.stem}")]
    assert asked == [(obj, 201) for obj in documents(file) if not is_custom(obj)]


@pytest.mark.skipif(_KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.extended
def test_kubectl_applies_all_again_and_again(tmp_path: Path) -> None:
    """It says `configured` of what is stored in another form, such as an empty API group: with Kubernetes, too."""
    with Stub(tmp_path, insecure_port=0) as stub:
        command = [
            str(_KUBECTL),
            "-s",
            f"http://127.0.0.1:{stub.core.api_port}",
            "--cache-dir",
            str(tmp_path / "cache"),
        ]
        command += ["apply", "-f", str(FILES[0].parent)]
        first, second, third = (
            subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE) for _ in range(3)
        )
    assert "ensure CRDs are installed first" in first.stderr
    number = sum(1 for file in FILES for _ in documents(file))
    for done in (second, third):
        assert (done.returncode, len(done.stdout.splitlines())) == (0, number), done.stderr
    outcomes = {line.rpartition(" ")[2] for line in third.stdout.splitlines()}
    assert outcomes == {"configured", "unchanged"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_go_clients_write_besides_is_nothing(file: Path) -> None:
    """Their structures have empty members where a person writes none."""
    plain, go = Client(), Client()
    for obj in documents(file):
        one = plain.done("POST", collection_of(obj), obj)
        other = go.done("POST", collection_of(obj), _as_go_writes(obj))
        assert _without_identity(other) == _without_identity(one)


_STRATEGIES = {"Deployment": "strategy", "DaemonSet": "updateStrategy", "StatefulSet": "updateStrategy"}


def _as_go_writes(obj: JsonObject) -> JsonObject:
    """Return an object with the empty members that Go's JSON has."""
    made: JsonObject = json.loads(json.dumps(obj))
    made["metadata"].setdefault("creationTimestamp", None)
    if made["kind"] not in ("CronTab", "Device", "CustomResourceDefinition"):
        for at in _holders(made):
            at.setdefault("resources", {})
        if "template" in made.get("spec", {}):
            made["spec"]["template"].setdefault("metadata", {}).setdefault("creationTimestamp", None)
    strategy = _STRATEGIES.get(made["kind"])
    if strategy is not None:
        made["spec"].setdefault(strategy, {})
    if made["kind"] in ("Pod", "Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob", "Service", "Namespace"):
        made.setdefault("status", {"loadBalancer": {}} if made["kind"] == "Service" else {})
        made.setdefault("spec", {})
    if "roleRef" in made:
        made["roleRef"].setdefault("apiGroup", "")
    return made


def _holders(value: Any) -> Iterator[JsonObject]:
    """Yield the containers in an object."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name in ("containers", "initContainers"):
                yield from member
            yield from _holders(member)
    elif isinstance(value, list):
        for each in value:
            yield from _holders(each)


def _without_identity(obj: JsonObject) -> JsonObject:
    text = json.dumps(_of_user(obj)).replace(str(obj["metadata"]["uid"]), "UID")
    found: JsonObject = json.loads(text)
    return found
