"""The page without a pointer: each person's question, from the first page, with the keyboard alone."""

from pathlib import Path

import pytest

from tests.modules.page.fleet_of_200 import fleet_page
from tests.support.browser import Browser, browser, why_none

ENTER, TAB = "\ue007", "\ue004"
SAID = "(document.getElementById('sentence') || {textContent: ''}).textContent.trim()"
FOCUS = """
const at = document.activeElement, place = at.getClientRects()[0], style = getComputedStyle(at);
const hit = document.elementFromPoint(place.left + place.width / 2, place.top + place.height / 2);
const text = at.getAttribute("aria-label") || at.textContent.trim() || at.id;
return [text, style.outlineStyle !== "none", at.contains(hit)];
"""


def focused(window: Browser) -> str:
    """Return what has the focus, which must be seen, and not be covered."""
    text, is_outlined, is_seen = window.run(FOCUS)
    assert is_outlined, text
    assert is_seen, text
    return str(text)


def follow(window: Browser, text: str) -> None:
    """Go from row to row to a link, and follow it."""
    for _ in range(30):
        window.press("j")
        if text in focused(window):
            window.press(ENTER)
            return
    raise AssertionError(f"no row {text}")


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_each_question_is_answered_without_a_pointer(tmp_path: Path) -> None:
    with fleet_page(tmp_path) as page, browser(1280, 700) as window:
        window.open(page.address())
        window.wait(f"{SAID}.startsWith('190 of 200 nodes are connected')")
        order = []
        for _ in range(18):
            window.press(TAB)
            order.append(focused(window))
        assert order[:8] == ["Skip to the content", "Fleet", "Pods", "Rollouts", "Devices", "Changes", "Light or dark",
                             "10 are away"]  # fmt: skip
        assert order.index("Show the 9") < next(at for at, text in enumerate(order) if "is back after" in text)

        window.press("gf")
        window.wait("document.activeElement.id === 'content'")
        follow(window, "Show the 9")  # the operator: who is away?
        window.wait("document.querySelectorAll('.rows .row').length === 9")
        window.press("/hamburg-03")
        window.wait("location.search.endsWith('hamburg-03')")
        window.press("\ue00c")  # Escape
        window.wait("document.querySelectorAll('.rows .row').length === 200")

        window.press("gp")  # the developer: why does my pod not run?
        window.wait(f"{SAID}.startsWith('6 of 9 pods run')")
        follow(window, "default/prices-7c9d4")
        window.wait(f"{SAID}.startsWith('default/prices-7c9d4 does not run')")

        window.press("gd")  # the engineer: which devices are silent?
        window.wait(f"{SAID}.startsWith('0 of 2 devices')")
        follow(window, "default/freezer")
        window.wait(f"{SAID}.startsWith('default/freezer cannot be heard')")
        window.press("k")
        assert window.run("return document.querySelectorAll('a.name').length") == 0, "k without rows does nothing"
        window.press("gc")
        window.wait(f"{SAID}.includes('changes in seven days')")
