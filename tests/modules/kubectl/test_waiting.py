"""`delete`, `wait` and watches against a real cloudcore."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from modules.cli.errors import StatusError, TimedOutError, UsageError
from modules.cli.rest import MERGE_PATCH, RestClient
from modules.kubectl import delete, wait, watching
from modules.kubectl.durations import seconds_of
from modules.kubectl.resources import Listing, ObjectRef
from modules.kubectl.wait import read_goal
from modules.kubectl.watching import changes, followed, states
from tests.modules.kubectl.cloud import Cloud, Done, config_map, node, pod

PATH = "/api/v1/namespaces/default/pods/web"
AT_ONCE = {"gracePeriodSeconds": 0}


def set_status(cloud: Cloud, **status: Any) -> None:
    cloud.client.request("PATCH", f"{PATH}/status", (), {"status": status}, MERGE_PATCH)


def meanwhile(cloud: Cloud, words: tuple[str, ...], act: Callable[[], object]) -> Done:
    """Run a command that waits, and act when it asks for the object the second time: as a watch, which then waits."""
    waits = threading.Event()
    lines = type(cloud.client).lines

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = lines(self, *args, **kwargs)
        waits.set()
        return found

    def act_then() -> None:
        waits.wait()
        act()

    acting = threading.Thread(target=act_then)
    acting.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("modules.cli.rest.RestClient.lines", noted)
        done = cloud.run(*words)
    acting.join()
    return done


def test_objects_without_a_grace_period_are_deleted_immediately(cloud: Cloud) -> None:
    cloud.make(config_map())
    assert cloud.run("delete", "cm", "colours") == (0, 'configmap "colours" deleted\n', "")
    again = cloud.run("delete", "cm/colours")
    assert (again.status, again.err) == (1, 'Error from server (NotFound): configmaps "colours" not found\n')
    assert cloud.run("delete", "cm/colours", "--ignore-not-found") == (0, "", "")


def test_delete_waits_for_the_node_and_prints_it(cloud: Cloud) -> None:
    cloud.make(node(), pod())
    done = meanwhile(cloud, ("delete", "pod", "web"), lambda: cloud.client.request("DELETE", PATH, body=AT_ONCE))
    assert (done.status, done.out) == (0, 'pod "web" deleted\n')
    assert done.err == "waiting until pod/web is gone (--wait=false does not wait)\n"


def test_delete_without_a_limit_waits_as_long_as_it_takes(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Mock(return_value=[None])
    monkeypatch.setattr(delete, "states", look)
    cloud.make(node(), pod())
    assert cloud.run("delete", "pod", "web").status == 0
    assert look.call_args.kwargs == {"ends": None}


def test_delete_does_not_wait_for_ever(cloud: Cloud) -> None:
    cloud.make(node(), pod())
    assert cloud.run("delete", "pod/web", "--wait=false") == (0, 'pod "web" deleted\n', "")
    late = cloud.run("delete", "pod/web", "--timeout=1ms")
    assert late.status == 1
    assert late.err.endswith("error: timed out waiting for the condition on pods/web\n")


@pytest.mark.parametrize(
    ("words", "grace"),
    [((), 30), (("--grace-period=5",), 5), (("--grace", "7"), 7), (("--now",), 1), (("--grace-period", "0"), 1)],
)
def test_grace_periods(cloud: Cloud, words: tuple[str, ...], grace: int) -> None:
    """The node exists: cloudcore removes deleted pods of others every five seconds."""
    cloud.make(node(), pod())
    assert cloud.run("delete", "pod/web", "--wait=false", *words).status == 0
    assert cloud.client.get(PATH)["metadata"]["deletionGracePeriodSeconds"] == grace


@pytest.mark.parametrize("words", [("--force",), ("--grace", "0"), ("--force", "--grace-period=0")])
def test_force_does_not_wait_for_the_node(cloud: Cloud, words: tuple[str, ...]) -> None:
    cloud.make(pod())
    done = cloud.run("delete", "pod/web", *words)
    assert (done.status, done.out) == (0, 'pod "web" force deleted\n')
    assert done.err.startswith("Warning: Immediate deletion")
    assert cloud.run("get", "pods", "-o", "name").out == ""


def test_many_are_deleted(cloud: Cloud, tmp_path: Path) -> None:
    cloud.make(config_map("a"), config_map("b"), config_map("c"), config_map("d"))
    (tmp_path / "f.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert cloud.run("delete", "-f", str(tmp_path / "f.yaml"), "-o", "name").out == "configmap/a\n"
    assert cloud.run("delete", "cm", "b", "nothing").lines == ['configmap "b" deleted']
    assert "-l or --all" in cloud.run("delete", "cm").err
    assert cloud.run("delete", "cm", "-l", "a=b").out == "No resources found\n"
    assert cloud.run("delete", "cm", "--all").lines == ['configmap "c" deleted', 'configmap "d" deleted']
    assert cloud.run("delete", "cm", "--all") == (0, "No resources found\n", "")


@pytest.mark.parametrize("words", [("-l", "app=x"), ("--all",), ("--field-selector", "metadata.name=a")])
def test_an_object_of_a_list_that_is_gone_meanwhile_is_no_error(
    cloud: Cloud, words: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    obj = config_map("a") | {"metadata": {"name": "a", "labels": {"app": "x"}}}
    cloud.make(obj)
    request = RestClient.request

    def twice(self: RestClient, method: str, *args: Any, **kwargs: Any) -> Any:
        if method == "DELETE":
            request(self, method, *args, **kwargs)
        return request(self, method, *args, **kwargs)

    monkeypatch.setattr(RestClient, "request", twice)
    assert cloud.run("delete", "cm", *words).status == 0
    cloud.make(obj)
    assert cloud.run("delete", "cm", "a").status == 1
    cloud.make(obj)
    for refused in ("DELETE", "GET"):

        def refuse(self: RestClient, method: str, path: str, *args: Any, refused: str = refused, **kwargs: Any) -> Any:
            if method == refused and "/configmaps" in path:
                raise StatusError(403, "Forbidden", "not you")
            return request(self, method, path, *args, **kwargs)

        monkeypatch.setattr(RestClient, "request", refuse)
        done = cloud.run("delete", "cm", *words)
        assert (done.status, done.err) == (1, "Error from server (Forbidden): not you\n"), refused


def test_dry_runs_delete_nothing(cloud: Cloud) -> None:
    cloud.make(pod())
    assert cloud.run("delete", "pod/web", "--dry-run=client").out == 'pod "web" deleted (dry run)\n'
    assert cloud.run("delete", "pod/web", "--dry-run=server").out == 'pod "web" deleted (server dry run)\n'
    assert cloud.run("delete", "pod/none", "--dry-run=client").status == 1
    assert "deletionTimestamp" not in cloud.client.get(PATH)["metadata"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the type of resource to delete is missing"),
        (("pod/web", "--now", "--grace-period=3"), "cannot be specified together"),
        (("pod/web", "--force", "--grace-period=3"), "cannot be specified together"),
        (("pod/web", "--timeout=soon"), "invalid duration"),
        (("pod/web", "--all"), "--all"),
    ],
)
def test_deletions_that_are_refused(empty_cloud: Cloud, words: tuple[str, ...], said: str) -> None:
    done = empty_cloud.run("delete", *words)
    assert done.status == 1
    assert said in done.err


def test_wait_for_a_condition(cloud: Cloud) -> None:
    cloud.make(pod())
    ready = [{"type": "Ready", "status": "True"}]
    done = meanwhile(cloud, ("wait", "--for=condition=Ready", "pod/web"), lambda: set_status(cloud, conditions=ready))
    assert done == (0, "pod/web condition met\n", "")
    assert cloud.run("wait", "--for=condition=ready=true", "pods", "--all").out == "pod/web condition met\n"
    late = cloud.run("wait", "--for", "condition=Ready=False", "pod", "web", "--timeout=1ms")
    assert (late.status, late.err) == (1, "error: timed out waiting for the condition on pods/web\n")
    cloud.make(pod("other"))
    both = cloud.run("wait", "--for=condition=Ready=False", "pod/web", "pod/other", "--timeout=1ms")
    assert [line.rpartition("/")[2] for line in both.err.splitlines()] == ["web", "other"]


def test_wait_for_a_value(cloud: Cloud) -> None:
    cloud.make(pod())
    goal = "--for=jsonpath='{.status.phase}'=Running"
    done = meanwhile(cloud, ("wait", goal, "pod/web"), lambda: set_status(cloud, phase="Running"))
    assert done.out == "pod/web condition met\n"
    assert cloud.run("wait", "--for=jsonpath={.status.phase}", "pod/web").status == 0


def test_wait_for_creation_and_for_the_end(cloud: Cloud) -> None:
    made = meanwhile(cloud, ("wait", "--for=create", "pod/web"), lambda: cloud.make(pod()))
    assert made.out == "pod/web condition met\n"
    end = ("wait", "--for=delete", "pod/web")
    gone = meanwhile(cloud, end, lambda: cloud.client.request("DELETE", PATH, body=AT_ONCE))
    assert gone.out == "pod/web condition met\n"
    assert cloud.run(*end) == (0, "", "")


def test_wait_for_a_missing_object(cloud: Cloud) -> None:
    done = cloud.run("wait", "--for=condition=Ready", "pod/web")
    assert (done.status, done.err) == (1, 'Error from server (NotFound): pods "web" not found\n')
    assert cloud.run("wait", "--for=condition=Ready", "pods", "-l", "a=b").err == "error: no matching resources found\n"


@pytest.mark.parametrize("text", ["", "Ready", "condition", "condition=", "delete=1", "jsonpath="])
def test_goals_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--for"):
        read_goal(text)


def test_a_condition_of_an_older_generation_does_not_count() -> None:
    obj = {"metadata": {"generation": 2}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    goal = read_goal("condition=Ready")
    assert goal.met(obj)
    obj["status"]["conditions"][0]["observedGeneration"] = 1  # type: ignore[index]
    assert not goal.met(obj)


def test_a_value_of_several_or_of_another_type_counts() -> None:
    obj = {"status": {"a": [{"n": 1}, {"n": 2}], "is": True}}
    goals = {"{.status.a[*].n}=2": True, "{.status.a[*].n}=3": False, "{.status.is}=true": True, "{.status.b}": False}
    assert {text: read_goal(f"jsonpath={text}").met(obj) for text in goals} == goals


def test_an_object_that_is_made_again_ends_the_wait_for_the_end_of_the_former(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ({"metadata": {"uid": uid}} for uid in ("former", "later", "other"))
    monkeypatch.setattr("modules.kubectl.delete.states", lambda *_, **__: made)
    said = list[str]()
    session: Any = SimpleNamespace(print_remark=said.append)
    pods: Any = SimpleNamespace(shown=str, plural="pods")
    delete._wait(session, [(ObjectRef(pods, "default", "web"), "former")], None)
    assert (len(list(made)), len(said)) == (1, 1), "it ends with the later one"


def test_an_object_that_goes_while_its_condition_is_awaited_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    monkeypatch.setattr("modules.kubectl.wait.states", lambda *_, **__: iter([{"status": {}}, None, ready]))
    ref = ObjectRef(cast("Any", None), "default", "web")
    assert wait._await(cast("Any", None), ref, read_goal("condition=Ready"), 0.0) == ready


def test_a_watch_goes_on_from_the_last_version_that_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a bookmark; one that has brought nothing rests first, and a refusal but the version's ends it."""
    asked, rests, listed = list[Any](), list[float](), list[Any]()

    def event(kind: str, version: str) -> bytes:
        return msgspec.json.encode({"type": kind, "object": {"metadata": {"resourceVersion": version}}})

    rounds: list[Any] = [
        [event("ADDED", "5"), event("BOOKMARK", "9")],
        [],
        [event("MODIFIED", "11")],
        StatusError(410, "", "old"),
    ]

    def lines(_path: str, query: Any, *, ends: float | None) -> Any:
        asked.append(dict(query))
        found = rounds.pop(0)
        if isinstance(found, Exception):
            raise found
        return iter(found)

    session: Any = SimpleNamespace(client=SimpleNamespace(lines=lines))
    pods: Any = SimpleNamespace(path=lambda *_: "/pods")
    monkeypatch.setattr("modules.kubectl.watching.time.sleep", rests.append)
    monkeypatch.setattr("modules.kubectl.watching.objects_of", lambda *_: (listed, "20"))
    listed += [{"metadata": {"name": name}} for name in ("a", "b")]
    found = followed(session, Listing(pods, ""), "1")
    assert [next(found).event for _ in range(4)] == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED"]
    rounds.append(StatusError(403, "", "not you"))
    with pytest.raises(StatusError, match="not you"):
        next(found)
    assert ([each["resourceVersion"] for each in asked], rests) == (["1", "9", "9", "11", "20"], [1.0])
    assert {each["allowWatchBookmarks"] for each in asked} == {"true"}


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90s", 90), ("1m30s", 90), ("2h", 7200), ("100ms", 0.1),
                                               ("1.5m", 90), ("-1s", 7 * 24 * 3600)])  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5x", "1m 5s", "9" * 50 + "s"])
def test_durations_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid duration"):
        seconds_of(text)


def test_a_watch_follows_the_changes(cloud: Cloud) -> None:
    pods = cloud.session.discovery.one("pods")
    watch = changes(cloud.session, Listing(pods, "default"), "")
    cloud.make(pod())
    assert (event := next(watch)).event == "ADDED"
    assert event.object["metadata"]["name"] == "web"
    set_status(cloud, phase="Running")
    assert next(watch).event == "MODIFIED"
    cloud.client.request("DELETE", PATH, body=AT_ONCE)
    assert next(change for change in watch if change.event != "MODIFIED").event == "DELETED"
    watch.close()


def test_states_begin_with_the_present_objects_and_end_with_the_time(cloud: Cloud) -> None:
    ref = ObjectRef(cloud.session.discovery.one("pods"), "default", "web")
    found = states(cloud.session, ref, ends=0.0)
    assert next(found) is None
    with pytest.raises(TimedOutError):
        next(found)


def test_a_forgotten_version_is_an_error_of_a_watch(cloud: Cloud) -> None:
    pods = cloud.session.discovery.one("pods")
    with pytest.raises(StatusError) as refused:
        next(changes(cloud.session, Listing(pods, "default"), "99999999"))
    assert refused.value.code == 410 or refused.value.reason in ("Expired", "Timeout", "Gone")


def test_followed_objects_are_listed_again_where_the_server_has_forgotten_the_version(cloud: Cloud) -> None:
    cloud.make(pod())
    found = followed(cloud.session, Listing(cloud.session.discovery.one("pods"), "default"), "99999999")
    listed = next(found)
    assert (listed.event, listed.object["metadata"]["name"]) == ("MODIFIED", "web")
    cloud.client.request("DELETE", PATH, body=AT_ONCE)
    assert "DELETED" in (change.event for change in found)
    found.close()


def test_states_are_read_again_where_the_server_serves_no_watch(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """As cloudcore between a cluster and its nodes."""
    cloud.make(pod())
    refused = StatusError(405, "MethodNotAllowed", "no watch")
    monkeypatch.setattr(cloud.client, "lines", Mock(side_effect=refused))
    monkeypatch.setattr(watching, "_PAUSE", 0.0)
    ref = ObjectRef(cloud.session.discovery.one("pods"), "default", "web")
    found = states(cloud.session, ref)
    assert [next(found) is not None, next(found) is not None] == [True, True]
    cloud.client.request("DELETE", PATH, body=AT_ONCE)
    assert next(found) is None
    found = states(cloud.session, ref, ends=0.0)
    assert next(found) is None
    with pytest.raises(TimedOutError):
        next(found)


def test_states_begin_again_where_the_server_has_forgotten_the_version(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.make(pod())
    lines = cloud.client.lines
    asked: list[object] = []

    def forgetful(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        if len(asked) == 1:
            raise StatusError(410, "Expired", "too old resource version")
        return lines(*args, **kwargs)

    monkeypatch.setattr(cloud.client, "lines", forgetful)
    found = states(cloud.session, ObjectRef(cloud.session.discovery.one("pods"), "default", "web"))
    assert next(found) is not None
    assert next(found) is not None
    cloud.client.request("DELETE", PATH, body=AT_ONCE)
    assert None in found
    found.close()
