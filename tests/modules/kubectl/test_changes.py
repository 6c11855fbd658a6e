"""`label`, `annotate`, `patch`, `cordon` and `taint` against a real cloudcore."""

import json
from pathlib import Path
from typing import Any

import pytest

from modules.cli.errors import KubectlError, StatusError, UsageError
from modules.cli.rest import JSON, RestClient
from modules.kubectl.metadata import EntryChanges, read_changes
from modules.kubectl.taint import TaintChange, changed, read_taint
from tests.modules.kubectl.cloud import Cloud, config_map, node, pod

VERBS = [
    ("label", "cm", "a", "b", "x=y"),
    ("annotate", "cm", "a", "b", "x=y"),
    ("patch", "cm", "a", "b", "-p", '{"data": {"x": "y"}}'),
    ("delete", "cm", "a", "b"),
    ("cordon", "a", "b"),
    ("taint", "node", "a", "b", "x=y:NoSchedule"),
    ("scale", "deployment", "a", "b", "--replicas=2"),
    ("rollout", "restart", "deployment", "a", "b"),
    ("rollout", "pause", "deployment/a", "deployment/b"),
    ("set", "image", "deployment", "a", "b", "main=x:2"),
    ("apply", "-f", "FILE"),
    ("replace", "-f", "FILE"),
    ("create", "-f", "FILE"),
]


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    """Return a file with two configmaps."""
    (tmp_path / "f.json").write_text("\n---\n".join(map(json.dumps, [config_map(name, x="z") for name in "ab"])))
    return str(tmp_path / "f.json")


def make_two(cloud: Cloud) -> None:
    """Make two nodes, configmaps and Deployments."""
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"x": "y"}}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    cloud.make(
        *(each for name in "ab" for each in (node(name), config_map(name), {**workload, "metadata": {"name": name}}))
    )


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_refused_object_keeps_no_other_from_being_changed(
    cloud: Cloud, manifests: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    if words[0] != "create":
        make_two(cloud)
    request, written = RestClient.request, list[str]()

    def refuse(self: RestClient, method: str, path: str, query: Any = (), body: Any = None, kind: str = JSON) -> Any:
        name = body["metadata"]["name"] if method == "POST" else path.removesuffix("/scale").rpartition("/")[2]
        if method != "GET":
            written.append(name)
            if name == "a":
                raise StatusError(403, "Forbidden", "not this one")
        return request(self, method, path, query, body, kind)

    monkeypatch.setattr(RestClient, "request", refuse)
    done = cloud.run(*(manifests if word == "FILE" else word for word in words))
    assert (done.status, len(done.lines), written) == (1, 1, ["a", "b"])
    assert "not this one" in done.err


def test_a_rollout_that_cannot_be_undone_keeps_no_other_from_it(cloud: Cloud) -> None:
    make_two(cloud)
    done = cloud.run("rollout", "undo", "deployment", "a", "b")
    assert (done.status, len(done.err.splitlines())) == (1, 2)


@pytest.mark.parametrize("words", [each for each in VERBS if each[0] != "rollout"], ids=" ".join)
def test_a_dry_run_asks_for_no_write(
    cloud: Cloud, manifests: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    if words[0] != "create":
        make_two(cloud)
    request, dry, written = RestClient.request, list[str](), list[str]()

    def noted(self: RestClient, method: str, path: str, query: Any = (), body: Any = None, kind: str = JSON) -> Any:
        is_dry = ("dryRun", "All") in query or (isinstance(body, dict) and body.get("dryRun") == ["All"])
        if method != "GET":
            (dry if is_dry else written).append(path)
        return request(self, method, path, query, body, kind)

    monkeypatch.setattr(RestClient, "request", noted)
    for kind in ("client", "server"):
        done = cloud.run(*(manifests if word == "FILE" else word for word in words), f"--dry-run={kind}")
        is_refused = words[0] == "patch" and kind == "client"
        assert (done.status, len(dry)) == (is_refused, 2 * (kind == "server"))
    assert written == []


def labels(cloud: Cloud, name: str = "web") -> Any:
    return cloud.client.get(f"/api/v1/namespaces/default/pods/{name}")["metadata"].get("labels", {})


def test_labels_are_set_changed_and_removed(cloud: Cloud) -> None:
    cloud.make(pod())
    assert cloud.run("label", "pod", "web", "a=1", "b=2") == (0, "pod/web labeled\n", "")
    assert cloud.run("label", "pod/web", "a=1").out == "pod/web not labeled\n"
    refused = cloud.run("label", "pod/web", "a=3")
    assert (refused.status, refused.err) == (1, "error: 'a' already has a value (1), and --overwrite is false\n")
    assert cloud.run("label", "pod/web", "a=3", "--overwrite").out == "pod/web labeled\n"
    assert cloud.run("label", "pod/web", "empty=").status == 0
    assert cloud.run("label", "pod/web", "empty=3").status == 1
    assert cloud.run("label", "pod/web", "empty-").status == 0
    assert cloud.run("label", "pod/web", "b-").out == "pod/web unlabeled\n"
    assert cloud.run("label", "pod/web", "b-").out == 'label "b" not found.\npod/web not labeled\n'
    assert labels(cloud) == {"a": "3"}
    assert cloud.run("label", "pod/web", "--list").out == "a=3\n"


def test_many_objects_are_labeled(cloud: Cloud, tmp_path: Path) -> None:
    cloud.make(pod("a"), pod("b", labels={"x": "y"}), config_map())
    assert "-l or --all" in cloud.run("label", "pods", "t=1").err
    assert cloud.run("label", "pods", "--all", "t=1").lines == ["pod/a labeled", "pod/b labeled"]
    assert cloud.run("label", "pods", "-l", "x=y", "t=2", "--overwrite").lines == ["pod/b labeled"]
    (tmp_path / "f.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colours}\n")
    assert cloud.run("label", "-f", str(tmp_path / "f.yaml"), "t=1").lines == ["configmap/colours labeled"]
    mixed = cloud.run("label", "pod", "a", "nothing", "t=9", "--overwrite")
    assert (mixed.status, mixed.lines) == (1, ["pod/a labeled"])
    assert "NotFound" in mixed.err


def test_dry_runs_change_nothing(cloud: Cloud) -> None:
    cloud.make(pod())
    for kind, remark in (("client", "(dry run)"), ("server", "(server dry run)")):
        assert cloud.run("label", "pod/web", "a=1", f"--dry-run={kind}").out == f"pod/web labeled {remark}\n"
        shown = cloud.run("label", "pod/web", "a=1", f"--dry-run={kind}", "-o", "json").object
        assert shown["metadata"]["labels"] == {"a": "1"}
    assert labels(cloud) == {}


def test_annotations(cloud: Cloud) -> None:
    cloud.make(pod())
    assert cloud.run("annotate", "pod", "web", "note=a b=c").out == "pod/web annotated\n"
    assert cloud.run("annotate", "pod", "web", "--list").out == "note=a b=c\n"
    assert cloud.run("annotate", "pod", "web", "note-").out == "pod/web annotated\n"


def test_only_a_version_is_changed(cloud: Cloud) -> None:
    cloud.make(pod())
    assert cloud.run("label", "pod/web", "a=1", "--resource-version=1").status == 1
    assert labels(cloud) == {}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("pod", "web", "a=1", "b-"), EntryChanges(("pod", "web"), {"a": "1"}, ("b",))),
        (("pod/web", "a="), EntryChanges(("pod/web",), {"a": ""}, ())),
        (("-",), EntryChanges(("-",), {}, ())),
    ],
)
def test_words_of_a_change(words: tuple[str, ...], wanted: EntryChanges) -> None:
    assert read_changes(words, "label") == wanted


@pytest.mark.parametrize(
    ("words", "said"), [(("a=1", "web"), "before label changes: web"), (("x", "a=1", "a-"), "both modify and remove")]
)
def test_words_that_are_no_change(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_changes(words, "label")


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"data": {"sky": "grey"}}'),
        ("merge", "data: {sky: grey}"),
        ("json", '[{"op": "replace", "path": "/data/sky", "value": "grey"}]'),
    ],
)
def test_a_patch(cloud: Cloud, tmp_path: Path, kind: str, patch: str) -> None:
    cloud.make(config_map(sky="blue"))
    (tmp_path / "patch").write_text(patch)
    dry = cloud.run("patch", "cm", "colours", "--type", kind, "-p", patch, "--dry-run=server", "-o", "json")
    assert dry.object["data"] == {"sky": "grey"}
    done = cloud.run("patch", "cm/colours", f"--type={kind}", "--patch-file", str(tmp_path / "patch"))
    assert (done.status, done.out) == (0, "configmap/colours patched\n"), done.err
    assert (
        cloud.run("patch", "cm/colours", f"--type={kind}", "-p", patch).out == "configmap/colours patched (no change)\n"
    )
    assert cloud.run("get", "cm/colours", "-o", "jsonpath={.data.sky}").out == "grey"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cm/colours",), "--patch"),
        (("cm/colours", "-p", "[1"), "unable to parse the patch"),
        (("cm/colours", "-p", "[]"), "an object is wanted"),
        (("cm/colours", "--type=json", "-p", "{}"), "a list of operations is wanted"),
        (("cm/colours", "--patch-file", "/nothing"), "unable to read patch file"),
        (("cm", "-p", "{}"), "the name of the object is missing"),
        (("cm/nothing", "-p", "{}"), "NotFound"),
        (("cm/colours", "-p", "{}", "--dry-run=client"), "--dry-run=server"),
        (("cm/colours", "-p", '{"data": 7}'), "data"),
    ],
)
def test_patches_that_are_refused(cloud: Cloud, words: tuple[str, ...], said: str) -> None:
    cloud.make(config_map(sky="blue"))
    done = cloud.run("patch", *words)
    assert (done.status, done.out) == (1, "")
    assert said in done.err


def test_nodes_are_cordoned(cloud: Cloud) -> None:
    cloud.make(node("n1"), {**node("n2"), "spec": {"unschedulable": False}})
    assert cloud.run("cordon", "n2").out == "node/n2 cordoned\n"
    assert cloud.run("cordon", "n1").out == "node/n1 cordoned\n"
    assert cloud.run("cordon", "node/n1").out == "node/n1 already cordoned\n"
    assert "SchedulingDisabled" in cloud.run("get", "node", "n1").out
    assert cloud.run("uncordon", "n1", "--dry-run=server").out == "node/n1 uncordoned (server dry run)\n"
    assert cloud.run("uncordon", "n1").out == "node/n1 uncordoned\n"
    assert cloud.run("uncordon", "n1", "nothing").status == 1
    assert "names of nodes" in cloud.run("cordon").err
    assert "unschedulable" not in cloud.client.get("/api/v1/nodes/n1").get("spec", {})


def test_nodes_are_tainted(cloud: Cloud) -> None:
    cloud.make(node("n1"))
    assert cloud.run("taint", "node", "n1", "a=1:NoSchedule", "b:NoExecute").out == "node/n1 tainted\n"
    assert "--overwrite is false" in cloud.run("taint", "node", "n1", "a=2:NoSchedule").err
    assert cloud.run("taint", "nodes", "n1", "a=2:NoSchedule", "--overwrite").out == "node/n1 tainted\n"
    taints = cloud.client.get("/api/v1/nodes/n1")["spec"]["taints"]
    assert taints == [{"key": "b", "effect": "NoExecute"}, {"key": "a", "value": "2", "effect": "NoSchedule"}]
    assert cloud.run("taint", "node", "--all", "a-", "b:NoExecute-").out == "node/n1 untainted\n"
    assert not cloud.client.get("/api/v1/nodes/n1")["spec"].get("taints")
    assert 'taint "a" not found' in cloud.run("taint", "node", "n1", "a-").err
    assert "only nodes" in cloud.run("taint", "pods", "--all", "a:NoExecute").err
    assert "at least one taint" in cloud.run("taint", "node", "n1").err
    assert "-l or --all" in cloud.run("taint", "node", "a:NoExecute").err


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("a=1:NoSchedule", TaintChange("a", "1", "NoSchedule")),
        ("a:NoExecute-", TaintChange("a", "", "NoExecute", removed=True)),
        ("a-", TaintChange("a", "", "", removed=True)),
    ],
)
def test_words_of_taints(word: str, change: TaintChange) -> None:
    assert read_taint(word) == change


def test_a_taint_is_changed_for_its_effect_only() -> None:
    once, ever = ({"key": "a", "value": "1", "effect": effect} for effect in ("NoSchedule", "NoExecute"))
    other = {"key": "b", "effect": "NoExecute"}

    def after(*words: str, overwrite: bool = True) -> list[Any]:
        return changed("n1", [once, ever, other], [read_taint(word) for word in words], overwrite=overwrite)

    assert after("a:NoSchedule-") == [ever, other]
    assert after("a-") == [other]
    assert after("a=2:NoExecute") == [once, other, {**ever, "value": "2"}]
    assert after("a=1:NoExecute", overwrite=False) == [once, other, ever]
    with pytest.raises(KubectlError, match="already has a taint"):
        after("a=2:NoExecute", overwrite=False)


@pytest.mark.parametrize("word", ["a:Odd", ":NoExecute", "a=1:"])
def test_words_that_are_no_taints(word: str) -> None:
    with pytest.raises(UsageError, match="invalid taint spec"):
        read_taint(word)
