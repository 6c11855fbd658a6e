"""A tab has nothing of an earlier one, and the home of who runs the tests nothing of the browser."""

from pathlib import Path

import psutil
import pytest

from tests.support import browser
from tests.support.browser import why_none


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
