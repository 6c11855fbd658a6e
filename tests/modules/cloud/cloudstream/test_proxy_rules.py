"""Headers, redirects and links of proxied requests."""

import pytest

from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath
from modules.cloud.cloudstream.proxy_rules import (
    LONGEST_PAGE,
    SANDBOX,
    is_page,
    repeats_elsewhere,
    request_headers,
    response_headers,
    with_links,
)

PORT = PodPort("default", "web", 8080, has_tls=False, host="10.0.0.2")
PREFIX = "/api/v1/namespaces/default/pods/web/proxy"
PATH = ProxiedPath(PREFIX, "/a?b=c")
FORWARDED = (("X-Forwarded-Host", "cloud:6443"), ("X-Forwarded-Uri", f"{PREFIX}/a"))


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "cookie", "impersonate-user", "impersonate-extra-a", "x-remote-user", "x-forwarded-for",
        "forwarded", "proxy-authorization", "connection", "keep-alive", "te", "transfer-encoding", "expect",
        "content-length", "accept-encoding", "x-of-the-connection",
    ],
)  # fmt: skip
def test_what_is_not_the_pods_business_stays(name: str) -> None:
    """The credentials of the API's client above all: a pod could use them."""
    fields = (("host", "cloud:6443"), ("connection", "x-of-the-connection"), (name, "secret"), ("accept", "*/*"))
    headers = request_headers(fields, PORT, PATH)
    assert headers == (("Host", "10.0.0.2:8080"), ("accept", "*/*"), *FORWARDED)


def test_an_address_of_ipv6_is_in_brackets() -> None:
    assert request_headers((), PORT._replace(host="fd00::2"), PATH)[0] == ("Host", "[fd00::2]:8080")


@pytest.mark.parametrize(
    "name",
    [
        "Set-Cookie", "clear-site-data", "Strict-Transport-Security", "alt-svc", "service-worker-allowed",
        "www-authenticate", "access-control-allow-origin", "Access-Control-Allow-Credentials", "nel", "report-to",
        "transfer-encoding", "connection", "content-length", "x-content-type-options",
    ],
)  # fmt: skip
def test_nothing_holds_for_the_servers_origin(name: str) -> None:
    """A browser would take it for this server's word, at whose origin the page and its session are."""
    headers = response_headers(((name, "a"), ("x-own", "b")), PORT, PATH)
    assert headers == (("x-own", "b"), SANDBOX)


def test_a_pod_cannot_take_the_sandbox_away() -> None:
    """Of several policies a browser applies all."""
    own = ("content-security-policy", "default-src *")
    assert response_headers((own,), PORT, PATH) == (own, SANDBOX)


@pytest.mark.parametrize(
    ("location", "sent"),
    [
        ("/login?a", f"{PREFIX}/login?a"),
        ("http://10.0.0.2:8080/login", f"{PREFIX}/login"),
        ("https://10.0.0.2:8080/login", f"{PREFIX}/login"),
        ("http://10.0.0.2:8080", f"{PREFIX}/"),
        ("login", "login"),
        ("//other.example/", "//other.example/"),
        ("https://other.example/", "https://other.example/"),
        ("http://10.0.0.2:80801/", "http://10.0.0.2:80801/"),
    ],
)
def test_a_redirect_within_the_pod_stays_below_the_proxy(location: str, sent: str) -> None:
    assert response_headers((("location", location),), PORT, PATH) == (("location", sent), SANDBOX)


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [
        ({"content-type": "text/html; charset=utf-8"}, True),
        ({"Content-Type": "TEXT/HTML"}, True),
        ({"content-type": "text/html", "content-encoding": "gzip"}, False),
        ({"content-type": "application/json"}, False),
        ({}, False),
    ],
)
def test_only_pages_have_links(fields: dict[str, str], is_one: bool) -> None:
    assert is_page(fields.items()) is is_one


@pytest.mark.parametrize(
    ("page", "sent"),
    [
        ('<a href="/rewriteme">test</a>', '<a href="{}/rewriteme">test</a>'),
        ("<IMG alt=x SRC=/a.png>", "<IMG alt=x SRC={}/a.png>"),
        ("<form action='/post'><p>/not href=\"/this\"", "<form action='{}/post'><p>/not href=\"/this\""),
        ('<a href="//other.example/x">', '<a href="//other.example/x">'),
        ('<a href="https://other.example/x">', '<a href="https://other.example/x">'),
        ('<a href="relative/x">', '<a href="relative/x">'),
        ('<a data-href="/x">', '<a data-href="/x">'),
        ("a < b href=/x", "a < b href=/x"),
        ("<a href=/", "<a href=/"),
    ],
)
def test_links_to_the_server_stay_below_the_proxy(page: str, sent: str) -> None:
    assert with_links(page.encode(), PREFIX).decode() == sent.format(PREFIX)


def test_a_page_of_links_gets_little_longer() -> None:
    """A megabyte of links was 60 of them, for each request at a time."""
    page = b"<a" + b" src=/" * 600 + b">"
    pages = page * (LONGEST_PAGE // len(page))
    changed = with_links(pages, "/" + "x" * 400)
    assert len(pages) < len(changed) <= len(pages) + LONGEST_PAGE


@pytest.mark.parametrize(
    ("location", "is_refused"),
    [
        ("/done", False),
        ("http://10.0.0.2:8080/done?to=https://a/..", False),
        ("done", False),
        ("?page=2", False),
        (f"https://cloud:6443{PREFIX}/done", True),
        ("https://cloud:6443/api/v1/namespaces/default", True),
        ("https://localhost:6443/api/v1/namespaces/default", True),
        ("https:/api/v1/namespaces/default", True),
        ("//cloud:6443/api/v1/namespaces/default", True),
        ("../../../../default", True),
        ("/../../../../default", True),
        ("/%2e%2E/%2e%2e/x", True),
        ("/..\\..\\x", True),
        ("/.\t./x", True),
        ("\\\\cloud:6443/x", True),
    ],
)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_repeats_no_write_at_another_path(location: str, status: int, *, is_refused: bool) -> None:
    """kubectl and curl repeat it with the user's credentials: a pod would have the user delete anything."""
    headers = response_headers((("location", location),), PORT, PATH)
    assert repeats_elsewhere("DELETE", status, headers, PATH) is is_refused
    assert not repeats_elsewhere("GET", status, headers, PATH), "who reads may be led anywhere, as in Kubernetes"
    assert not repeats_elsewhere("DELETE", 303, headers, PATH), "it is followed by a GET"
