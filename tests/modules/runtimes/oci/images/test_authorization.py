"""How long a token is used, and which thread gets the next one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modules.runtimes.oci.images.worker.authorization import Authorization, RegistryCredentials
from modules.runtimes.oci.images.worker.hosts import RegistryHost, ServerAddress
from modules.runtimes.oci.images.worker.http_exchange import HttpExchange

_CHALLENGE = 'Bearer realm="https://auth.example/token",service="registry"'


class TokenServer:
    """Gives tokens 1, 2, 3, … with a lifetime."""

    def __init__(self, **lifetime: object) -> None:
        self.asked = 0
        self.now = 1000.0
        self._lifetime = lifetime
        address = ServerAddress("https", "registry.example", 443)
        host = RegistryHost(address, "/v2", is_registry=True)
        exchange = cast("HttpExchange", self)
        self.authorization = Authorization(host, exchange, RegistryCredentials(), "app", lambda: self.now)

    @contextmanager
    def get(self, url: str, *_: object, **__: object) -> Iterator[Any]:
        """Answer a request."""
        assert url == "https://auth.example/token?service=registry&scope=repository%3Aapp%3Apull"
        self.asked += 1
        content = json.dumps({"token": str(self.asked), **self._lifetime}).encode()
        yield SimpleNamespace(status=200, read=lambda _most: content)


@pytest.mark.parametrize(
    ("lifetime", "seconds"),
    [
        ({"expires_in": 300}, 290.0),
        ({"expires_in": 8}, 4.0),
        ({"expires_in": 10**400}, 3590.0),
        ({"expires_in": 0}, 50.0),
        ({"expires_in": True}, 50.0),
        ({}, 50.0),
    ],
)
def test_a_token_is_given_up_before_it_ends(lifetime: dict[str, object], seconds: float) -> None:
    """A request with it may take a while; a server's word about years is not taken."""
    server = TokenServer(**lifetime)
    assert server.authorization.header() == ""
    assert server.authorization.answer(_CHALLENGE, "")
    server.now += seconds - 0.5
    assert server.authorization.header() == "Bearer 1"
    server.now += 1
    assert server.authorization.header() == ""


def test_a_refused_token_is_replaced_once_for_all_threads() -> None:
    """Who was refused with an older one takes the newer one."""
    server = TokenServer(expires_in=300)
    assert server.authorization.answer(_CHALLENGE, "")
    assert server.authorization.answer(_CHALLENGE, "Bearer 1")
    assert server.authorization.answer(_CHALLENGE, "Bearer 1")
    assert (server.authorization.header(), server.asked) == ("Bearer 2", 2)


def test_a_token_that_has_ended_is_replaced() -> None:
    """A pull over a slow link lasts longer than its first token: it failed with the advice to see the pull secret."""
    server = TokenServer(expires_in=300)
    assert server.authorization.answer(_CHALLENGE, server.authorization.header())
    assert server.authorization.header() == "Bearer 1"
    server.now += 300
    assert server.authorization.answer(_CHALLENGE, server.authorization.header())
    assert server.authorization.header() == "Bearer 2"


def test_a_thread_that_was_refused_with_an_ended_token_gets_the_next_one() -> None:
    server = TokenServer(expires_in=300)
    assert server.authorization.answer(_CHALLENGE, "")
    server.now += 300
    assert server.authorization.header() == ""
    assert server.authorization.answer(_CHALLENGE, "Bearer 1")
    assert server.authorization.answer(_CHALLENGE, server.authorization.header())
    assert (server.authorization.header(), server.asked) == ("Bearer 2", 2)
