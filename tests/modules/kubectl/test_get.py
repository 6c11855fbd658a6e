"""`get` against a real cloudcore."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from modules.cli.errors import StatusError
from modules.kubectl.resources import ObjectRef, fetch_refs
from modules.kubectl.watching import WatchedChange
from tests.modules.kubectl.cloud import Cloud, config_map, event, node, pod

RUNNING = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True, "restartCount": 2,
           "image": "busybox:1.35", "imageID": "", "state": {"running": {}}}]}  # fmt: skip


def test_a_table(cloud: Cloud) -> None:
    cloud.make(pod("web", status=RUNNING), pod("db"))
    done = cloud.run("get", "pods")
    assert done.rows[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in done.rows[1:]] == [["db", "0/1", "Pending", "0"], ["web", "1/1", "Running", "2"]]
    assert cloud.run("get", "po", "--no-headers").rows[0][0] == "db"
    assert cloud.run("get", "po", "-o", "wide").rows[0][5:7] == ["IP", "NODE"]
    assert cloud.run("get", "po", "-owide").lines[0] == cloud.run("get", "po", "-o=wide").lines[0]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("pods",), ["pod/api", "pod/web"]),
        (("pod/web",), ["pod/web"]),
        (("po", "web", "api"), ["pod/web", "pod/api"]),
        (("Pod", "-n", "other"), ["pod/far"]),
        (("-n=other", "pods"), ["pod/far"]),
        (("pods.v1.", "-A"), ["pod/api", "pod/web", "pod/far"]),
        (("pods,cm",), ["pod/api", "pod/web", "configmap/colours"]),
        (("pod/web", "cm/colours"), ["pod/web", "configmap/colours"]),
        (("pods", "-l", "app=web"), ["pod/web"]),
        (("pods", "-lapp!=web"), ["pod/api"]),
        (("pods", "-l", "app in (web, api)"), ["pod/api", "pod/web"]),
        (("pods", "--field-selector", "metadata.name=api"), ["pod/api"]),
        (("all",), ["pod/api", "pod/web"]),
        (("pods", "--sort-by=.metadata.name"), ["pod/api", "pod/web"]),
        (("pods", "--sort-by=.metadata.labels.rank"), ["pod/web", "pod/api"]),
        (("pods", "--chunk-size=1"), ["pod/api", "pod/web"]),
        (("no",), ["node/n1"]),
    ],
)
def test_names(cloud: Cloud, words: tuple[str, ...], names: list[str]) -> None:
    cloud.make(pod("web", labels={"app": "web", "rank": "1"}), pod("api", labels={"app": "api", "rank": "2"}),
               pod("far", "other"), config_map(), node())  # fmt: skip
    done = cloud.run("get", *words, "-o", "name")
    assert (done.status, done.lines) == (0, names), done.err


def test_several_types_have_tables_of_their_own(cloud: Cloud) -> None:
    cloud.make(pod(), config_map(sky="blue"))
    lines = cloud.run("get", "pods,cm").lines
    assert lines[1].startswith("pod/web   0/1")
    assert lines[2] == ""
    assert lines[3].split() == ["NAME", "DATA", "AGE"]
    assert lines[4].startswith("configmap/colours   1")


def test_one_object_as_json_and_yaml_and_several_as_a_list(cloud: Cloud) -> None:
    cloud.make(pod(), config_map(sky="blue"))
    assert cloud.run("get", "cm", "colours", "-o", "json").object["data"] == {"sky": "blue"}
    assert "data:\n  sky: blue\n" in cloud.run("get", "cm/colours", "-o", "yaml").out
    listed = cloud.run("get", "cm,pods", "-o", "json").object
    assert (listed["kind"], [each["kind"] for each in listed["items"]]) == ("List", ["ConfigMap", "Pod"])
    assert cloud.run("get", "cm", "-l", "a=b", "-o", "json").object["items"] == []


def test_templates(cloud: Cloud, tmp_path: Path) -> None:
    cloud.make(pod("api"), pod("web"))
    assert cloud.run("get", "pod", "web", "-o", "jsonpath={.metadata.name}").out == "web"
    assert cloud.run("get", "pods", "-o", "jsonpath={.items[*].metadata.name}").out == "api web"
    assert cloud.run("get", "pods", "-o", "custom-columns=N:.metadata.name").lines == ["N", "api", "web"]
    (tmp_path / "t").write_text("{.kind}")
    assert cloud.run("get", "pods", "-o", f"jsonpath-file={tmp_path / 't'}").out == "List"
    assert "read" in cloud.run("get", "pods", "-o", f"jsonpath-file={tmp_path / 'none'}").err


def test_the_kinds_of_a_category_are_shown(cloud: Cloud) -> None:
    cloud.make(pod())
    assert cloud.run("get", "all").rows[1][0] == "pod/web"


def test_labels_are_shown(cloud: Cloud) -> None:
    cloud.make(pod(labels={"app": "web", "tier": "front"}))
    done = cloud.run("get", "pods", "--show-labels", "-L", "app,tier")
    assert done.rows[0][5:] == ["APP", "TIER", "LABELS"]
    assert done.rows[1][5:] == ["web", "front", "app=web,tier=front"]


def test_nothing_there_is_reported(cloud: Cloud) -> None:
    assert cloud.run("get", "pods").err == "No resources found in default namespace.\n"
    assert cloud.run("get", "pods", "-n", "far").err == "No resources found in far namespace.\n"
    assert cloud.run("get", "pods", "-A").err == "No resources found\n"
    assert cloud.run("get", "nodes").err == "No resources found\n"
    assert cloud.run("get", "pods", "-l", "a=b", "--ignore-not-found") == (0, "", "")


def test_some_not_there_do_not_hide_the_others(cloud: Cloud) -> None:
    cloud.make(pod())
    done = cloud.run("get", "pod", "nothing", "web")
    assert (done.status, done.err) == (1, 'Error from server (NotFound): pods "nothing" not found\n')
    assert done.rows[1][0] == "web"
    assert cloud.run("get", "pod", "nothing", "--ignore-not-found") == (0, "", "")


@pytest.mark.parametrize(("code", "is_told"), [(404, False), (403, True), (500, True)])
def test_only_what_is_not_there_is_ignored(*, code: int, is_told: bool) -> None:
    session = Mock()
    session.client.get.side_effect = StatusError(code, "NotFound" if code == 404 else "Other", "no")
    found, errors = fetch_refs(session, [ObjectRef(Mock(), "default", "web")], ignore_not_found=True)
    assert (found, bool(errors)) == ([], is_told)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("podz",), 'the server doesn\'t have a resource type "podz"; did you mean pods?'),
        ((), "the type of resource to get is missing"),
        (("pods", "pod/web"), "there is no need to specify a resource type as a separate argument"),
        (("pod/a/b",), "more than one slash"),
        (("pod/",), "must have a single resource and name"),
        (("pods,cm/x",), "must have a single resource and name"),
        (("pod", "web", "-l", "a=b"), "name cannot be provided when a selector is specified"),
        (("pod", "web", "-A"), "cannot be retrieved by name across all namespaces"),
        (("pods", "-f", "x.yaml"), "leave out pods"),
        (("-f", "/nothing.yaml"), 'the path "/nothing.yaml" does not exist'),
        (("-f", "http://192.0.2.1/x.yaml"), "fetch it and look at it first"),
        (("pods", "-o", "odd"), "allowed formats are: json, yaml"),
        (("pods", "-o", "jsonpath"), "no template given"),
        (("pods", "-o", "go-template={{.kind}}"), "-o jsonpath="),
        (("pods", "-o", "jsonpath={.x"), "{.x"),
        (("pods,cm", "-w"), "single resource type"),
        (("pods", "-l", "=="), "found '==', expected: !, identifier, or 'end of string'"),
    ],
)
def test_refusals_and_their_reasons(empty_cloud: Cloud, words: tuple[str, ...], said: str) -> None:
    done = empty_cloud.run("get", *words)
    assert (done.status, done.out) == (1, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_what_manifests_describe(cloud: Cloud, tmp_path: Path) -> None:
    cloud.make(pod(), config_map())
    (tmp_path / "below").mkdir()
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n")
    (tmp_path / "below" / "b.json").write_text(
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colours"}}'
    )
    (tmp_path / "notes.txt").write_text("not: [a manifest")
    assert cloud.run("get", "-f", str(tmp_path), "-o", "name").lines == ["pod/web"]
    assert cloud.run("get", "-Rf", str(tmp_path), "-o", "name").lines == ["pod/web", "configmap/colours"]


def test_events_are_in_the_order_of_their_times(cloud: Cloud) -> None:
    cloud.make(
        event("b", "2026-11-20T01:00:00Z"), event("a", "2026-11-20T02:00:00Z"), event("c", "2026-11-20T00:00:00Z")
    )
    assert [row[-1] for row in cloud.run("get", "ev", "--no-headers").rows] == ["c", "b", "a"]
    ordered = cloud.run("get", "ev", "--sort-by=.metadata.name", "-o", "name")
    assert ordered.lines == ["event/a", "event/b", "event/c"]


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch brings two changes, and ends."""

    def changes(*_args: Any) -> Iterator[WatchedChange]:
        yield WatchedChange("MODIFIED", pod("web", labels={"a": "b"}))
        yield WatchedChange("DELETED", pod("other"))

    monkeypatch.setattr("modules.kubectl.get.followed", changes)


def test_a_watch_shows_the_present_objects_and_then_each_change(cloud: Cloud, changed: None) -> None:
    cloud.make(pod())
    assert [row[0] for row in cloud.run("get", "pods", "-w").rows] == ["NAME", "web", "web", "other"]
    assert [row[0] for row in cloud.run("get", "pods", "--watch-only", "--no-headers").rows] == ["web", "other"]
    assert cloud.run("get", "pod", "web", "-w", "-o", "name").lines == ["pod/web", "pod/web", "pod/other"]
    events = cloud.run("get", "pods", "-w", "--output-watch-events").rows
    assert [row[:2] for row in events] == [
        ["EVENT", "NAME"],
        ["ADDED", "web"],
        ["MODIFIED", "web"],
        ["DELETED", "other"],
    ]
    shown = cloud.run("get", "pods", "--watch-only", "--output-watch-events", "-o", "yaml").out
    assert "type: MODIFIED\n" in shown
    assert "kind: Pod\n" in cloud.run("get", "pods", "--watch-only", "-o", "yaml").out
    assert cloud.run("get", "pods", "-w", "-o", "custom-columns=N:.metadata.name").lines == ["N", "web", "web", "other"]


def test_a_watch_begins_with_an_aligned_table(cloud: Cloud, changed: None) -> None:
    """The widths fit all rows, not each row by itself."""
    for name in ("a", "web", "a-pod-with-a-long-name"):
        cloud.make(pod(name))
    lines = cloud.run("get", "pods", "-w").lines
    assert {line.index("0/1") for line in lines[1:4]} == {lines[0].index("READY")}


def test_a_watch_of_a_missing_object(cloud: Cloud) -> None:
    done = cloud.run("get", "pod", "nothing", "-w")
    assert (done.status, done.err) == (1, 'Error from server (NotFound): pods "nothing" not found\n')


def test_raw_answers(cloud: Cloud) -> None:
    assert cloud.run("get", "--raw", "/api").object["versions"] == ["v1"]
    assert cloud.run("get", "--raw", "api").status == 1
    assert cloud.run("get", "--raw", "/nothing").status == 1


def test_a_part_of_an_object(cloud: Cloud) -> None:
    cloud.make(pod(status=RUNNING))
    shown = cloud.run("get", "pod", "web", "--subresource=status", "-o", "json").object
    assert shown["status"]["phase"] == "Running"
    assert "name of an object" in cloud.run("get", "pods", "--subresource=status").err


def test_colours_are_for_who_asks_for_them(cloud: Cloud) -> None:
    cloud.make(pod(status=RUNNING))
    assert "\x1b[32mRunning\x1b[0m" in cloud.run("get", "pods", "--color=always").out
    assert "\x1b" not in cloud.run("get", "pods").out
