"""`apply` against a real cloudcore."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from modules.kubectl.apply import covers
from modules.kubectl.manifests import Manifest, read_each, read_text
from tests.modules.cloud.objects import namespace
from tests.modules.kubectl.cloud import Cloud

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{sky: {sky}}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: n1, containers: [{name: main, image: "busybox:1.35"}]}
"""


def config(name: str = "colours", sky: str = "blue") -> str:
    """The manifest of a configmap."""
    return CONFIG.format(name=name, sky=sky)


def write(path: Path, *documents: str) -> str:
    """Write documents into a file, and return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\n".join(documents))
    return str(path)


def test_an_object_is_created_unchanged_or_configured(cloud: Cloud, tmp_path: Path) -> None:
    file = write(tmp_path / "all.yaml", config(), POD)
    assert cloud.run("apply", "-f", file).lines == ["configmap/colours created", "pod/web created"]
    assert cloud.run("apply", "--filename", file).lines == ["configmap/colours unchanged", "pod/web unchanged"]
    write(tmp_path / "all.yaml", config(sky="grey"), POD)
    assert cloud.run("apply", f"-f={file}").lines == ["configmap/colours configured", "pod/web unchanged"]
    assert cloud.run("get", "cm", "colours", "-o", "jsonpath={.data.sky}").out == "grey"


@pytest.mark.parametrize(("where", "words"), [("client", "dry run"), ("server", "server dry run")])
def test_a_dry_run_prints_the_outcome_and_changes_nothing(cloud: Cloud, tmp_path: Path, where: str, words: str) -> None:
    file = write(tmp_path / "all.yaml", config())
    again = ("apply", "-f", file, f"--dry-run={where}")
    assert cloud.run(*again).lines == [f"configmap/colours created ({words})"]
    assert not cloud.run("get", "cm").out
    cloud.run("apply", "-f", file)
    assert cloud.run(*again).lines == [f"configmap/colours unchanged ({words})"]
    write(tmp_path / "all.yaml", config(sky="grey"))
    assert cloud.run(*again).lines == [f"configmap/colours configured ({words})"]
    assert cloud.run("get", "cm", "colours", "-o", "jsonpath={.data.sky}").out == "blue"


def test_output_in_other_forms(cloud: Cloud, tmp_path: Path) -> None:
    file = write(tmp_path / "all.yaml", config(), config("other"))
    assert cloud.run("apply", "-f", file, "-o", "name").lines == ["configmap/colours", "configmap/other"]
    both = cloud.run("apply", "-f", file, "-o", "json").object
    assert (both["kind"], [item["metadata"]["name"] for item in both["items"]]) == ("List", ["colours", "other"])
    one = cloud.run("apply", "-f", write(tmp_path / "one.yaml", config()), "-o", "json").object
    assert one["kind"] == "ConfigMap"


def test_files_directories_and_standard_input(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "d/b.yaml", config("b"))
    write(
        tmp_path / "d/a.json",
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [json_config("a"), json_config("c")]}),
    )
    write(tmp_path / "d/ignored.txt", "nonsense: [")
    write(tmp_path / "d/deep/e.yml", config("e"))
    done = cloud.run("apply", "-f", str(tmp_path / "d"))
    assert done.lines == ["configmap/a created", "configmap/c created", "configmap/b created"]
    assert "configmap/e created" in cloud.run("apply", "-R", "-f", str(tmp_path / "d")).lines
    two = [write(tmp_path / f"{name}.yaml", config(name)) for name in "xy"]
    assert cloud.run("apply", "-f", two[0], "-f", two[1]).lines == ["configmap/x created", "configmap/y created"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(config("z").encode())))
    assert cloud.run("apply", "-f", "-").lines == ["configmap/z created"]


def json_config(name: str) -> dict[str, Any]:
    """A configmap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_a_bad_document_does_not_stop_the_others(cloud: Cloud, tmp_path: Path) -> None:
    file = write(
        tmp_path / "all.yaml",
        config("a"),
        "foo\n",
        "apiVersion: v1\nkind: Foo\nmetadata: {name: x}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: []}\n",
        "apiVersion: v1\nkind: ConfigMap\n",
        config("b"),
    )
    done = cloud.run("apply", "-f", file, "-f", str(tmp_path / "nope.yaml"))
    assert done.status == 1
    assert done.lines == ["configmap/a created", "configmap/b created"]
    assert done.err.splitlines() == [
        f"error: {file}:6: an object with apiVersion and kind is wanted, not a text or number",
        f'error: {file}:8: no matches for kind "Foo" in version "v1"',
        f'The Pod "bad" is invalid: spec.containers: Required value ({file}:12)',
        f"error: {file}:17: resource name may not be empty: metadata.name is missing",
        f'error: the path "{tmp_path}/nope.yaml" does not exist',
    ]


def test_a_document_that_is_not_yaml_does_not_stop_the_others(cloud: Cloud, tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", config("a"), "a: [1\n", config("b"), "b: 1\nb: 2\n", config("c"))
    done = cloud.run("apply", "-f", file)
    assert done.lines == [f"configmap/{name} created" for name in "abc"]
    first, second = done.err.splitlines()
    assert first.startswith(f"error: error parsing {file}:7: ")
    assert second == f'error: error parsing {file}:14: key "b" already set in map'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "error: no objects passed to apply"),
        ("---\n# nothing\n", "error: no objects passed to apply"),
        (
            "a: b\nmetadata:\n\tname: x\n",
            "FILE:3: found character that cannot start any token (a tab indents it; YAML wants",
        ),
        ("kind: A\nmetadata:\n  name: x\n  name: y\n", 'FILE:4: key "name" already set in map'),
        ("a: {b: 1, c: [{d: 1, e: 2, d: 3}]}\n", 'FILE:1: key "d" already set in map'),
        ('{"a": 1, "a": 2}', 'FILE:1: key "a" already set in map'),
        ("a: *nothing\n", "FILE:1: found undefined alias"),
        ("metadata: {name: x}\n", "FILE:1: apiVersion and kind not set"),
        ("- a\n", "FILE:1: an object with apiVersion and kind is wanted, not a list"),
        ("a: !!binary aGk=\n", "FILE"),
    ],
)
def test_a_wrong_file_is_one_line(empty_cloud: Cloud, tmp_path: Path, text: str, why: str) -> None:
    file = write(tmp_path / "x.yaml", text)
    done = empty_cloud.run("apply", "-f", file)
    assert (done.status, done.out) == (1, "")
    assert why.replace("FILE", file) in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "must specify one of -f and -k"),
        (("-k", "."), "kubectl kustomize . | cloudcore apply -f -"),
        (("-f", "EMPTY"), "recognized file extensions are [.json .yaml .yml]"),
        (("-f", "BIG"), "is longer than 16 MiB"),
        (("-f", "LATIN"), "is not UTF-8 text"),
        (("-f", "https://example.com/x.yaml"), "fetch it"),
        (("-f", "EMPTY", "--prune"), "there is no --prune here"),
        (("-f", "EMPTY", "--validate=perhaps"), "--validate"),
    ],
)
def test_what_cannot_be_applied_is_one_line(
    empty_cloud: Cloud, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    (tmp_path / "EMPTY").mkdir()
    with (tmp_path / "BIG").open("wb") as big:
        big.truncate(16 * 1024 * 1024 + 1)
    (tmp_path / "LATIN").write_bytes(b"a: \xff\n")
    done = empty_cloud.run("apply", *(str(tmp_path / word) if word.isupper() else word for word in words))
    assert done.status != 0
    assert why in done.err
    assert len(done.err.splitlines()) == 1


def test_another_namespace_than_the_objects_is_refused(cloud: Cloud, tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", config().replace("colours", "colours, namespace: there"))
    assert "does not match the namespace" in cloud.run("apply", "-f", file, "-n", "here").err
    assert 'namespaces "there" not found' in cloud.run("apply", "-f", file).err
    cloud.make(namespace("there"))
    assert cloud.run("apply", "-f", file, "-n", "there").lines == ["configmap/colours created"]
    assert cloud.run("get", "cm", "-n", "there", "-o", "name").lines == ["configmap/colours"]


def test_a_secret_in_a_wrong_manifest_is_not_printed(cloud: Cloud, tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {password: hunter2}\n"
    done = cloud.run("apply", "-f", write(tmp_path / "x.yaml", text))
    assert done.status == 1
    assert "hunter2" not in done.err + done.out


@pytest.mark.parametrize(
    ("live", "wanted", "covered"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": [{"b": 1, "default": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({}, {"a": None}, True),
        ([], {}, False),
    ],
)
def test_a_live_object_covers_a_manifest(live: Any, wanted: Any, *, covered: bool) -> None:
    assert covers(live, wanted) == covered


def test_keys_of_different_objects_may_be_equal() -> None:
    text = "apiVersion: v1\nkind: X\na: {a: {a: 1}, b: [{a: 1}, {a: 2}]}\nb: &x {a: 1}\nc: *x\nd: *x\n"
    assert read_text(text, "here")[0]["d"] == {"a": 1}


def test_keys_that_are_no_text_become_text_as_in_kubectl() -> None:
    assert read_text("apiVersion: v1\nkind: ConfigMap\ndata: {true: a, 2: b}\n", "here")[0]["data"] == {
        "true": "a",
        "2": "b",
    }


def test_reading_goes_on_after_a_file_that_is_not_there(tmp_path: Path) -> None:
    found = list(read_each([str(tmp_path / "no"), write(tmp_path / "x.yaml", config())]))
    assert [isinstance(each, Manifest) for each in found] == [False, True]
