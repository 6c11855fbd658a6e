"""The page in a real browser, on a real cloudcore with planted faults: what it says, and no text becomes markup."""

import importlib.util
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from beehive.clock import RealClock
from beehive.printable import printable
from modules.cli.rest import MERGE_PATCH, RestClient
from modules.page.api import About, fleet_api
from modules.page.picture import Links
from modules.page.server import PageServer
from modules.processes.cloudcore.page_command import ControlLinks
from tests.modules.page.hostile_texts import hostile_texts
from tests.modules.processes.cloudcore.devices import People, reports, twins
from tests.modules.processes.cloudcore.jobs import JobAuthors
from tests.modules.processes.cloudcore.stubs import Edge, Stub
from tests.support.browser import Browser, browser, why_none
from tests.support.control_client import Apply

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")

MARKUP = "<img src=x onerror=window.broken=1><script>window.broken=1</script>"
ODD = f"{MARKUP} javascript:alert(1) {{{{7*7}}}} \u202eevil\u2066 \x1b[31m\x1b]52;c;aGk=\x07"
PATHS = (
    "/page/", "/page/nodes/kiel-01", "/page/rollouts", "/page/pods/default/crasher", "/page/devices",
    "/page/changes?q=is:all", "/page/rollouts/NodeUpgradeJob/up", "/page/devices/default/hall",
)  # fmt: skip
WAVED = {"operations.edgecore.io/waves": "1,all"}
WAITING = {"waiting": {"reason": "CrashLoopBackOff", "message": ODD}}


def manifest(kind: str, name: str, spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a manifest."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **fields}, "spec": spec}


def plant_devices(people: People, client: RestClient, edge: Edge) -> None:
    """Make three Devices; the node of one reports hostile texts, and two numbers before."""
    people.wait()
    kinds = [{"name": "threshold", "type": "STRING", "unit": ODD}, {"name": ODD, "type": "STRING"}]
    people.apply({"kind": "DeviceModel", "metadata": {"name": "thermometer"}, "spec": {"properties": kinds}})
    properties = [{"name": "threshold", "desired": {"value": "30"}}, {"name": ODD}]
    for name, node in (("hall", "kiel-01"), ("silent", "kiel-01"), ("far", "kiel-02")):
        spec = {"nodeName": node, "deviceModelRef": {"name": "thermometer"}, "properties": properties}
        people.apply({"kind": "Device", "metadata": {"name": name}, "spec": spec})
    for value in ("20", "29"):
        assert reports(edge, "twin/edge_updated", twins({"threshold": value}), name="hall") == "OK"
    assert reports(edge, "twin/edge_updated", twins({ODD: ODD}), name="hall") == "OK"
    said = {"value": ODD, "metadata": {"timestamp": "1700000000000", "type": ODD}}
    known = [{"propertyName": name, "reported": said, "observedDesired": said} for name in ("threshold", ODD)]
    condition = {"type": ODD, "status": ODD, "reason": ODD, "message": ODD, "lastTransitionTime": ODD}
    status = {"twins": known, "state": "online", "lastOnlineTime": ODD, "conditions": [condition]}
    path = "/apis/devices.kubeedge.io/v1beta1/namespaces/default/devicestatuses/hall"
    client.request("PATCH", path, body={"status": status}, content_type="application/merge-patch+json")


def plant_jobs(authors: JobAuthors, client: RestClient) -> None:
    """Make a job that has stopped in its first wave, whose texts are hostile."""
    authors.wait()
    authors.create("NodeUpgradeJob", "up", {"version": "v1", "nodeNames": ["kiel-01", "kiel-02"]}, annotations=WAVED)
    authors.ended("NodeUpgradeJob", "up")  # its nodes are no edge nodes
    failed = {"action": "Check", "status": "False", "reason": f"no room {ODD}", "time": "2026-11-27T10:00:00Z"}
    tasks = [
        {"nodeName": "kiel-01", "phase": "Failure", "actionFlow": [failed], "currentVersion": ODD},
        {"nodeName": "kiel-02", "phase": "Pending"},
    ]
    status = {"phase": "Failure", "reason": f"the waves have stopped {ODD}", "nodeStatus": tasks}
    path = "/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs/up/status"
    client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)


class PromptLinks(ControlLinks):
    """The links of cloudcore, as if nodes had just sent a keepalive, and acknowledged all.

    The node of these tests says nothing: after a minute, which a slow machine needs, the page would call it behind.
    """

    def links(self) -> Links:
        """See `PageSource`."""
        found = super().links()
        prompt = {
            name: replace(each, keepalive_seconds=0.0, unacknowledged=0) for name, each in found.connections.items()
        }
        return replace(found, connections=prompt)


class Looked:
    """A cloudcore with a page, and a browser that has opened it."""

    def __init__(self, page: PageServer, window: Browser, edge: Edge, client: RestClient) -> None:
        self.page = page
        self.window = window
        self.edge = edge
        self._client = client

    def renew_lease(self) -> None:
        """Renew the lease of the node, which says nothing by itself: it lasts longer than a test on a slow machine."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/kiel-01"
        self._client.request("PATCH", path, body={"spec": {"renewTime": now}}, content_type=MERGE_PATCH)

    def open(self) -> None:
        """Open the page of the fleet with a new session."""
        self.window.open("about:blank")
        self.window.open(self.page.address())
        try:
            self.window.wait("document.querySelectorAll('.rows .row').length === 2")
        except AssertionError as error:
            raise AssertionError(
                f"{error}; the page says: {self.window.run('return document.body.innerText')}"
            ) from None

    def sentence(self, words: str) -> str:
        """Return the sentence of the page when it has some words."""
        said = "(document.getElementById('sentence') || {textContent: ''}).textContent"
        self.window.wait(f"{said}.includes({words!r})")
        return str(self.window.run(f"return {said}"))

    def follow(self, text: str) -> None:
        """Click the link with a text."""
        link = f"[...document.querySelectorAll('a')].find((each) => each.textContent.trim() === {text!r})"
        self.window.wait(f"Boolean({link})")
        self.window.run(f"{link}.click()")


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looked]:
    """Start a cloudcore with faults, its page, and a browser."""
    directory, clock = tmp_path_factory.mktemp("page"), RealClock()
    without = "none"  # or the pod whose owner does not exist were collected
    with Stub(directory, controllers=without) as stub, stub.edge("kiel-01") as edge:
        plant(stub, edge)
        client = RestClient(stub.config.control_socket)
        about = About("here", "1", "cloudcore")
        page = PageServer(fleet_api(client, PromptLinks(stub.client), clock, about), clock, about.program)
        try:
            with browser(1280, 900) as window:
                yield Looked(page, window, edge, client)
        finally:
            page.stop()
            clock.close()


@pytest.fixture(autouse=True)
def opened(looked: Looked) -> None:
    """Begin each test at the page of the fleet."""
    looked.renew_lease()
    looked.open()


def plant(stub: Stub, edge: Edge) -> None:
    """Make nodes and pods with faults, whose texts are hostile."""
    annotations = {"note": ODD}
    documents = [
        manifest("Node", "kiel-01", {}, labels={"topology.kubernetes.io/zone": "kiel"}),
        manifest("Node", "kiel-02", {"unschedulable": True}, annotations=annotations),
        manifest("Pod", "crasher", {"nodeName": "kiel-01", "containers": [{"name": "c", "image": "web:1"}]}),
        manifest(
            "Pod",
            "owned",
            {"nodeName": "kiel-01", "containers": [{"name": "c", "image": "web:1"}]},
            ownerReferences=[{"apiVersion": "v1", "kind": "Odd", "name": ODD, "uid": "u", "controller": True}],
        ),
        manifest("Pod", "lost", {"nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": "web:1"}]}),
        {
            **manifest("Lease", "kiel-01", {"leaseDurationSeconds": 300}, namespace="kube-node-lease"),
            "apiVersion": "coordination.k8s.io/v1",
        },
    ]
    for item in stub.client.run(Apply(documents)):
        assert not item.error, item.error
    client = RestClient(stub.config.control_socket)
    statuses = [{"name": "c", "ready": False, "restartCount": 3, "image": "web:1", "imageID": "", "state": WAITING}]
    patch = {"status": {"phase": "Running", "containerStatuses": statuses, "message": ODD}}
    for pod in ("crasher", "owned"):
        path = f"/api/v1/namespaces/default/pods/{pod}/status"
        client.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
    plant_devices(People(stub.client), client, edge)
    plant_jobs(JobAuthors(stub.client), client)
    odd = f"/api/v1/nodes/kiel-02?fieldManager={quote(MARKUP)}"
    client.request("PATCH", odd, body={"spec": {"unschedulable": False}}, content_type=MERGE_PATCH)
    client.request("PATCH", odd, body={"spec": {"unschedulable": True}}, content_type=MERGE_PATCH)
    status = {"status": {"nodeInfo": {"osImage": ODD, "kubeletVersion": "v1.32.10-edgecore-0.3.0"}}}
    client.request("PATCH", "/api/v1/nodes/kiel-01/status", body=status, content_type="application/merge-patch+json")


def test_each_question_is_answered_a_click_from_the_first_page(looked: Looked) -> None:
    window = looked.window
    looked.sentence("1 of 2 nodes is connected; ")
    findings = "document.querySelector('.todo')"
    window.wait(f"Boolean({findings}) && {findings}.textContent.includes('crasher does not run')")
    assert window.run("return location.hash") == "", "the token is not kept in the address"
    assert window.run("return document.querySelectorAll('.rows .row').length") == 2

    looked.follow("1 never connected")
    window.wait("document.querySelectorAll('.rows .row').length === 1")
    assert window.run("return location.search") == "?q=is%3Anever"
    looked.follow("Fleet")
    window.wait("document.querySelectorAll('.rows .row').length === 2")

    looked.follow("All changes")
    looked.sentence("changes in seven days")
    looked.follow("Fleet")
    looked.follow("kiel-01")
    looked.sentence("kiel-01 has been connected for")
    window.wait("document.body.textContent.includes('127.0.0.1')")
    hours = "[...document.querySelectorAll('.hours span')].map((each) => each.textContent)"
    assert window.run(f"const found = {hours}; return [found.length, found[0] !== found[2], found[4]]") == [
        5, True, "now",
    ]  # fmt: skip
    looked.follow("default/crasher")
    said = looked.sentence("default/crasher")
    assert "restarted 3 times" in said
    window.run("document.querySelector('td button').click()")
    window.wait("Boolean(document.querySelector('.log'))")
    assert "cannot be read" in str(window.run("return document.querySelector('.log').textContent"))

    looked.follow("Pods")
    looked.sentence("pods run")
    window.keys("lost", "#q")
    window.wait("location.search === '?q=lost' && document.querySelectorAll('td a.name').length === 1")
    looked.follow("default/lost")
    looked.sentence("default/lost")
    looked.follow("Rollouts")
    assert looked.sentence("The workload") == "The workload fails on some node."
    window.wait("document.querySelector('main').textContent.includes('CrashLoopBackOff on 1 pod: owned on kiel-01')")
    main = "document.querySelector('main').textContent"
    window.wait(f"{main}.includes('1 job of nodes: 1 has stopped.')")
    window.wait(f"{main}.includes('cloudcore upgrade resume up')")
    looked.follow("up")
    assert looked.sentence("NodeUpgradeJob up: Failure").startswith(
        "NodeUpgradeJob up: Failure: the waves have stopped"
    )
    window.wait(f"{main}.includes('1 failed · 1 waiting (1 away)') && {main}.includes('the job has ended')")
    window.keys("pending", "#q")
    window.wait("location.search === '?q=pending' && document.querySelectorAll('td a.name').length === 1")
    window.keys("\ue00c", "#q")  # Escape
    window.wait("document.querySelectorAll('td a.name').length === 2")
    looked.follow("kiel-01")
    looked.sentence("kiel-01 has been connected for")
    looked.follow("Devices")
    said = looked.sentence("devices are")
    assert said == "0 of 3 devices are as desired; 1 not as desired, 1 unknown, 1 on nodes that are away."
    window.wait("document.querySelector('main').textContent.includes('kiel-02 has never been connected')")
    window.keys("unknown", "#q")
    window.wait("location.search === '?q=unknown' && document.querySelectorAll('td a.name').length === 1")
    looked.follow("default/silent")
    assert "whether a mapper serves it is known on its node only" in looked.sentence("default/silent")
    window.run("history.back()")
    looked.sentence("3 devices are")
    window.keys("\ue00c", "#q")  # Escape
    looked.follow("default/hall")
    said = looked.sentence("default/hall is not as desired")
    assert "threshold: 30 is desired, its node has not confirmed it" in said
    window.wait("document.querySelector('main').textContent.includes('not confirmed')")
    window.run("document.querySelector('td button').click()")
    window.wait("document.querySelector('figcaption')?.textContent.startsWith('2 numbers from 20 to 29')")
    window.wait("document.querySelector('main').textContent.includes('keeps the last 2,000 values of seven days')")
    later = twins({"threshold": "31"}, 1_700_000_001_000)
    assert reports(looked.edge, "twin/edge_updated", later, name="hall") == "OK"
    window.wait("document.querySelector('figcaption')?.textContent.startsWith('3 numbers from 20 to 31')")
    window.run("[...document.querySelectorAll('td button')].forEach((each) => each.click())")
    window.wait(
        "[...document.querySelectorAll('h2')].filter((each) => each.textContent.startsWith('History')).length === 2"
    )
    looked.follow("Changes")
    looked.sentence("changes in seven days")
    window.wait("document.querySelector('main').textContent.includes('spec.unschedulable: False → True')")
    window.keys("node:kiel-02 default/far", "#q")
    window.wait("location.search.startsWith('?q=node') && document.querySelectorAll('tbody tr').length === 0")
    window.keys("\ue00c", "#q")  # Escape
    window.keys("person:me", "#q")
    window.wait("document.querySelector('main [role=status]')?.textContent.includes('there is no person')")
    window.keys("\ue00c", "#q")
    looked.follow("Fleet")
    window.wait("document.querySelectorAll('.rows .row').length === 2")
    looked.follow("kiel-01")
    looked.follow("What changed here")
    window.wait("document.querySelector('main').textContent.includes('default/crasher')")
    looked.follow("default/crasher")
    looked.sentence("default/crasher")
    looked.follow("Fleet")
    looked.sentence("nodes is connected")


def test_no_text_of_others_becomes_markup_or_leaves_the_page(looked: Looked) -> None:
    window = looked.window
    for path in ("/page/pods", *PATHS):
        window.run("history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))", path)
        window.wait("Boolean(document.getElementById('sentence'))")
        window.wait("!document.body.textContent.includes('reading')")
    window.wait("document.body.textContent.includes('<script>')")
    assert "\\u202e" in str(window.run("return document.body.textContent"))
    assert window.run("return [window.broken === undefined, document.querySelectorAll('img, main script').length]") == [
        True, 0,
    ]  # fmt: skip
    text = str(window.run("return document.body.textContent"))
    assert not set("\u202e\u2066\x1b\x07") & set(text)
    hrefs = window.run("return [...document.querySelectorAll('a')].map((each) => each.getAttribute('href'))")
    assert all(href.startswith(("/page/", "#")) for href in hrefs)
    origin = window.run("return location.origin")
    assert all(url.startswith(origin) for url in window.requests())


CORPUS = """
const [dom, words] = await Promise.all([import("/page/files/dom.js"), import("/page/files/words.js")]);
const place = document.createElement("div"), bad = [];
document.body.append(place);
const is = (true_, what, text) => { if (!true_) bad.push(`${what}: ${JSON.stringify(text).slice(0, 80)}`); };
for (const written of arguments[0]) {
  const text = JSON.parse(written), shown = words.plain(text);
  dom.render(place, [dom.h("p", { title: shown, "aria-label": shown }, shown, " ", dom.h("b", {}, shown))]);
  is(place.querySelectorAll("*").length === 2, "elements", text);
  is(place.textContent === `${shown} ${shown}` && place.firstChild.title === shown, "text", text);
  is(!arguments[1].some((code) => shown.includes(String.fromCharCode(code))), "unprintable", text);
  is(shown.isWellFormed ? shown.isWellFormed() : true, "surrogate", text);
  let link = "";
  try { dom.render(place, [dom.h("a", { href: text }, "x")]); link = place.firstChild.href; } catch { /* it is none */ }
  is(link === "" || new URL(link).origin === location.origin, "link", text);
}
for (const lookalike of arguments[2]) {
  dom.render(place, [dom.h("p", {}, lookalike, words.plain(lookalike))]);
  is(place.querySelectorAll("*").length === 1, "an answer is an element", lookalike);
}
place.remove();
return [bad, window.broken === undefined];
"""
LOOKALIKES = [{"tag": "img", "props": {"src": "x"}, "kids": []}, {"type": "script", "props": {}, "__v": 1}, {}]
UNPRINTABLE = [0, 7, 10, 27, 127, 155, 173, 0x61C, 0x200B, 0x202E, 0x2066, 0xFEFF]


def test_no_text_of_the_corpus_is_more_than_a_text(looked: Looked) -> None:
    """As text, as an attribute and as the address of a link; nor is JSON that looks like the page's own elements."""
    texts = hostile_texts()
    assert len(texts) >= 400
    written = [json.dumps(each) for each in texts]
    script = f"return (async function () {{ {CORPUS} }}).apply(null, arguments);"
    bad, is_whole = looked.window.run(script, written, UNPRINTABLE, LOOKALIKES)
    assert (bad, is_whole) == ([], True)
    origin = looked.window.run("return location.origin")
    assert all(url.startswith(origin) for url in looked.window.requests())


def test_the_page_escapes_what_commands_escape(looked: Looked) -> None:
    """One list: what is hidden in a table must not be hidden on the page, and the other way round."""
    script = """
    const { plain } = await import("/page/files/words.js"), found = [];
    for (let code = 0; code < 0x110000; code += 1) {
      const shown = plain(String.fromCodePoint(code));
      if (shown !== String.fromCodePoint(code)) found.push([code, shown]);
    }
    return found;
    """
    shown = looked.window.run(f"return (async function () {{ {script} }}).apply(null, arguments);")
    assert [code for code, _ in shown] == [code for code in range(0x110000) if printable(chr(code)) != chr(code)]
    assert dict(shown)[0xE0041] == printable("\U000e0041") == "\\U000e0041"


CUT = """
const headers = { Authorization: `Bearer ${sessionStorage.getItem("edgecore-page-key")}` };
const answer = await window.asked("/page/v1/changes?since=0&view=0", { headers });
const whole = await answer.text(), { ask } = await import("/page/files/api.js"), taken = [];
window.fetch = async () => new Response(whole.slice(0, window.cut));
for (window.cut = 0; window.cut < whole.trimEnd().length; window.cut += 1 + (whole.length >> 8)) {
  await ask("changes").then(() => taken.push(window.cut), () => {});
}
window.fetch = window.asked;
return [taken, whole.length];
"""


def test_an_answer_that_is_cut_anywhere_is_none(looked: Looked) -> None:
    looked.window.run("window.asked ||= window.fetch;")
    taken, length = looked.window.run(f"return (async function () {{ {CUT} }})();")
    assert (taken, length > 500) == ([], True)


def test_a_server_that_knows_less_leaves_a_part_out(looked: Looked) -> None:
    """As a page that a proxy has kept, in front of a server of the release before: nodes had no Events."""
    window = looked.window
    window.run(
        "window.asked ||= window.fetch; window.fetch = async (...all) => { const answer = await window.asked(...all);"
        "if (!String(all[0]).includes('/nodes/')) return answer;"
        "const { events, ...found } = await answer.json(); return new Response(JSON.stringify(found)); };"
    )
    looked.follow("kiel-01")
    looked.sentence("kiel-01 has been connected for")
    headings = "[...document.querySelectorAll('h2')].map((each) => each.textContent.trim())"
    window.wait(f"{headings}.some((each) => each.startsWith('Conditions'))")
    assert not window.run(f"return {headings}.some((each) => each.startsWith('Events'))")
    window.run("window.fetch = window.asked;")
    window.wait(f"{headings}.some((each) => each.startsWith('Events'))")


def test_the_search_shows_its_error(looked: Looked) -> None:
    window = looked.window
    window.keys("color:red", "#q")
    window.wait("document.querySelector('[role=alert]')?.textContent.includes('there is no color')")
    window.keys("\ue00c", "#q")  # Escape
    window.wait("document.querySelectorAll('.rows .row').length === 2")


def test_the_narrow_and_the_dark_page_need_no_sideways_scrolling(looked: Looked) -> None:
    window = looked.window
    for path in PATHS:
        window.run("history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))", path)
        window.wait("Boolean(document.getElementById('sentence'))")
        for width in (320, 390, 1280):
            window.resize(width, 900)
            wide = "[...document.querySelectorAll('main, .bar')].every((each) => each.scrollWidth <= innerWidth)"
            assert window.run(f"return {wide} && document.documentElement.scrollWidth <= innerWidth")
    before = window.run("return getComputedStyle(document.body).backgroundColor")
    window.click("#theme")
    assert window.run("return getComputedStyle(document.body).backgroundColor") != before
    window.click("#theme")
    assert [each for each in window.console() if "Content Security Policy" in each or "Uncaught" in each] == []


def test_a_broken_server_and_a_wrong_clock_leave_known_values(looked: Looked) -> None:
    """Rows stay, grey, with how long there was no answer; ages count from the server's clock."""
    window, answers = looked.window, ("'slow down', {status: 429}", "'broken', {status: 500}", "'{\"now\": 1', {}")
    live = "document.getElementById('live').textContent"
    window.run("window.asked ||= window.fetch; window.count = 0;")
    window.run("window.later ||= setTimeout; window.setTimeout = (run, after) => window.later(run, after / 20);")
    for answer in answers:
        window.run(
            f"window.fetch = async () => {{ window.count += 1; return new Response({answer}); }}; window.count = 0;"
        )
        window.wait(f"window.count > 0 && {live}.startsWith('no answer for')")
        assert window.run("return [document.querySelectorAll('.rows .row').length, document.body.className]") == [
            2, "stale",
        ]  # fmt: skip
    window.run("window.fetch = window.asked;")
    window.wait(f"{live} === 'live' && document.body.className === ''")
    looked.follow("Pods")
    looked.sentence("pods run")
    window.run("const now = Date.now; Date.now = () => now() + 86400000; window.count = 0;")
    window.run("window.fetch = (...all) => { window.count += 1; return window.asked(...all); };")
    window.wait("window.count > 1")  # the first one has been painted
    ages = window.run("return [...document.querySelectorAll('[data-label=age]')].map((each) => each.textContent)")
    assert ages
    assert not [age for age in ages if age.endswith(("h", "d"))], ages
    window.run("window.setTimeout = window.later;")


@pytest.mark.parametrize(("writes", "said"), [("resolve", "Copied"), ("reject", "Not copied")])
def test_the_button_shows_whether_a_command_was_copied(looked: Looked, writes: str, said: str) -> None:
    window = looked.window
    clipboard = f"{{writeText: (text) => {{ window.copied = text; return Promise.{writes}(); }}}}"
    window.run(f"Object.defineProperty(navigator, 'clipboard', {{configurable: true, value: {clipboard}}});")
    window.run("window.asked ||= window.fetch; window.fetch = () => new Promise(() => {});")  # nothing is painted
    window.run("document.querySelector('.same .cmd button').click()")
    window.wait(f"document.querySelector('.same .cmd button').textContent === '{said}'")
    assert window.run("return window.copied") == "cloudcore nodes"
    window.run("window.fetch = window.asked; delete navigator.clipboard;")


def test_a_late_answer_to_an_earlier_search_is_not_shown(looked: Looked) -> None:
    window, names = looked.window, "[...document.querySelectorAll('td a.name')].map((each) => each.textContent.trim())"
    looked.follow("Pods")
    looked.sentence("pods run")
    window.run(
        "window.asked ||= window.fetch; window.late = null;"
        "const later = (all) => new Promise((answer) => { window.late = () => window.asked(...all).then(answer); });"
        "window.fetch = (...all) => (String(all[0]).endsWith('q=l') ? later(all) : window.asked(...all));"
    )
    window.keys("l", "#q")
    window.wait("window.late !== null")
    window.keys("ost", "#q")
    window.wait(f"{names}.join() === 'default/lost'")
    window.run("window.fetch = () => new Promise(() => {}); window.late();")
    assert window.run(f"return new Promise((done) => setTimeout(() => done({names}), 300))") == ["default/lost"]
    window.run("window.fetch = window.asked;")


PAUSE = "window.asked ||= window.fetch; window.fetch = () => new Promise(() => {});"
"""Nothing is painted while axe looks."""
ASK = """
window.found = null;
axe.run({resultTypes: ["violations"], ...arguments[0]}).then((found) => { window.found = found; });
"""
ONLY_COLOURS = {"runOnly": ["color-contrast"]}
"""What of axe's rules can say something else of the dark page than of the light one."""
FOUND = """
return window.found.violations.filter((each) => ["serious", "critical"].includes(each.impact)).flatMap((each) =>
  each.nodes.map((node) => `${each.id}: ${node.target.join(" ")}: ${node.failureSummary.replace(/\\s+/g, " ")}`));
"""


@pytest.mark.skipif(importlib.util.find_spec("axe_core_python") is None, reason="axe-core-python is not installed")
def test_axe_finds_nothing_serious_light_and_dark_narrow_and_wide(looked: Looked) -> None:
    window, found = looked.window, list[str]()
    window.run(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    for path in ("/page/pods", *PATHS):
        window.run("if (window.asked) window.fetch = window.asked;")
        window.run("history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))", path)
        window.wait("Boolean(document.getElementById('sentence')) && !document.body.textContent.includes('reading')")
        if path.endswith("hall"):
            window.run("document.querySelector('td button').click()")
            window.wait("Boolean(document.querySelector('figcaption'))")
        window.run(PAUSE)
        for width in (320, 390, 1280):
            window.resize(width, 900)
            for theme, rules in (("light", {}), ("dark", ONLY_COLOURS)):
                window.run("document.documentElement.style.colorScheme = arguments[0];", theme)
                window.run(ASK, rules)
                window.wait("Boolean(window.found)")
                found += [f"{path} {theme} {width}: {each}" for each in window.run(FOUND)]
    assert not found, "\n".join(found)
    window.run("document.querySelector('td button').removeAttribute('aria-label');")
    window.run("document.querySelector('td button').textContent = '';" + ASK)
    window.wait("Boolean(window.found)")
    (planted,) = window.run(FOUND)
    assert planted.startswith("button-name: "), "or axe has looked at nothing"


def test_links_beside_words_are_seen_without_colours(looked: Looked) -> None:
    """WCAG 1.4.1; newer releases of axe than the one above tell (`link-in-text-block`)."""
    window = looked.window
    window.run("if (window.asked) window.fetch = window.asked;")
    window.run("history.pushState(null, '', '/page/changes?q=is:all'); dispatchEvent(new PopStateEvent('popstate'))")
    window.wait("Boolean(document.querySelector('td .quiet + a'))")
    lines = "[...document.querySelectorAll('td .quiet + a')].map((link) => getComputedStyle(link).textDecorationLine)"
    assert set(window.run(f"return {lines}")) == {"underline"}


def test_an_address_that_was_used_opens_nothing(looked: Looked) -> None:
    window = looked.window
    window.run("sessionStorage.clear()")
    window.open("about:blank")
    window.open(f"{looked.page.address().partition('#')[0]}#{'A' * 43}")
    assert looked.sentence("no session") == "This page has no session."
    assert "opened once" in str(window.run("return document.querySelector('main').textContent"))
