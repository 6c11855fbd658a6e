"""Pulls through a proxy: HTTPS_PROXY, HTTP_PROXY and NO_PROXY of edgecore's environment."""

from __future__ import annotations

import http.client
import logging
import os
import select
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from modules.runtimes.oci.images import ImageStore, PullSettings
from modules.runtimes.oci.images.errors import RegistryUnavailableError, RunFailedError
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.hosts import ServerAddress
from modules.runtimes.oci.images.worker.proxies import HttpProxy, proxy_for
from modules.runtimes.oci.images.worker_process import WorkerProcess
from tests.end_to_end.processes import wait_until
from tests.modules.runtimes.oci.images.registry import TestRegistry, basic, certificates
from tests.modules.runtimes.oci.images.test_pulls import LAYERS, pull
from tests.support.serving import ServedInThread

NAME = "registry.test"
"""A name that only the proxy knows."""
_PASSWORD = "not/for:logs"  # noqa: S105 - of this test alone
_QUOTED = "not%2Ffor%3Alogs"
_ONCE = PullSettings(attempts=1)


class _Proxy(ServedInThread):
    """A proxy that leads to one registry, whatever it is asked for; `user` and the password are wanted, if any."""

    def __init__(self, registry: TestRegistry, *, wants: bool = False) -> None:
        self.asked: list[str] = []
        outer = self
        host, _, port = registry.address.partition(":")

        class _Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                if self._may():
                    with socket.create_connection((host, int(port))) as server:
                        self.send_response(200)
                        self.end_headers()
                        _relay(self.connection, server)

            def do_GET(self) -> None:
                if self._may():
                    connection = http.client.HTTPConnection(host, int(port))
                    connection.request(self.command, self.path.partition(NAME)[2].lstrip(":0123456789"))
                    answer = connection.getresponse()
                    body = answer.read()
                    self.send_response(answer.status)
                    for name, value in answer.getheaders():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                    connection.close()

            do_HEAD = do_GET  # noqa: N815 - the name in http.server

            def log_message(self, *_: object) -> None:
                """Be quiet."""

            def _may(self) -> bool:
                outer.asked.append(f"{self.command} {self.path}")
                right = not wants or self.headers.get("Proxy-Authorization") == basic("user", _PASSWORD)
                if not right:
                    self.send_error(407)
                self.close_connection = True
                return right

        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        server.daemon_threads = True
        super().__init__(server)
        self.address = f"127.0.0.1:{server.server_address[1]}"


def _relay(one: socket.socket, other: socket.socket) -> None:
    peers = {one: other, other: one}
    while True:
        for ready in select.select(list(peers), [], [])[0]:
            data = ready.recv(65536)
            if not data:
                return
            peers[ready].sendall(data)


@pytest.fixture
def registry(scratch: Path) -> Iterator[TestRegistry]:
    """A registry with TLS that the name stands for, behind a token server of the same name."""
    authority, server = certificates(scratch, NAME)
    with TestRegistry(server, "bearer", anonymous=True) as started:
        started.add(LAYERS)
        started.realm = f"https://{NAME}/token"
        directory = scratch / "certs.d" / NAME
        directory.mkdir(parents=True)
        (directory / "hosts.toml").write_text(f'server = "https://{NAME}"\nca = "{authority}"\n')
        yield started


@pytest.mark.extended
def test_a_pull_through_a_proxy_with_a_password(
    store: ImageStore, registry: TestRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every connection goes through it, to token server and registry; TLS is with them, not with the proxy."""
    caplog.set_level(logging.DEBUG)
    with _Proxy(registry, wants=True) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:{_QUOTED}@{proxy.address}")
        assert pull(store, f"{NAME}/team/app:1")
        assert set(proxy.asked) == {f"CONNECT {NAME}:443"}
        assert len(proxy.asked) == len(registry.seen)
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:wrong@{proxy.address}")
        store = ImageStore(store.layout.root, store._clock, store._registries, pulls=_ONCE)
        with pytest.raises(RegistryUnavailableError, match=f"407.*through the proxy {proxy.address}") as refused:
            pull(store, f"{NAME}/team/other:1")
    assert "wrong" not in str(refused.value)
    assert all(secret not in caplog.text for secret in (_PASSWORD, _QUOTED))


@pytest.mark.extended
def test_plain_http_through_a_proxy(store: ImageStore, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hosts.toml allows plain HTTP, the proxy gets whole URLs."""
    with TestRegistry() as registry, _Proxy(registry) as proxy:
        registry.add(LAYERS)
        directory = scratch / "certs.d" / NAME
        directory.mkdir(parents=True)
        (directory / "hosts.toml").write_text(f'server = "http://{NAME}:5000"\n')
        monkeypatch.setenv("http_proxy", proxy.address)
        assert pull(store, f"{NAME}/team/app:1")
        assert f"GET http://{NAME}:5000/v2/team/app/manifests/1" in proxy.asked


@pytest.mark.extended
def test_without_a_proxy_for_it_a_registry_is_asked_itself(
    store: ImageStore, registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY names it, so its name has to mean something, which it does not; a variable that is wrong is named."""
    with _Proxy(registry) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        monkeypatch.setenv("NO_PROXY", f"other.test, {NAME}")
        store = ImageStore(store.layout.root, store._clock, store._registries, pulls=_ONCE)
        with pytest.raises(RegistryUnavailableError, match="cannot be reached") as refused:
            pull(store, f"{NAME}/team/app:1")
        assert proxy.asked == []
        assert "proxy" not in str(refused.value)
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@proxy.test:1080")
    with pytest.raises(RunFailedError, match="HTTPS_PROXY names no proxy") as refused_variable:
        pull(store, f"{NAME}/team/app:1")
    assert "secret" not in str(refused_variable.value)


_PROXY = HttpProxy("proxy.test", 3128)


@pytest.mark.parametrize(
    ("exceptions", "host", "port", "is_direct"),
    [
        ("", "registry.test", 443, False),
        ("*", "registry.test", 443, True),
        ("registry.test", "registry.test", 443, True),
        ("test", "a.registry.test", 443, True),
        ("Registry.TEST ,x", "registry.test", 443, True),
        (".test", "registry.test", 443, True),
        (".registry.test", "registry.test", 443, False),
        ("*.test", "registry.test", 443, True),
        ("egistry.test", "registry.test", 443, False),
        ("registry.test:443", "registry.test", 443, True),
        ("registry.test:5000", "registry.test", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("10.0.0.0/33,10.1.2.3", "10.1.2.3", 443, True),
        ("2.3", "10.1.2.3", 443, False),
        ("fd00::/8", "fd00::1", 443, True),
        ("[fd00::1]:443", "fd00::1", 443, True),
        ("fd00::2", "fd00::1", 443, False),
        (",,", "registry.test", 443, False),
        ("x", "127.0.0.1", 5000, True),
        ("x", "localhost", 5000, True),
    ],
)
def test_exceptions(exceptions: str, host: str, port: int, *, is_direct: bool) -> None:
    """NO_PROXY is read as containerd and Docker do; this machine itself is never asked of a proxy."""
    environment = {"HTTPS_PROXY": "http://proxy.test:3128/", "NO_PROXY": exceptions}
    found = proxy_for(ServerAddress("https", host, port), environment)
    assert found == (None if is_direct else _PROXY)


def test_variables() -> None:
    """One for each scheme, in lower case first; credentials are decoded, and never shown."""
    target = ServerAddress("https", "registry.test", 443)
    assert proxy_for(target, {"HTTP_PROXY": "proxy.test:3128"}) is None
    assert proxy_for(target._replace(scheme="http"), {"HTTP_PROXY": "proxy.test:3128"}) == _PROXY
    found = proxy_for(target, {"https_proxy": f"http://me:{_QUOTED}@[fd00::1]", "HTTPS_PROXY": "nonsense://"})
    assert found is not None
    assert found == HttpProxy("fd00::1", 80, "me", _PASSWORD)
    assert _PASSWORD not in repr(found)
    for wrong in ("https://proxy.test", "http://", "http://proxy.test:port", "http://[", "://"):
        with pytest.raises(ImageWorkError, match="HTTPS_PROXY names no proxy"):
            proxy_for(target, {"HTTPS_PROXY": wrong})


@pytest.mark.extended
def test_a_worker_has_proxies_and_authorities_of_edgecores_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It meets registries and images; edgecore's environment may have credentials."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    needed = {"https_proxy": "http://proxy.test", "NO_PROXY": "inside.test", "SSL_CERT_FILE": "/etc/own.pem"}
    for name, text in {**needed, "MQTT_PASSWORD": "secret", "PATH": "/bin"}.items():
        monkeypatch.setenv(name, text)
    process = WorkerProcess("look", lambda _needs: None)._start()
    environment = Path(f"/proc/{process.pid}/environ")
    try:
        wait_until(lambda: environment.read_bytes() != b"", "the kernel has begun the program")
        found = environment.read_bytes().decode().rstrip("\0").split("\0")
    finally:
        process.kill()
        process.communicate()
    assert dict(each.split("=", 1) for each in found) == {**needed, "LC_ALL": "C.UTF-8"}
