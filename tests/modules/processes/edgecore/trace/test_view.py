"""The page of `trace view` in a real browser: what a person sees, finds and presses."""

import json
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest

from modules.processes.edgecore.trace.columns import TraceFacts, pack
from modules.processes.edgecore.trace.event import Event
from modules.processes.edgecore.trace.events import events_of
from modules.processes.edgecore.trace.page import page
from tests.modules.processes.edgecore.trace.made import BEGAN, Node, busy_node, message, running_pod
from tests.support.browser import Browser, browser, why_none

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none())

CHOSEN = "traceView.view.chosen"

Opened = Callable[[list[Event]], None]


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    """One browser for the tests of this file."""
    with browser() as opened:
        yield opened


@pytest.fixture
def show(window: Browser, tmp_path: Path) -> Opened:
    """Writes a page of events and opens it."""

    def write(events: list[Event]) -> None:
        packed = pack(events, TraceFacts(title="a.trace", node="lab-edge", program="edgecore", began=BEGAN))
        file = tmp_path / "page.html"
        file.write_text("".join(page(packed)), encoding="utf-8")
        window.open(file.as_uri())
        window.wait("document.documentElement.dataset.ready")

    return show_checked(window, write)


def show_checked(window: Browser, write: Opened) -> Opened:
    """Opening a page neither complains nor asks anybody for anything."""

    def shown(events: list[Event]) -> None:
        window.console()
        window.requests()
        write(events)
        assert window.console() == []
        assert window.requests() == []

    return shown


def test_a_request_would_be_noticed(window: Browser, tmp_path: Path) -> None:
    """The check of every page here can fail."""
    file = tmp_path / "curious.html"
    file.write_text('<link rel="icon" href="data:,"><img src="http://127.0.0.1:9/x.png">')
    window.open(file.as_uri())
    assert window.requests() == ["http://127.0.0.1:9/x.png"]
    assert window.console()


def a_pod() -> list[Event]:
    """The events of one pod."""
    node = Node()
    running_pod(node, "web", "u1")
    return list(events_of(node.records))


def test_every_lane_is_there(window: Browser, show: Opened) -> None:
    """In the order of the way of a pod, by the names that people use."""
    show(a_pod())
    names = window.run("return [...document.querySelectorAll('#gutter b')].map((lane) => lane.textContent)")
    assert names == ["cloud", "edgehub", "metamanager", "edged", "runtime (CRI)", "store"]


def test_something_is_drawn(window: Browser, show: Opened) -> None:
    """The timeline has many colours, an empty one has three."""
    show(a_pod())
    colours = window.run(
        "const c = document.getElementById('canvas');"
        "const data = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);"
        "return new Set(data).size"
    )
    assert colours > 20


def test_search_finds_and_goes_there(window: Browser, show: Opened) -> None:
    """Enter chooses the first hit."""
    show(a_pod())
    window.keys("to:cri start_container", "#search")
    window.wait("document.getElementById('hits').textContent === '1'")
    window.keys("\ue007", "#search")
    assert "start_container" in window.wait("document.querySelector('#detail h2').textContent")


def test_search_in_bodies(window: Browser, show: Opened) -> None:
    """What is only inside a message is found too."""
    show(a_pod())
    window.keys("body:containerport", "#search")
    assert int(window.wait("document.getElementById('hits').textContent.match(/^\\d+$/)?.[0]")) >= 3


def test_a_click_shows_the_whole_message(window: Browser, show: Opened) -> None:
    """The JSON in the panel is the message that was recorded."""
    events = a_pod()
    show(events)
    desired = next(event for event in events if event.verb == "start_container")
    x, y = window.run(
        "const {view, timeline} = traceView;"
        "const i = view.trace.texts.indexOf('start_container');"
        "const event = view.trace.verb.indexOf(i);"
        "const box = document.getElementById('canvas').getBoundingClientRect();"
        "const middle = (view.trace.taken[event] + view.trace.end[event]) / 2;"
        "return [box.left + timeline.x(middle), box.top + timeline.y(event)]"
    )
    window.click_at(x, y)
    window.wait(f"{CHOSEN} >= 0 && document.getElementById('whole').textContent.length > 5")
    assert json.loads(window.run("return document.getElementById('whole').textContent")) == json.loads(desired.body)


def test_a_click_in_the_list_chooses(window: Browser, show: Opened) -> None:
    """The row is marked, and the causes of its event are listed."""
    show(a_pod())
    window.click("#list .row:nth-child(4)")
    assert window.wait("document.querySelectorAll('#list [aria-selected=true]').length") == 1
    assert window.run("return document.querySelectorAll('#detail .steps li').length") >= 3


def test_all_goes_with_keys_alone(window: Browser, show: Opened) -> None:
    """Step, go to the cause, zoom, and let go."""
    show(a_pod())
    window.keys("...")
    assert window.wait(f"{CHOSEN} === 2")
    window.keys("c")
    assert window.wait(f"{CHOSEN} === 1")
    width = "traceView.view.to - traceView.view.from"
    before = window.run(f"return {width}")
    window.keys("+")
    assert window.run(f"return {width}") < before
    window.keys("\ue00c")
    assert window.wait(f"{CHOSEN} === -1")


def test_only_what_failed(window: Browser, show: Opened) -> None:
    """The filter leaves the dropped message alone."""
    node = Node()
    running_pod(node, "web", "u1")
    node.deliver(
        message("update", "default/pod/web", {}, ident="x"), "edged", "metamanager", 0, "dropped", "inbox full"
    )
    show(list(events_of(node.records)))
    window.click("#only-failed")
    assert window.wait("traceView.view.shown.length === 1")
    assert "inbox full" in window.run(
        "traceView.view.step(1); return document.querySelector('#detail .bad').textContent"
    )


def test_an_empty_trace_is_a_page_too(window: Browser, show: Opened) -> None:
    """Nothing to draw is nothing to fail at."""
    show([])
    assert window.run("return traceView.view.trace.count") == 0


def test_code_in_a_message_is_never_run(window: Browser, show: Opened) -> None:
    """Markup in a name is shown as the text that it is."""
    node = Node()
    evil = "</script><img src=x onerror=window.evil=1>"
    node.deliver(message("update", evil, {"a": evil}, ident="x"), evil, "edged")
    show(list(events_of(node.records)))
    window.run("traceView.view.choose(0)")
    window.wait("document.getElementById('whole').textContent.length > 5")
    assert evil in window.run("return document.querySelector('#detail h2').textContent")
    assert window.run("return [window.evil ?? 0, document.images.length]") == [0, 0]


def test_a_hundred_thousand_messages_open(window: Browser, show: Opened) -> None:
    """And every part of the page goes on working. How long it takes is in the bench."""
    show(list(islice(events_of(busy_node(100_000)), 100_000)))
    window.run("traceView.view.choose(99_999)")
    assert window.wait("document.querySelector('#list [aria-selected=true]') !== null")
    window.wait("document.getElementById('whole').textContent.length > 5")


@pytest.fixture(params=[500, 700])
def narrow(window: Browser, request: pytest.FixtureRequest) -> Iterator[int]:
    """The width of a narrow screen, which the window has for one test."""
    window.resize(request.param, 900)
    yield request.param
    window.resize(1440, 900)


def test_on_a_narrow_screen_nothing_covers_anything(window: Browser, show: Opened, narrow: int) -> None:
    """Timeline, list and panel are one below the other, and the page is not wider than the screen."""
    show(a_pod())
    boxes = window.run(
        "return ['.bar', '#filters', '.stage', '.list', '#detail'].map((each) => {"
        "  const box = document.querySelector(each).getBoundingClientRect();"
        "  return [box.top, box.bottom, box.left, box.right].map(Math.round) })"
    )
    wide, tall = window.run("return [innerWidth, innerHeight]")
    assert window.run("return document.documentElement.scrollWidth") == wide == narrow
    assert all(upper[1] <= lower[0] for upper, lower in pairwise(boxes))
    assert all(bottom - top >= 30 and bottom <= tall for top, bottom, _, _ in boxes)
    assert {(left, right) for _, _, left, right in boxes} == {(0, wide)}
