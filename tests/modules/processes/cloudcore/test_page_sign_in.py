"""Signing in on the page at an identity provider: the code flow with PKCE, over real TLS, and in a browser."""

import hashlib
import json
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest

from modules.cloud.authentication.jws import to_base64url
from modules.processes.cloudcore.config import TlsConfig
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.authentication.oidc.provider import CLIENT, Provider, claims, signed
from tests.modules.processes.cloudcore.stubs import CLOCK, Stub
from tests.modules.processes.cloudcore.test_page_port import NODES, Answer, Visitor, granted
from tests.modules.processes.cloudcore.test_secure_port import Secure
from tests.support.browser import browser, why_none
from tests.support.control_client import Apply
from tests.support.http_application import Heard, Reply

SITE = "/realms/edge"
VERIFIER = "v" * 43
WRONG_CODES: list[dict[str, Any]] = [
    {"code": "wrong"}, {"code": ""}, {"code": "x" * 5000}, {"verifier": "w" * 43}, {"verifier": "short"},
    {"verifier": f"{VERIFIER}&"}, {"nonce": "another"}, {"nonce": ""},
]  # fmt: skip


class CodeProvider(Provider):
    """A provider that signs everybody in as carol, with codes that count once."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.codes: dict[str, dict[str, str]] = {}
        """What was asked for with each code."""
        self.changes: dict[str, Any] = {}
        """Of the claims of its tokens."""
        self.refusal = ""

    @property
    def discovery(self) -> dict[str, Any]:
        """See `Provider`."""
        more = {"authorization_endpoint": f"{self.issuer}/auth?hint=1", "token_endpoint": f"{self.issuer}/token"}
        return {**super().discovery, **more}

    def code(self, **asked: str) -> str:
        """Return a code, as if a browser had asked for it."""
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return code

    def _answer(self, heard: Heard) -> Reply:
        split = urlsplit(heard.target)
        if split.path == f"{SITE}/auth":
            asked = {name: values[0] for name, values in parse_qs(split.query).items()}
            given = {"error": "access_denied", "error_description": "<b>no</b>"} if self.refusal else {}
            given = {"state": asked["state"], **(given or {"code": self.code(**asked)})}
            return 302, {"Location": f"{asked['redirect_uri']}?{urlencode(given)}"}, b""
        if split.path == f"{SITE}/token":
            return self._token({name: values[0] for name, values in parse_qs(heard.body.decode()).items()})
        return super()._answer(heard)

    def _token(self, given: dict[str, str]) -> Reply:
        asked = self.codes.pop(given.get("code", ""), None)
        proof = to_base64url(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
        if asked is None or proof != asked["code_challenge"] or given["redirect_uri"] != asked["redirect_uri"]:
            return 400, {}, b'{"error":"invalid_grant"}'
        assert (given["grant_type"], given["client_id"]) == ("authorization_code", CLIENT)
        token = signed(claims(self.issuer, CLOCK.now(), **{"nonce": asked["nonce"], **self.changes}))
        return 200, {}, json.dumps({"id_token": token, "access_token": "a"}).encode()


class Door:
    """A cloudcore whose users sign in at a provider."""

    def __init__(self, secure: Secure, provider: CodeProvider) -> None:
        self.secure = secure
        self.provider = provider
        self.visitor = Visitor(secure)
        self.redirect = f"https://{self.visitor.host}/page/sign-in"

    def come_back(self, *, headers: Mapping[str, Any] | None = None, **changes: str) -> Answer:
        """Come back from the provider with a code."""
        challenge = to_base64url(hashlib.sha256(VERIFIER.encode()).digest())
        asked = {"code_challenge": challenge, "nonce": "n", "redirect_uri": self.redirect}
        body = {"code": self.provider.code(**asked), "verifier": VERIFIER, "nonce": "n", **changes}
        own = {"origin": f"https://{self.visitor.host}", "x_edgecore_page": "1", "sec_fetch_site": "same-origin"}
        sent = own if headers is None else headers
        return self.visitor.ask("/page/v1/sign-in", "POST", body=msgspec.json.encode(body), **sent)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """Start a provider, and a cloudcore with the page that trusts it."""
    provider = CodeProvider(tmp_path)
    with provider.application:
        tls, settings = TlsConfig(directory=tmp_path / "tls", https_port=0), provider.settings(username_prefix="idp:")
        with Stub(tmp_path, tls=tls, secure_port=0, page=True, oidc=settings) as stub:
            made = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}]
            stub.client.run(Apply([*made, *granted("idp:carol", "ClusterRole", [NODES])]))
            yield Door(Secure(stub, tmp_path), provider)


def test_a_code_opens_a_session_of_its_user(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asked = json.loads(door.visitor.ask("/page/v1/sign-in").body)
    expected = {"endpoint": f"{door.provider.issuer}/auth?hint=1", "client_id": CLIENT, "scope": "openid profile email"}
    assert asked == expected
    answer = door.come_back()
    assert answer.status == 200, answer.body
    key = f"Bearer {json.loads(answer.body)['key']}"
    assert '"user":"idp:carol"' in door.visitor.ask("/page/v1/me", authorization=key).body
    assert door.visitor.ask("/page/v1/nodes/n1", authorization=key).status == 200
    assert door.visitor.ask("/page/v1/pods", authorization=key).status == 403
    codes = [parse_qs(each.body.decode())["code"][0] for each in door.provider.application.heard if each.body]
    assert codes
    assert [each for each in (*codes, VERIFIER, key) if each in caplog.text] == []


@pytest.mark.parametrize("wrong", WRONG_CODES, ids=str)
def test_a_code_that_is_not_this_sign_ins_opens_nothing(door: Door, wrong: dict[str, Any]) -> None:
    answer = door.come_back(**wrong)
    assert answer.status == 502
    assert VERIFIER not in answer.body


def test_a_code_counts_once_and_only_from_the_page(door: Door) -> None:
    code = door.provider.code(
        code_challenge=to_base64url(hashlib.sha256(VERIFIER.encode()).digest()), nonce="n", redirect_uri=door.redirect
    )
    assert [door.come_back(code=code).status for _ in range(2)] == [200, 502]
    own = {"origin": f"https://{door.visitor.host}", "x_edgecore_page": "1"}
    for headers in ({}, {**own, "origin": "https://evil.example"}, {**own, "x_edgecore_page": "0"},
                    {**own, "sec_fetch_site": "cross-site"}):  # fmt: skip
        assert door.come_back(headers=headers).status == 403
    assert door.visitor.ask("/page/v1/sign-in", "DELETE").status == 403


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"aud": "another"}, 401), ({"iss": "https://evil.example"}, 401), ({"exp": 1}, 401), ({"sub": None}, 401)],
)
def test_a_token_is_checked_as_any_other(door: Door, changes: dict[str, Any], status: int) -> None:
    door.provider.changes = changes
    assert door.come_back().status == status


@pytest.mark.parametrize(
    "document",
    [
        lambda found: {**found, "token_endpoint": "http://127.0.0.1/token"},
        lambda found: {**found, "authorization_endpoint": "javascript:alert(1)"},
        lambda found: {**found, "authorization_endpoint": ""},
        lambda found: {**found, "issuer": "https://evil.example"},
    ],
)
def test_a_provider_without_such_addresses_signs_nobody_in(
    door: Door, document: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    body = json.dumps(document(door.provider.discovery)).encode()
    door.provider.documents["/.well-known/openid-configuration"] = 200, body
    assert door.visitor.ask("/page/v1/sign-in").status == 502
    assert door.come_back().status == 502
    asked = [each for each in door.provider.application.heard if each.target.endswith("/token")]
    assert asked == []


def test_a_link_from_elsewhere_opens_the_document_and_nothing_else(door: Door) -> None:
    visit: dict[str, Any] = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert door.visitor.ask("/page/sign-in?code=x&state=y", **visit).status == 200
    assert door.visitor.ask("/page/pods/default/web", **visit).status == 200
    for path in ("/page/v1/sign-in", "/page/v1/me", "/page/files/main.js"):
        assert door.visitor.ask(path, **visit).status == 403
    others: list[dict[str, Any]] = [
        {"sec_fetch_dest": "iframe"}, {"sec_fetch_mode": "no-cors"}, {"origin": "https://evil.example"},
    ]  # fmt: skip
    for other in others:
        assert door.visitor.ask("/page/", **{**visit, **other}).status == 403


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_a_browser_signs_in_and_nothing_of_it_stays_in_the_address(door: Door) -> None:
    said = "(document.getElementById('sentence') || {textContent: ''}).textContent"
    with browser(1280, 900) as window:
        window.open(f"{door.secure.url}/page/nodes/n1")
        window.wait("Boolean(document.getElementById('provider'))")
        host = urlsplit(door.provider.issuer).netloc
        assert window.run("return document.getElementById('provider').textContent") == f"Sign in at {host}"
        window.click("#provider")
        window.wait(f"{said}.includes('n1')")
        assert window.run("return location.pathname + location.search + location.hash") == "/page/nodes/n1"
        assert "idp:carol" in window.run("return document.getElementById('who').textContent")
        kept = "return document.cookie + Object.keys(sessionStorage).join()"
        assert window.run(kept) == "edgecore-page-key"
        asked = next(each for each in door.provider.application.heard if each.target.startswith(f"{SITE}/auth"))
        query = parse_qs(urlsplit(asked.target).query)
        expected = {"code_challenge_method": ["S256"], "hint": ["1"], "redirect_uri": [door.redirect]}
        assert {name: query[name] for name in expected} == expected
        assert re.fullmatch(r"[\w-]{43}", query["code_challenge"][0])
        assert "referer" not in asked.headers

        window.click("#who button")
        window.wait("Boolean(document.getElementById('provider'))")
        door.provider.refusal = "no"
        window.click("#provider")
        window.wait("document.querySelector('main').textContent.includes('The identity provider refuses: <b>no</b>')")
        window.open(f"{door.secure.url}/page/sign-in?code=stolen&state=made-up")
        window.wait("document.querySelector('main').textContent.includes('to no question of this tab')")
        assert window.run("return location.pathname + location.search") == "/page/"
        assert [each for each in window.console() if "Content Security Policy" in each or "Uncaught" in each] == []
    exchanged = [each for each in door.provider.application.heard if each.target == f"{SITE}/token"]
    wait_until(lambda: len(exchanged) == 1, "one code was exchanged, and the made-up one was not")


_HELD = """
const real = window.fetch, seen = window.seen = [];
let left, answered;
const isLeft = new Promise((resolve) => { left = resolve; });
const isAnswered = new Promise((resolve) => { answered = resolve; });
window.fetch = async (url, options = {}) => {
  if (String(url).endsWith("sign-in")) return real(url, options);
  if (options.method === "DELETE") { const answer = await real(url, options); left(); await isAnswered; return answer; }
  await isLeft;
  const answer = await real(url, options);
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(answered)));
  return answer;
};
const main = document.querySelector("main");
new MutationObserver(() => {
  const told = main.querySelector("[role=status]")?.textContent;
  if (told && seen.at(-1) !== told) seen.push(told);
}).observe(main, { childList: true, subtree: true, characterData: true });
document.dispatchEvent(new Event("visibilitychange"));
"""
"""Holds the page's requests until the session has ended, and the end of the session until one of them is answered."""


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_a_request_that_is_under_way_does_not_take_the_way_to_sign_in_away(door: Door) -> None:
    """It is refused before the page knows that the session has ended: the page said both, one after the other."""
    with browser(1280, 900) as window:
        window.open(f"{door.secure.url}/page/nodes/n1")
        window.wait("Boolean(document.getElementById('provider'))")
        window.click("#provider")
        window.wait("Boolean(document.querySelector('#who button') && document.getElementById('sentence'))")
        window.run(_HELD)
        window.click("#who button")
        window.wait("window.seen.includes('You have signed out.') && document.getElementById('provider')")
        assert window.run("return window.seen") == ["You have signed out."]
        window.console()
