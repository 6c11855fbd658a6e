"""A shell in a container from a browser: over the cloud's tunnel, and on the node itself."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, pod
from tests.end_to_end.processes import Process, run_program, wait_until
from tests.modules.page.test_shells import opened
from tests.support.browser import Browser, browser, why_none
from tests.support.ports import free_port

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")

ENTER = "\ue007"
SCREEN = "(document.querySelector('.xterm-rows') || {textContent: ''}).textContent"
STATE = "(document.getElementById('state') || {textContent: ''}).textContent"
PROMPT = f"{SCREEN}.includes('/ #')"


@contextmanager
def page(program: str, log: Path, *arguments: str) -> Iterator[str]:
    """Serve the page of a program; yield its address."""
    served = Process(f"modules.processes.{program}", ["page", "--allow", "exec", *arguments], log)
    try:
        wait_until(lambda: "\n" in served.text() or not served.runs, "the address is printed")
        yield served.text().split()[0]
    finally:
        served.signal(signal.SIGTERM)
        assert served.wait() == ExitCode.OK, served.tail()


def runs(word: str) -> bool:
    """Return whether a process of this machine has an argument."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes())
        except OSError:  # it has just ended
            continue
    return any(word.encode() in each.split(b"\0") for each in found)


def open_shell(window: Browser) -> None:
    """Follow the link on the page of a pod to a shell in its container."""
    link = "document.querySelector(\"td a[href^='/page/shell/']\")"
    window.wait(f"Boolean({link})")
    window.run(  # a click leaves the document; `open` does the same, and again if other pods change the network
        "addEventListener('click', (event) => { window.isTaken = event.defaultPrevented; event.preventDefault(); });"
        f"{link}.click();"
    )
    assert window.run("return window.isTaken") is False
    window.open(str(window.run(f"return {link}.href")))
    window.wait(opened(PROMPT))


@pytest.mark.parametrize("runtime", ["oci"], indirect=True)
def test_a_shell_a_click_from_the_pod(stopped_machine: Machine, tmp_path: Path) -> None:
    """Its size, Ctrl-C and exit code, and that it ends with its document; the same with the node's own page."""
    machine = stopped_machine
    machine.edge.tunnel_port = free_port()
    machine.cloud.options = ["--tunnel-listen", f"127.0.0.1:{machine.edge.tunnel_port}"]
    machine.start()
    machine.cloud.apply(pod("p", container("exec sleep 1000000")))
    machine.cloud.pods.wait("p", is_ready)
    socket = ["--socket", str(machine.cloud.socket)]
    wait_until(lambda: run_program("cloudcore", "logs", "p", *socket).returncode == 0, "the node has its tunnel")
    seconds = f"{os.getpid()}00000"
    with browser(1280, 900) as window:
        with page("cloudcore", tmp_path / "cloud-page.log", *socket) as address:
            window.open(address)
            window.wait("Boolean(sessionStorage.getItem('edgecore-page-key'))")
            window.open(f"{address.partition('/page')[0]}/page/pods/default/p")
            open_shell(window)
            window.keys(f"stty size; echo a$((40+2))b{ENTER}", "textarea")
            window.wait(f"/\\d\\d 1\\d\\d/.test({SCREEN}) && {SCREEN}.includes('a42b')")
            window.keys(f"sleep {seconds}{ENTER}", "textarea")
            wait_until(lambda: runs(seconds), "the command runs")
            window.keys("\ue009c\ue000", "textarea")  # Ctrl-C
            wait_until(lambda: not runs(seconds), "Ctrl-C has ended it")
            window.keys(f"exit 5{ENTER}", "textarea")
            window.wait(f"{STATE} === 'The shell has ended with exit code 5.'")
            window.click("#again")
            window.wait(opened(f"{STATE} === 'connected' && {PROMPT}"))
            window.keys(f"exec sleep {seconds}{ENTER}", "textarea")
            wait_until(lambda: runs(seconds), "the command runs")
            window.click("#back")
            wait_until(lambda: not runs(seconds), "it has ended with its document")
            assert [each for each in window.console() if "Content Security Policy" in each or "Uncaught" in each] == []
        with page("edgecore", tmp_path / "edge-page.log", "--config", str(machine.edge.file)) as address:
            window.open(address)
            window.wait("Boolean(sessionStorage.getItem('edgecore-page-key'))")
            window.open(f"{address.partition('/page')[0]}/page/pods/default/p")
            open_shell(window)
            window.keys(f"exit 7{ENTER}", "textarea")
            window.wait(f"{STATE} === 'The shell has ended with exit code 7.'")
