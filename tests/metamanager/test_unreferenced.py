"""Configmaps and secrets go from the store when nothing on the node uses them any more, and not before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import ModuleName, Operation
from beehive.testing import Harness
from metamanager.errors import StoreError, StoreWriteError
from metamanager.sqlite_store import SqliteStore
from metamanager.tokens import bound_uid
from metamanager.unreferenced import CHECK_SECONDS, unreferenced
from tests.metamanager.support import META, cloud_answers, from_cloud, from_edged, node, store_of, thing

CONFIG, SECRET, POD = "default/configmap/c", "default/secret/s", "default/pod/p"
TOKEN = "default/serviceaccounttoken/shop"  # noqa: S105 - a resource
COMPLETE = "null/store/complete"
TWICE = 2 * CHECK_SECONDS + 1

_USES: dict[str, dict[str, Any]] = {
    "volume": {"volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "secret": {"secretName": "s"}}]},
    "projected volume": {
        "volumes": [{"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}}]
    },
    "variable": {
        "containers": [
            {"env": [{"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]},
            {"envFrom": [{"secretRef": {"name": "s"}}]},
        ]
    },
    "init container and pull secret": {
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}],
        "imagePullSecrets": [{"name": "s"}],
    },
    "something that does not exist yet": {"newIn2030": [[{"refs": ["c", "s"]}]]},
}


def text(name: str, **fields: Any) -> str:
    return msgspec.json.encode(thing(name, **fields)).decode()


def kept() -> dict[str, list[str]]:
    return {"configmap": [text("c")], "secret": [text("s")]}


@pytest.mark.parametrize("spec", _USES.values(), ids=_USES)
def test_an_object_that_a_pod_names_in_any_field_is_kept(spec: dict[str, Any]) -> None:
    assert unreferenced(kept(), [text("p", spec=spec)]) == {}


def test_references_of_a_volume_without_a_namespace_are_needed() -> None:
    spec = {"csi": {"nodePublishSecretRef": {"name": "s", "namespace": "storage"}}}
    assert set(unreferenced(kept(), [text("pv", spec=spec)])) == {CONFIG}


def test_a_key_or_a_part_of_a_text_is_no_name() -> None:
    spec = {"c": "1", "command": ["cat s"]}
    assert set(unreferenced(kept(), [text("p", spec=spec)])) == {CONFIG, SECRET}


def test_nothing_is_unneeded_while_a_pod_cannot_be_read() -> None:
    assert unreferenced(kept(), [text("p"), '{"metadata":']) == {}


def test_an_object_without_a_name_is_passed_over() -> None:
    assert unreferenced({"secret": ["{}", "[]", "nonsense"]}, []) == {}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(around=_JSON, path=st.lists(st.sampled_from(["list", "dict"]), max_size=6))
def test_however_deep_a_name_is_it_is_found(around: Any, path: list[str]) -> None:
    found: Any = "c"
    for step in path:
        found = [around, found] if step == "list" else {"a": around, "z": found}
    assert CONFIG not in unreferenced(kept(), [msgspec.json.encode([around, found]).decode()])


@pytest.fixture
def bee() -> Iterator[Harness]:
    """metamanager with a pod, what it uses, and a store that knows all pods."""
    with node(connected=True) as harness:
        harness.send(META, from_edged(harness, COMPLETE, Operation.UPDATE, thing("complete")))
        push(harness, CONFIG, thing("c"))
        push(harness, SECRET, thing("s"))
        push(harness, POD, thing("p", spec=_USES["volume"]))
        yield harness


def push(bee: Harness, resource: str, content: Any, operation: str = Operation.UPDATE, wait: float = 0.0) -> None:
    bee.send(META, from_cloud(bee, resource, operation, content), wait=wait)


def stored(bee: Harness) -> set[str]:
    return {key for key in (CONFIG, SECRET) if store_of(bee).get(key) is not None}


def test_objects_are_kept_as_long_as_their_pod(bee: Harness) -> None:
    bee.run_for(10 * CHECK_SECONDS)
    assert stored(bee) == {CONFIG, SECRET}
    push(bee, POD, thing("p"), Operation.DELETE, wait=TWICE)
    assert stored(bee) == set()


def test_objects_are_deleted_some_time_after_their_pod(bee: Harness) -> None:
    """Neither edged nor the cloud gets a message about it."""
    push(bee, POD, thing("p"), Operation.DELETE)
    bee.forget()
    bee.run_for(CHECK_SECONDS - 1)
    assert stored(bee) == {CONFIG, SECRET}
    bee.run_for(CHECK_SECONDS + 2)
    assert stored(bee) == set()
    assert bee.sent_to(ModuleName.EDGED) == bee.sent_to(ModuleName.EDGEHUB) == []


def test_an_object_that_comes_again_as_it_was_gets_another_term(bee: Harness) -> None:
    push(bee, POD, thing("p"), Operation.DELETE, wait=TWICE)
    for resource, name in ((CONFIG, "c"), (SECRET, "s")):
        push(bee, resource, thing(name))
    bee.run_for(CHECK_SECONDS + 1)
    assert stored(bee) == {CONFIG, SECRET}
    bee.run_for(CHECK_SECONDS)
    assert stored(bee) == set()


def test_a_check_that_fails_is_repeated(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    push(bee, POD, thing("p"), Operation.DELETE)
    with monkeypatch.context() as failing:
        failing.setattr(SqliteStore, "get_all", mock.Mock(side_effect=StoreError("read the database")))
        bee.run_for(CHECK_SECONDS + 1)
    bee.run_for(TWICE)
    assert stored(bee) == set()


def test_a_deletion_that_the_disk_does_not_take_is_repeated(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    push(bee, POD, thing("p"), Operation.DELETE, wait=CHECK_SECONDS + 1)
    with monkeypatch.context() as failing:
        lost = StoreWriteError("commit", "the database", "disk full", batch_lost=True)
        failing.setattr(SqliteStore, "commit", mock.Mock(side_effect=lost))
        bee.run_for(CHECK_SECONDS)
    assert stored(bee) == {CONFIG, SECRET}
    bee.run_for(TWICE)
    assert stored(bee) == set()


def test_an_object_that_another_pod_uses_is_kept(bee: Harness) -> None:
    push(bee, "default/pod/q", thing("q", uid="uid-q", spec={"imagePullSecrets": [{"name": "s"}]}))
    push(bee, POD, thing("p"), Operation.DELETE, wait=TWICE)
    assert stored(bee) == {SECRET}


def test_a_pod_that_comes_again_between_two_looks_keeps_them(bee: Harness) -> None:
    push(bee, POD, thing("p"), Operation.DELETE, wait=CHECK_SECONDS + 1)
    push(bee, POD, thing("p", uid="uid-2", spec=_USES["volume"]), wait=TWICE)
    assert stored(bee) == {CONFIG, SECRET}


def test_a_just_changed_object_gets_another_term(bee: Harness) -> None:
    """It may be for a pod that is on its way."""
    push(bee, POD, thing("p"), Operation.DELETE, wait=CHECK_SECONDS + 1)
    push(bee, CONFIG, thing("c", version=2), wait=CHECK_SECONDS + 1)
    assert stored(bee) == {CONFIG}
    bee.run_for(CHECK_SECONDS + 1)
    assert stored(bee) == set()


def test_an_object_pushed_without_a_pod_goes_too(bee: Harness) -> None:
    """KubeEdge's cloud pushes until it is started again what pods here once used."""
    push(bee, POD, thing("p"), Operation.DELETE, wait=10 * CHECK_SECONDS)
    push(bee, SECRET, thing("s", version=2), wait=TWICE)
    assert stored(bee) == set()


def test_a_pod_that_comes_later_gets_the_clouds_state_of_then(bee: Harness) -> None:
    """Not what an earlier pod was given: the cloud need not have pushed what has changed meanwhile."""
    push(bee, POD, thing("p"), Operation.DELETE, wait=TWICE)
    cloud_answers(bee, lambda _: thing("c", version=7))
    answer = bee.ask(META, from_edged(bee, CONFIG, Operation.QUERY), 1)
    assert answer.content_as(dict)["metadata"]["resourceVersion"] == "7"
    bee.settle()
    assert CONFIG in stored(bee)


def ask_for_token(bee: Harness, owner: dict[str, str]) -> None:
    """Ask for a token as edged does; the cloud grants it."""
    cloud_answers(bee, lambda question: {**question.content_as(dict), "status": {"token": "t"}})
    bee.future(META, from_edged(bee, TOKEN, Operation.QUERY, {"spec": {"boundObjectRef": owner}}))
    bee.settle()


def tokens(bee: Harness) -> list[str]:
    """The uids of the stored tokens' owners."""
    return [bound_uid(value) for value in store_of(bee).get_all("serviceaccounttoken")]


@pytest.mark.parametrize("content", [None, {"metadata": {"name": "p", "namespace": "default"}}])
def test_tokens_of_a_pod_that_was_deleted_without_a_uid_are_deleted(bee: Harness, content: Any) -> None:
    """Tokens of no pod and of other pods stay."""
    push(bee, "default/pod/q", thing("q", uid="uid-q"))
    for owner in ({"uid": "uid-1"}, {"uid": "uid-q"}, {}):
        ask_for_token(bee, owner)
    push(bee, POD, content, Operation.DELETE, wait=CHECK_SECONDS + 1)
    assert sorted(tokens(bee)) == ["", "uid-q"]


def test_a_token_that_comes_after_the_deletion_of_its_pod_is_deleted(bee: Harness) -> None:
    """The pod was deleted while its start waited for the token. The deletion holds after a failed commit, too."""
    push(bee, POD, thing("p"), Operation.DELETE)
    ask_for_token(bee, {"uid": "uid-1"})
    assert tokens(bee) == ["uid-1"]
    with mock.patch.object(SqliteStore, "commit", side_effect=StoreWriteError("commit", "f", "full", batch_lost=True)):
        bee.run_for(CHECK_SECONDS + 1)
    assert tokens(bee) == ["uid-1"]
    bee.run_for(CHECK_SECONDS + 1)
    store_of(bee).rollback()
    assert tokens(bee) == []


def test_nothing_goes_while_the_store_may_not_know_all_pods() -> None:
    with node(connected=True) as bee:
        push(bee, SECRET, thing("s"))
        ask_for_token(bee, {"uid": "uid-1"})
        bee.run_for(10 * CHECK_SECONDS)
        assert stored(bee) == {SECRET}
        assert tokens(bee) == ["uid-1"]


def test_unreferenced_objects_of_an_earlier_run_are_deleted(tmp_path: Path) -> None:
    """Such as by an edgecore of KubeEdge."""
    file = tmp_path / "edgecore.db"
    with node(file) as bee:
        bee.send(META, from_edged(bee, COMPLETE, Operation.UPDATE, thing("complete")))
        push(bee, SECRET, thing("s"))
    with node(file) as bee:
        bee.run_for(TWICE)
        assert stored(bee) == set()
