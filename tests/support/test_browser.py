"""A page is loaded again while the machine's network changes; a tab has nothing of an earlier one."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import browser
from tests.support.browser import Browser, why_none

BROKEN_OFF = "http://127.0.0.1:1/page/{} - Failed to load resource: net::ERR_NETWORK_CHANGED"


def test_a_page_that_was_broken_off_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its document was, of which chromedriver may tell nothing. What the console said before, and of the load
    that counts, is kept; a call is made again by the page.
    """
    called: list[str] = []
    logs = iter([["before"], [BROKEN_OFF.format("main.js")], ["of the page", BROKEN_OFF.format("v1/session")], []])
    shown = iter(["Your connection was interrupted\n\nERR_NETWORK_CHANGED", "", "edgecore"])

    def call(_method: str, url: str, _value: dict[str, Any] | None = None) -> Any:
        called.append(url.removeprefix("base/session/s/"))
        if called[-1] == "se/log":
            return [{"level": "SEVERE", "message": each} for each in next(logs)]
        if called.count("url") == 1 and called[-1] == "url":
            raise AssertionError("unknown error: net::ERR_NETWORK_CHANGED")
        return next(shown) if called[-1] == "execute/sync" else None

    monkeypatch.setattr(browser, "_call", call)
    window = Browser("base", "s")
    window.open("http://127.0.0.1:1/page/#token")
    assert [each for each in called if each != "se/log"] == [
        "url", "url", "execute/sync", "url", "execute/sync", "refresh", "execute/sync",
    ]  # fmt: skip
    assert window.console() == ["before", "of the page"]


@pytest.mark.parametrize(
    ("error", "shown"),
    [("", "A network change was detected.\n\nERR_NETWORK_CHANGED"), (BROKEN_OFF.format("main.js"), "")],
)
def test_a_page_that_a_click_has_led_to_is_loaded_again(
    monkeypatch: pytest.MonkeyPatch, error: str, shown: str
) -> None:
    called: list[str] = []

    def call(_method: str, url: str, _value: dict[str, Any] | None = None) -> Any:
        called.append(url.removeprefix("base/session/s/"))
        if called == ["execute/async"]:
            raise TimeoutError("script timeout")
        if called[-1] == "se/log":
            return [{"level": "SEVERE", "message": error}]
        return shown if called[-1] == "execute/sync" else 7

    monkeypatch.setattr(browser, "_call", call)
    assert Browser("base", "s").wait("true") == 7
    assert called == ["execute/async", "se/log", "execute/sync", "refresh", "execute/async"]


def test_another_error_of_a_document_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(_method: str, url: str, _value: dict[str, Any] | None = None) -> Any:
        if url.endswith("/url"):
            raise AssertionError("unknown error: net::ERR_CONNECTION_REFUSED")
        return []

    monkeypatch.setattr(browser, "_call", call)
    with pytest.raises(AssertionError, match="ERR_CONNECTION_REFUSED"):
        Browser("base", "s").open("http://127.0.0.1:1/")


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_a_tab_has_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text('<link rel="icon" href="data:,"><title>a page</title>')
    seen = "return [localStorage.note ?? '', history.length, matchMedia('(prefers-color-scheme: dark)').matches]"
    with browser.browser(dark=True) as window:
        window.open(file.as_uri())
        window.run("localStorage.note = 'x'; history.pushState({}, '', '?q')")
        first = window.run(seen)
        window.run("console.error('said')")
    with browser.browser() as again:
        assert again is window
        assert again.console() == []
        again.open(file.as_uri())
        assert (first, again.run(seen)) == (["x", 3, True], ["", 2, False])


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_nothing_is_left_in_the_home_of_who_runs_the_tests(tmp_path: Path) -> None:
    with browser._driver(str(tmp_path)):
        homes = [each.environ()["HOME"] for each in psutil.Process().children() if each.name() == "chromedriver"]
    assert str(tmp_path) in homes
