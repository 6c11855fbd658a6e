"""The page of 2,000 nodes in a browser: it paints a window of rows, whatever is searched, scrolled to, or changes."""

from collections.abc import Iterator

import pytest

from beehive.clock import RealClock
from modules.page.server import PageServer
from tests.modules.page.fleet_of_2000 import NODES, LargeFleet, api_of
from tests.support.browser import Browser, browser, why_none

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")

MOST_ROWS = 80
ROWS = "document.querySelectorAll('.rows .row')"
TABLE = "document.querySelector('[role=table][aria-label=Nodes]')"


@pytest.fixture
def large() -> Iterator[tuple[LargeFleet, Browser]]:
    """Open the page of a large fleet."""
    clock = RealClock()
    fleet = LargeFleet(clock.now())
    page = PageServer(api_of(fleet, clock), clock, "cloudcore")
    try:
        with browser(1280, 900) as window:
            window.open(page.address())
            window.wait(f"{ROWS}.length > 20")
            yield fleet, window
    finally:
        fleet.end()
        page.stop()
        clock.close()


def test_a_window_of_2000_nodes_follows_scrolling_search_and_changes(large: tuple[LargeFleet, Browser]) -> None:
    fleet, window = large

    def is_a_window(count: int) -> None:
        window.wait(f"{TABLE}.getAttribute('aria-rowcount') === '{count + 1}'")
        assert window.run(f"return {ROWS}.length") < MOST_ROWS

    is_a_window(NODES)
    said = str(window.run("return document.getElementById('sentence').textContent"))
    assert said == "1900 of 2000 nodes are connected; 100 are away."
    window.run("const box = document.querySelector('.rows.virtual'); box.scrollTop = box.scrollHeight;")
    window.wait(f"[...{ROWS}].some((each) => each.getAttribute('aria-rowindex') === '{NODES + 1}')")
    is_a_window(NODES)

    # the row under the cursor is the same element in the same place while others change
    row = f"{ROWS}[{ROWS}.length - 20]"
    window.run(f"window.watched = {row}; window.watched.querySelector('a').focus({{preventScroll: true}});")
    window.run("window.at = window.watched.getBoundingClientRect().top;")
    fleet.change(50)
    window.wait("document.querySelector('.chips').textContent.includes('Cordoned50')")
    assert window.run(
        "return window.watched.isConnected && document.activeElement === window.watched.querySelector('a')"
    )
    assert window.run("return Math.abs(window.watched.getBoundingClientRect().top - window.at) < 1")

    window.keys("zone:zone07 -is:away", "#q")
    window.wait(f"{TABLE}.getAttribute('aria-rowcount') !== '{NODES + 1}'")
    found = int(window.run(f"return {ROWS}.length"))
    assert 0 < found <= NODES / 40, "a search with few matches has real rows"
    assert window.run(f"return [...{ROWS}].every((each) => each.textContent.startsWith('zone07-'))")
    window.keys("\ue00c", "#q")  # Escape
    is_a_window(NODES)
    window.keys("is:away", "#q")
    window.wait(f"{TABLE}.getAttribute('aria-rowcount') === '101' && {ROWS}.length === 100")
