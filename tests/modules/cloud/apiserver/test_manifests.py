"""Manifests and the directory they come from."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.files.stamps import SETTLED_SECONDS
from beehive.simulation import Simulation
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.manifest_directory import (
    _LONGEST_PAUSE,
    MANIFEST_ANNOTATION,
    ManifestDirectory,
    ManifestDirectoryError,
    check_directory,
)
from modules.cloud.apiserver.manifests import ManifestError, items_of, read_manifests
from tests.modules.cloud.objects import POD_MANIFEST
from tests.support.clocks import StandingClock

WEB = ObjectKey("Pod", "default", "web")
SETTINGS = ObjectKey("ConfigMap", "default", "settings")
OTHER = ObjectKey("ConfigMap", "default", "other")
CONFIGMAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1"}
"""


def test_documents_know_the_line_they_begin_at() -> None:
    documents = read_manifests("---\n" + POD_MANIFEST + "---\n" + CONFIGMAP + "---\n", "a.yaml")
    assert [(document.content["kind"], document.line) for document in documents] == [("Pod", 2), ("ConfigMap", 9)]


def test_json_is_read_too() -> None:
    assert read_manifests('{"kind": "Pod"}', "a.json")[0].content == {"kind": "Pod"}


def test_dates_stay_text_and_keys_become_text() -> None:
    content = read_manifests("data: {day: 2026-01-01, 2: x, true: y}", "a.yaml")[0].content
    assert content == {"data": {"day": "2026-01-01", "2": "x", "true": "y"}}


def test_a_list_stands_for_its_items() -> None:
    nested = {"kind": "List", "items": [{"kind": "Pod"}, {"kind": "PodList", "items": [{"kind": "Secret"}]}]}
    assert [item["kind"] for item in items_of([nested, {"kind": "Node"}])] == ["Pod", "Secret", "Node"]


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("a: 1\nb: [1\nc: 2", "a.yaml", 3),
        ("a: 1\n---\nb: !!python/object:os.system x", "a.yaml", 3),
        ('{\n"a": 1,\n"b"}', "a.json", 3),
        ("a: !!binary aGk=", "a.yaml", 1),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, name: str, line: int) -> None:
    with pytest.raises(ManifestError, match=f"{name}:{line}") as refused:
        read_manifests(text, name)
    assert refused.value.line == line


Write = Callable[[str, str], None]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(Simulation(1).clock)


@pytest.fixture
def directory(tmp_path: Path, cluster: Cluster) -> ManifestDirectory:
    return ManifestDirectory(tmp_path, cluster)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> None:
        new = tmp_path / f".{name}"
        new.write_text(text)
        new.replace(tmp_path / name)

    return write_file


@pytest.fixture
def put(write: Write, directory: ManifestDirectory) -> Write:
    """Write a file, and take in the directory."""

    def put_file(name: str, text: str) -> None:
        write(name, text)
        directory.sync()

    return put_file


def test_files_come_change_and_go(tmp_path: Path, cluster: Cluster, directory: ManifestDirectory, put: Write) -> None:
    put("a.yaml", POD_MANIFEST + "---\n" + CONFIGMAP)
    assert cluster.storage.find(WEB) and cluster.storage.find(SETTINGS)
    put("a.yaml", CONFIGMAP.replace('"1"', '"2"'))
    assert cluster.storage.get(SETTINGS)["data"] == {"a": "2"}
    assert cluster.storage.get(WEB)["metadata"]["deletionTimestamp"]
    (tmp_path / "a.yaml").unlink()
    directory.sync()
    assert cluster.storage.find(SETTINGS) is None


def test_a_file_that_is_being_rewritten_in_its_place_is_read_when_it_is_whole(
    tmp_path: Path, cluster: Cluster, directory: ManifestDirectory, put: Write
) -> None:
    """Its first half is a manifest without the pod, and the pod went."""
    put("a.yaml", CONFIGMAP + "---\n" + POD_MANIFEST)
    before = cluster.storage.get(WEB)
    (tmp_path / "a.yaml").write_text(CONFIGMAP.replace('"1"', '"2"'))
    directory.sync()
    (tmp_path / "a.yaml").write_text(CONFIGMAP.replace('"1"', '"2"') + "---\n" + POD_MANIFEST)
    directory.sync()
    assert cluster.storage.get(SETTINGS)["data"] == {"a": "1"}
    directory.sync()
    assert cluster.storage.get(SETTINGS)["data"] == {"a": "2"}
    assert cluster.storage.get(WEB) is before


def test_a_file_that_is_written_again_within_one_tick_of_the_clock_is_read_again(tmp_path: Path) -> None:
    """In its place, with as many bytes: nothing but its content tells that it has changed."""
    simulation, file = Simulation(1), tmp_path / "a.yaml"
    cluster = Cluster(simulation.clock)
    directory, now = ManifestDirectory(tmp_path, cluster), simulation.clock.now()
    for value in "12":
        file.write_text(CONFIGMAP.replace('"1"', f'"{value}"'))
        os.utime(file, (now, now))
        directory.sync()
    for _ in range(3):
        simulation.run_for(SETTLED_SECONDS)
        directory.sync()
    assert cluster.storage.get(SETTINGS)["data"] == {"a": "2"}


def test_the_second_look_at_a_broken_file_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    simulation, file = Simulation(1), tmp_path / "a.yaml"
    directory = ManifestDirectory(tmp_path, Cluster(simulation.clock))
    file.write_text("a: [")
    os.utime(file, (simulation.clock.now(),) * 2)
    for _ in range(3):
        directory.sync()
        simulation.run_for(SETTLED_SECONDS)
    assert len(caplog.messages) == 1


def test_an_unchanged_directory_changes_nothing(cluster: Cluster, directory: ManifestDirectory, put: Write) -> None:
    put("a.yaml", POD_MANIFEST)
    cluster.storage.drain_events()
    directory.sync()
    assert cluster.storage.drain_events() == []


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(CONFIGMAP + "---\na: [", id="it does not parse"),
        pytest.param(CONFIGMAP + "---\n" + POD_MANIFEST.replace("web", "WEB"), id="one document is invalid"),
        pytest.param(CONFIGMAP + "---\n" + CONFIGMAP, id="an object is in it twice"),
        pytest.param("\udcff", id="it is not text"),
    ],
)
def test_a_broken_file_keeps_its_former_state_in_force(
    tmp_path: Path, cluster: Cluster, directory: ManifestDirectory, put: Write, broken: str
) -> None:
    put("a.yaml", POD_MANIFEST)
    before = cluster.storage.get(WEB)
    (tmp_path / ".a.yaml").write_bytes(broken.encode(errors="surrogateescape"))
    (tmp_path / ".a.yaml").replace(tmp_path / "a.yaml")
    directory.sync()
    assert cluster.storage.get(WEB) is before
    assert cluster.storage.find(SETTINGS) is None
    assert "a.yaml:" in directory.errors()[0]
    put("a.yaml", POD_MANIFEST)
    assert directory.errors() == []


def test_an_object_belongs_to_one_file(
    cluster: Cluster, directory: ManifestDirectory, write: Write, put: Write
) -> None:
    write("a.yaml", CONFIGMAP)
    put("b.yaml", CONFIGMAP.replace('"1"', '"2"'))
    assert cluster.storage.get(SETTINGS)["data"] == {"a": "1"}
    assert "is in a.yaml already" in directory.errors()[0]


def test_a_file_with_another_name_has_the_same_objects(
    tmp_path: Path, cluster: Cluster, directory: ManifestDirectory, put: Write
) -> None:
    """Its pods were deleted, and not made again."""
    put("b.yaml", POD_MANIFEST)
    first = cluster.storage.get(WEB)["metadata"]
    for before, after in (("b.yaml", "a.yaml"), ("a.yaml", "c.yaml")):
        (tmp_path / before).rename(tmp_path / after)
        directory.sync()
        found = cluster.storage.get(WEB)["metadata"]
        assert (found["uid"], found.get("deletionTimestamp")) == (first["uid"], None)
        assert found["annotations"][MANIFEST_ANNOTATION] == after
        assert directory.errors() == []
    (tmp_path / "c.yaml").unlink()
    directory.sync()
    assert cluster.storage.get(WEB)["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(("before", "after"), [("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")])
def test_an_object_moves_to_another_file(
    cluster: Cluster, directory: ManifestDirectory, write: Write, put: Write, before: str, after: str
) -> None:
    """At once, in exchange for another one, or in two steps, of which the first is an error."""
    others = CONFIGMAP.replace("settings", "other")
    write(before, CONFIGMAP)
    put(after, others)
    uids = {cluster.storage.get(each)["metadata"]["uid"] for each in (SETTINGS, OTHER)}
    write(before, others)
    put(after, CONFIGMAP)
    put(before, others + "---\n" + CONFIGMAP)
    assert f"is in {after} already" in directory.errors()[0]
    put(after, POD_MANIFEST)
    assert directory.errors() == []
    found = [cluster.storage.get(each)["metadata"] for each in (SETTINGS, OTHER)]
    assert [each["annotations"][MANIFEST_ANNOTATION] for each in found] == [before, before]
    assert cluster.storage.get(OTHER)["metadata"]["uid"] in uids


def test_a_file_that_cannot_be_read_holds_up_no_other_and_is_read_when_it_can_be(
    cluster: Cluster, directory: ManifestDirectory, write: Write, put: Write, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A link into a directory of another user; `chmod` changes no time of a file."""

    def refusing(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Path, *args: Any, **named: Any) -> Any:
            if path.name == "a.yaml":
                raise PermissionError(13, "Permission denied")
            return genuine(path, *args, **named)

        return refuse

    for call in ("stat", "open"):
        with monkeypatch.context() as closed:
            closed.setattr(Path, call, refusing(getattr(Path, call)))
            write("a.yaml", CONFIGMAP.replace('"1"', f'"{call}"'))
            put("b.yaml", POD_MANIFEST)
            directory.sync()
            assert cluster.storage.find(WEB)
        directory.sync()
        assert cluster.storage.get(SETTINGS)["data"] == {"a": call}
    assert directory.errors() == []
    assert len([each for each in caplog.messages if "its former state" in each]) == 1


def test_a_file_that_cannot_be_looked_up_for_a_while_keeps_its_objects(
    cluster: Cluster, directory: ManifestDirectory, put: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.yaml", CONFIGMAP)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "stat", Mock(side_effect=OSError(5, "Input/output error")))
        directory.sync()
    assert cluster.storage.find(SETTINGS)


def test_an_object_that_is_refused_for_another_one_is_made_when_that_has_gone(
    tmp_path: Path, cluster: Cluster, directory: ManifestDirectory, write: Write, put: Write
) -> None:
    """Both Services want one port of the nodes."""
    for name in "ab":
        manifest = f"metadata: {{name: {name}}}\nspec: {{type: NodePort, ports: [{{port: 80, nodePort: 30080}}]}}\n"
        write(f"{name}.yaml", f"apiVersion: v1\nkind: Service\n{manifest}")
    directory.sync()
    assert "already allocated" in directory.errors()[0]
    (tmp_path / "a.yaml").unlink()
    directory.sync()
    assert cluster.storage.find(ObjectKey("Service", "default", "b"))
    assert directory.errors() == []


def test_a_change_that_kubernetes_forbids_is_reported(
    cluster: Cluster, directory: ManifestDirectory, put: Write
) -> None:
    put("a.yaml", POD_MANIFEST)
    put("a.yaml", POD_MANIFEST.replace("name: main", "name: other"))
    assert "pod updates may not change fields" in directory.errors()[0]


def test_a_pod_that_comes_back_while_it_is_being_deleted_is_made_when_it_is_gone(
    tmp_path: Path, cluster: Cluster, directory: ManifestDirectory, put: Write
) -> None:
    put("a.yaml", POD_MANIFEST)
    first = cluster.storage.get(WEB)["metadata"]["uid"]
    (tmp_path / "a.yaml").unlink()
    directory.sync()
    put("a.yaml", POD_MANIFEST)
    assert cluster.storage.get(WEB)["metadata"]["uid"] == first
    cluster.delete(WEB, 0)
    directory.sync()
    assert cluster.storage.get(WEB)["metadata"]["uid"] != first


def test_what_left_the_directory_while_nobody_looked_is_deleted(tmp_path: Path, cluster: Cluster, put: Write) -> None:
    put("a.yaml", CONFIGMAP)
    (tmp_path / "a.yaml").unlink()
    ManifestDirectory(tmp_path, cluster).sync()
    assert cluster.storage.find(SETTINGS) is None


def test_a_file_that_is_broken_when_cloudcore_starts_takes_nothing_away(
    tmp_path: Path, cluster: Cluster, write: Write, put: Write
) -> None:
    """A mistyped line and a restart would end all its pods."""
    put("a.yaml", CONFIGMAP)
    write("a.yaml", CONFIGMAP + "---\na: [")
    later = ManifestDirectory(tmp_path, cluster)
    later.sync()
    assert later.errors()
    assert cluster.storage.find(SETTINGS)


def test_a_directory_whose_objects_were_rolled_back_is_not_loaded(directory: ManifestDirectory, put: Write) -> None:
    """What is not there may be in a file: it would be deleted on its node."""
    put("a.yaml", CONFIGMAP)
    assert directory.loaded
    directory.reset()
    assert not directory.loaded


def test_a_refusal_is_looked_at_ever_more_rarely_and_ends_with_its_file(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StandingClock()
    cluster = Cluster(clock, plugins=PLUGINS)
    monkeypatch.setattr(cluster, "apply", apply := Mock(wraps=cluster.apply))
    directory = ManifestDirectory(tmp_path, cluster)
    write("a.yaml", CONFIGMAP.replace("name: settings", "name: settings, namespace: none"))
    for _ in range(300):
        directory.sync()
        clock.go(1.0)
    assert "none" in directory.errors()[0]
    assert 300 / _LONGEST_PAUSE <= apply.call_count <= 20
    (tmp_path / "a.yaml").rename(tmp_path / "a")
    directory.sync()
    assert directory.errors() == []
    (tmp_path / "a").rename(tmp_path / "a.yaml")
    directory.sync()
    write("b.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: none}\n")
    directory.sync()
    assert directory.errors() == [], "another file is a reason to look again immediately"


def test_other_files_and_a_missing_directory_are_left_alone(tmp_path: Path, cluster: Cluster, write: Write) -> None:
    write("README.md", "a: [")
    directory = ManifestDirectory(tmp_path / "later", cluster)
    directory.sync()
    assert not directory.loaded
    ManifestDirectory(tmp_path, cluster).sync()
    assert cluster.storage.drain_events() == []


def test_a_manifest_of_a_few_lines_does_not_stand_for_gigabytes() -> None:
    """396 bytes took 3 GiB and 54 s."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ManifestError, match=r"b\.yaml:5.*without aliases"):
        read_manifests("\n".join(lines), "b.yaml")
    with pytest.raises(ManifestError, match=r"b\.yaml:1.*nested"):
        read_manifests("[" * 100_000, "b.yaml")
    for depth in (101, 600, 100_000):
        with pytest.raises(ManifestError, match=r"b\.json:1.*nested"):
            read_manifests("[" * depth + "]" * depth, "b.json")
    assert read_manifests("[" * 100 + "]" * 100, "b.json")


def test_a_misspelt_field_is_an_error_with_its_line(cluster: Cluster, directory: ManifestDirectory, put: Write) -> None:
    put("a.yaml", "# a comment\n" + POD_MANIFEST.replace("image:", "imgae:"))
    (error,) = directory.errors()
    assert "a.yaml:7" in error
    assert 'strict decoding error: unknown field "spec.containers[0].imgae"' in error
    assert list(cluster.storage) == []


def test_a_custom_object_with_the_name_of_a_built_in_kind_is_no_such_object(
    cluster: Cluster, directory: ManifestDirectory, put: Write
) -> None:
    """Its error is about its apiVersion, and not about fields that the other kind does not have."""
    put("a.yaml", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: web}\nspec: {template: {}}\n")
    (error,) = directory.errors()
    assert 'Service "web" is invalid: apiVersion' in error
    assert list(cluster.storage) == []


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n"])
def test_an_empty_file_is_an_error_and_takes_nothing_away(
    tmp_path: Path, cluster: Cluster, directory: ManifestDirectory, write: Write, put: Write, text: str
) -> None:
    put("a.yaml", POD_MANIFEST)
    write("a.yaml", text)
    for _ in range(2):
        directory.sync()
    (error,) = directory.errors()
    assert "the file is empty" in error
    assert len(list(cluster.storage)) == 1
    again = ManifestDirectory(tmp_path, cluster)
    again.sync()
    assert len(list(cluster.storage)) == 1, "nor when cloudcore starts again"


def test_a_key_that_is_there_twice_is_refused_with_its_line() -> None:
    for text, name, line in [("a: 1\nb:\n  c: 1\n  c: 2\n", "f.yaml", 4), ('{"a": {"c": 1, "c": 2}}', "f.json", 1)]:
        with pytest.raises(ManifestError, match='key "c" already set in map') as refused:
            read_manifests(text, name)
        assert refused.value.line == line


def test_a_directory_that_is_not_there_or_none_is_an_error_at_start(tmp_path: Path) -> None:
    check_directory(tmp_path)
    (tmp_path / "file").write_text("")
    for path, why in [(tmp_path / "nothing", "there is none"), (tmp_path / "file", "it is no directory")]:
        with pytest.raises(ManifestDirectoryError, match=why):
            check_directory(path)


def test_a_duplicate_key_at_the_end_of_a_large_object_is_found_in_one_pass() -> None:
    """In a hundred thousand passes over the names it took minutes, while the API server stood still."""
    names = [*range(100_000), 99_999]
    text = "{" + ",".join(f'"k{name}":1' for name in names) + "}"
    with pytest.raises(ManifestError, match='key "k99999" already set in map'):
        read_manifests(text, "a.json")
