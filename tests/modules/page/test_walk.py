"""The walk of an operator, of a developer and of an engineer through a fleet of 200 nodes, ten of which are away."""

from pathlib import Path

import pytest

from tests.modules.page.fleet_of_200 import ALONE, JOB, LOST, STOPPED, fleet_page
from tests.support.browser import browser, why_none


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_each_question_is_one_click_from_the_first_page(tmp_path: Path) -> None:
    said = "(document.getElementById('sentence') || {textContent: ''}).textContent.trim()"
    with fleet_page(tmp_path) as page, browser(1280, 900) as window:
        window.open(page.address())
        window.wait(f"{said}.startsWith('190 of 200 nodes are connected; 10 are away, ')")
        window.wait(f"document.querySelector('.todo').textContent.includes('NodeUpgradeJob {JOB} has stopped')")
        text = str(window.run("return document.querySelector('.todo').textContent"))
        for finding in (
            "9 nodes of hamburg went away together",
            f"{ALONE} is away",
            "luebeck-07 is behind",
            f"The certificate of {ALONE} ends in",
            "DaemonSet scanner: 2 pods do not run (ImagePullBackOff)",
            "DaemonSet prices: 1 pod does not run (CrashLoopBackOff)",
            f"NodeUpgradeJob {JOB} has stopped",
        ):
            assert finding in text
        assert window.run("return document.querySelectorAll('.rows .row').length") == 200
        happened = str(window.run("return document.querySelector('.day').textContent"))
        assert "9 nodes went away" in happened
        assert "kiel-13 is back after 25m" in happened
        assert "kiel-13 went away" not in happened, "the line that it is back says so"

        window.run("[...document.querySelectorAll('a')].find((each) => each.textContent === 'Show the 9').click()")
        window.wait("document.querySelectorAll('.rows .row').length === 9")
        shown = "[...document.querySelectorAll('.rows .name')].map((each) => each.textContent)"
        assert sorted(window.run(f"return {shown}")) == sorted(LOST)
        window.run("history.back()")
        window.wait("document.querySelectorAll('.rows .row').length === 200")

        link = "[...document.querySelectorAll('.todo li')].find((each) => each.textContent.includes('prices'))"
        window.run(f"{link}.querySelector('a').click()")
        window.wait(f"{said}.startsWith('default/prices-7c9d4')")
        assert window.run("return document.querySelector('.remedy .cmd code').textContent").startswith("cloudcore ")
        window.run("history.back()")
        window.wait("document.querySelectorAll('.rows .row').length === 200")

        window.run(
            "[...document.querySelectorAll('.rows .name')].find((each) => each.textContent === 'hamburg-03').click()"
        )
        window.wait(f"{said}.startsWith('hamburg-03 has been away for 11h')")
        pods = "document.querySelector('section[aria-label=\"Pods on hamburg-03\"]')"
        assert "default/till-0" in window.run(f"return {pods}.textContent")
        good = "document.querySelectorAll('main table [stroke=\"var(--good)\"]')"
        assert window.run(f"return {good}.length") == 0, "of a node that is away nothing is green"
        window.run("history.back()")
        window.wait("document.querySelectorAll('.rows .row').length === 200")

        window.keys("is:away version:0.2", "#q")
        window.wait("document.querySelectorAll('.rows .row').length < 10")
        assert window.run("return location.search") == "?q=is%3Aaway%20version%3A0.2"
        for query, rows in (("label:site=s7", 4), ("-label:Site=s7", 196), ("label:site", 200), ("group:north", 0)):
            window.keys("\ue00c", "#q")  # Escape
            window.keys(query, "#q")
            window.wait(f"document.querySelectorAll('.rows .row').length === {rows}")

        window.run("[...document.querySelectorAll('nav a')].find((each) => each.textContent === 'Rollouts').click()")
        window.wait(
            f"{said}.startsWith('0 of 3 workloads run; 2 fail on some node, 1 has pods on nodes that are away')"
        )
        text = str(window.run("return document.querySelector('main').innerText"))
        assert "6 run it · 2 fail" in text
        assert "1 fails" in text
        assert "9 have not heard" in text
        assert "ImagePullBackOff on 2 pods: scanner-9fq8c on rostock-04, scanner-x2k4f on bremen-02" in text
        assert f"Failure: {STOPPED}" in text
        assert "17 done · 3 failed · 180 waiting (8 away)" in text
        assert "cloudcore upgrade resume upgrade-to-0.4.0" in text
        window.run(f"[...document.querySelectorAll('a')].find((each) => each.textContent === '{JOB}').click()")
        window.wait(f"{said} === 'NodeUpgradeJob {JOB}: Failure: {STOPPED}'")
        window.wait("document.querySelectorAll('td a.name').length === 200")
        window.keys("failure", "#q")
        window.wait("document.querySelectorAll('td a.name').length === 3")
        text = str(window.run("return document.querySelector('main').innerText"))
        assert "rolled back: edgecore doctor: the runtime does not answer" in text
        window.run("document.querySelector('td a.name').click()")
        window.wait(f"{said}.includes(' has been ')")
        window.run("history.back()")
        window.wait(f"{said}.startsWith('NodeUpgradeJob')")
        window.run("[...document.querySelectorAll('nav a')].find((each) => each.textContent === 'Rollouts').click()")
        window.wait(f"{said}.startsWith('0 of 3 workloads run')")
        window.run("[...document.querySelectorAll('a')].find((each) => each.textContent === 'prices-7c9d4').click()")
        window.wait(f"{said}.startsWith('default/prices-7c9d4')")

        window.run("[...document.querySelectorAll('nav a')].find((each) => each.textContent === 'Pods').click()")
        window.wait(f"{said}.startsWith('6 of 9 pods run; 9 more are on nodes that are away')")
        assert window.run(f"return {good}.length") == 6, "nor here"
        assert window.run("return document.querySelector('main').innerText").count("Running, as reported last") == 9

        window.run("[...document.querySelectorAll('nav a')].find((each) => each.textContent === 'Devices').click()")
        window.wait(f"{said} === '0 of 2 devices are as desired; 1 unknown, 1 on nodes that are away.'")
        text = str(window.run("return document.querySelector('main').innerText"))
        assert "hamburg-03 is away, and nothing had been reported; 1 desired value waits for it" in text
        assert "nothing has ever been reported" in text
