"""The watch of custom resources: what it tells a module, how often, and what it logs."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud import kind_watch
from modules.cloud.applications import EDGE_APPLICATION, NODE_GROUP
from modules.cloud.client.kube_client import News
from modules.cloud.client.reflector.effects import Added, Deleted, Refused, Synced
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.kind_watch import KindWatch


class Watched:
    """A watch of two kinds, whose client the test is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.news: list[Callable[[News], None]] = []
        self.told: list[str | JsonObject] = []
        client = SimpleNamespace(watch=lambda _, then: self.news.append(then), close=lambda: self.told.append("closed"))
        monkeypatch.setattr(kind_watch, "KubeClient", lambda *_: client)
        module: Any = SimpleNamespace(runtime=None, clock=SimpleNamespace(random=None))
        self.watch = KindWatch(
            module, (NODE_GROUP, EDGE_APPLICATION), lambda changed: self.told.append(changed.object),
            lambda: self.told.append("all known"), lambda _: module, "deploy/apps.yaml",
        )  # fmt: skip
        self.watch.start()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_all_is_known_once_and_objects_have_their_kind(watched: Watched) -> None:
    """A list comes again after each gap of a watch. An object that cannot be read stops nothing."""
    groups, apps = watched.news
    for news in (groups, groups, apps, groups, apps):
        news(Synced("7"))
    assert watched.told == ["all known"]
    watched.told.clear()
    groups(Added(ObservedObject("", "a", "u", "8", b"[")))
    groups(Added(ObservedObject("", "b", "u", "8", b'{"metadata": {"name": "b"}}')))
    groups(Deleted(ObservedObject("", "b", "u", "9")))
    kind = {"kind": "NodeGroup", "apiVersion": "apps.kubeedge.io/v1alpha1"}
    assert watched.told == [
        {"metadata": {"name": "b"}, **kind}, {"metadata": {"namespace": "", "name": "b"}, **kind}
    ]  # fmt: skip


def test_a_refusal_is_logged_once_each_time(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    groups, apps = watched.news
    for news in (groups, apps, groups, groups):
        news(Refused(404, "no such kind"))
    assert caplog.text.count("apply deploy/apps.yaml") == 2
    groups(Synced("7"))
    groups(Refused(404, "no such kind"))
    assert caplog.text.count("apply deploy/apps.yaml") == 3


def test_it_ends_once(watched: Watched) -> None:
    for _ in range(2):
        watched.watch.stop()
    assert watched.told == ["closed"]
