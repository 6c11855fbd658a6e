"""What a pod's answer can do in a real browser: run nothing, read nothing, and have no request of its own admitted."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from beehive.clock import RealClock
from beehive.http.browser_guard import is_sent_by_another_site
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Reply, Response
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath
from modules.cloud.cloudstream.proxy_rules import response_headers
from tests.support.browser import Browser, browser, why_none

pytestmark = pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")

PORT = PodPort("default", "web", 8080, has_tls=False, host="10.0.0.2")
PREFIX = "/api/v1/namespaces/default/pods/web/proxy"
SCRIPT = "<script>document.title = 'ran'; fetch('API/fetch', { method: 'POST' })</script>"
TAGS = """
<link rel=stylesheet href="API/css"><link rel=preload as=fetch href="API/preload">
<link rel=prefetch href="API/prefetch">
<script src="API/script"></script><img src="API/img" onerror="document.title = 'ran'"><iframe src="API/frame"></iframe>
<iframe srcdoc="<script>top.document.title = 'ran'</script>"></iframe>
<object data="API/object"></object><embed src="API/embed">
<video src="API/video"></video><form action="API/form" method=post><button id=send>x</button></form>
<a id=script href="javascript:document.title = 'ran'">x</a>
"""
HEADERS = (
    ("content-security-policy", "img-src 'none'; report-uri API/report"),
    ("content-security-policy-report-only", "default-src 'none'; report-uri API/report-only"),
    ("reporting-endpoints", 'x="API/endpoint"'),
    ("link", "<API/link-header>; rel=preload; as=image"),
    ("speculation-rules", '"API/rules"'),
    ("set-cookie", "evil=1"),
)
ANSWERS = {
    "html": ("text/html", f"<!doctype html>{SCRIPT}<body onload=\"document.title = 'ran'\">{TAGS}"),
    "xml": ("text/xml", f"<html xmlns='http://www.w3.org/1999/xhtml'><head>{SCRIPT}</head><body/></html>"),
    "text": ("text/plain", SCRIPT),
    "unnamed": ("", f"<html>{SCRIPT}</html>"),
}


class Cloud:
    """A server with the answers of a pod below the proxy's path; all else is the API's (`HttpService`)."""

    def __init__(self) -> None:
        self.admitted: list[str] = []
        self.refused: list[str] = []
        self.api = ""

    def serve(self, request: Request) -> Reply:
        if not request.path.startswith(PREFIX):
            if request.path != "/favicon.ico":
                (self.refused if is_sent_by_another_site(request) else self.admitted).append(request.path)
            return Response(200, "application/json", b"{}")
        content_type, text = ANSWERS[request.parts[-1]]
        fields = [(name, value.replace("API", self.api)) for name, value in HEADERS]
        headers = response_headers(fields, PORT, ProxiedPath(PREFIX, "/"))
        return Response(200, content_type, text.replace("API", self.api).encode(), headers=headers)


@contextmanager
def opened(name: str) -> Iterator[tuple[Browser, Cloud]]:
    """A browser that shows an answer of the pod."""
    cloud, clock = Cloud(), RealClock()
    server = HttpServer(listen_tcp("127.0.0.1", 0), cloud, clock, max_body=1 << 20)
    server.start()
    cloud.api = f"http://127.0.0.1:{server.port}/api/v1"
    try:
        with browser() as window:
            window.open(f"http://127.0.0.1:{server.port}{PREFIX}/{name}")
            yield window, cloud
    finally:
        server.stop()
        clock.close()


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_a_pod_runs_nothing_and_has_no_origin(name: str) -> None:
    """The page and its key are of the server's origin; a client certificate goes with each request of a browser."""
    with opened(name) as (window, cloud):
        for element in ("send", "script"):
            window.run("document.getElementById(arguments[0])?.click()", element)
        read = "try { return document.cookie + sessionStorage.length } catch (error) { return error.name }"
        found = window.run(f"return [document.title, self.origin, (() => {{ {read} }})()]")
    assert found == ["", "null", "SecurityError"]
    assert cloud.admitted == []
    assert name != "html" or {"/api/v1/css", "/api/v1/frame"} <= set(cloud.refused)
