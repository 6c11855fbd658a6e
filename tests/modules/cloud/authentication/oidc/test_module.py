"""The module `oidc` in virtual time, and its fetches from a provider over TLS."""

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pykka
import pytest

from beehive.clock import RealClock
from beehive.message import Message
from beehive.testing import Harness
from modules.cloud.authentication.oidc.fetching import MOST_BYTES, FetchError, fetch_keys, trusted
from modules.cloud.authentication.oidc.key_sets import ProviderKey
from modules.cloud.authentication.oidc.module import NAME, PAUSE, PERIOD, REFRESH, RESOURCE, IdentityProvider
from modules.cloud.authentication.oidc.tokens import KnownKeys
from tests.modules.cloud.authentication.oidc.provider import Provider, keys_of, rsa_key, running_provider

_DISCOVERY = "/.well-known/openid-configuration"
_KEYS = "/keys?v=1"


class Fetched:
    """A provider whose answers the test chooses."""

    def __init__(self, bee: Harness) -> None:
        self.bee = bee
        self.known = KnownKeys()
        self.is_away = False
        self.why = "nobody listens there"
        self.fetches = 0
        bee.add(IdentityProvider, self.known, self.fetch)

    def fetch(self) -> tuple[ProviderKey, ...]:
        self.fetches += 1
        if self.is_away:
            raise FetchError("https://login.example", self.why)
        return keys_of(rsa_key(), f"k{self.fetches}")

    @property
    def names(self) -> list[str]:
        return [key.key_id for key in self.known.keys]

    def ask(self) -> None:
        """What a request with an unknown key does."""
        self.bee.ask(NAME, self.bee.message(RESOURCE, REFRESH))


@pytest.fixture
def provider() -> Iterator[Fetched]:
    with Harness() as bee:
        yield Fetched(bee)


def test_keys_are_fetched_at_the_start_each_hour_and_for_an_unknown_key(
    provider: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests begin a fetch once in ten seconds, however many there are; each is answered once, when its keys
    are there.
    """
    answered = list[str]()

    def reply(module: IdentityProvider, asked: Message) -> None:
        answered.extend(provider.names)
        module.hive.respond(asked.reply(module.clock, None), NAME)

    monkeypatch.setattr(IdentityProvider, "reply", reply)
    provider.bee.start()
    assert provider.names == ["k1"]
    for _ in range(100):
        provider.ask()
    assert provider.names == ["k1"]
    provider.bee.run_for(PAUSE)
    for _ in range(100):
        provider.ask()
    assert provider.names == ["k2"]
    provider.bee.run_for(PERIOD)
    assert provider.names == ["k3"]
    assert answered == ["k1"] * 100 + ["k2"] * 100


def test_a_provider_that_is_away_is_asked_again_and_its_keys_are_kept(
    provider: Fetched, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it is away at the start, which does not fail; one line reports it, and one its return."""
    caplog.set_level(logging.INFO)
    provider.is_away = True
    provider.bee.start()
    assert provider.names == []
    provider.bee.run_for(10 * PAUSE)
    assert provider.fetches == 11
    assert caplog.text.count("its users are refused until it answers") == 1
    provider.is_away = False
    provider.bee.run_for(PAUSE)
    assert provider.names == ["k12"]
    assert caplog.text.count("the identity provider has 1 keys") == 1
    provider.is_away = True
    provider.ask()
    provider.bee.run_for(PERIOD + PAUSE)
    assert provider.names == ["k12"]
    assert caplog.text.count("its last keys are kept") == 1
    provider.why = "it has no certificate"
    provider.bee.run_for(10 * PAUSE)
    assert caplog.text.count("its last keys are kept") == 2, "another reason is told"
    provider.bee.run_for(3 * PERIOD)
    before = provider.fetches
    provider.bee.run_for(10 * PAUSE)
    assert provider.fetches - before <= 11, "each hour's fetch repeats itself, too"


def test_a_provider_over_tls(tmp_path: Path) -> None:
    with running_provider(tmp_path) as there:
        assert [key.key_id for key in _fetched(there)] == ["k1"]
        assert [heard.method for heard in there.application.heard] == ["GET", "GET"]
        assert all("authorization" not in heard.headers for heard in there.application.heard)


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ({_DISCOVERY: (404, b"")}, "status of the answer is 404"),
        ({_DISCOVERY: (302, b"")}, "status of the answer is 302"),
        ({_DISCOVERY: (200, b"<html>")}, "no discovery document"),
        ({_DISCOVERY: (200, b"[" * MOST_BYTES)}, "no discovery document"),
        ({_DISCOVERY: (200, b" " * (MOST_BYTES + 1))}, "more than 262144 bytes"),
        ({_DISCOVERY: {"issuer": "https://other.example"}}, "another issuer's, 'https://other.example'"),
        ({_DISCOVERY: {"jwks_uri": "http://127.0.0.1/keys"}}, "no https URL"),
        ({_DISCOVERY: {"jwks_uri": "file:///etc/passwd"}}, "no https URL"),
        ({_DISCOVERY: {"jwks_uri": "https://127.0.0.1:99999/"}}, "no URL"),
        ({_DISCOVERY: {"jwks_uri": "https://127.0.0.1 /\r\n"}}, ""),
        ({_KEYS: (503, b"")}, "status of the answer is 503"),
        ({_KEYS: (200, b"{}")}, "no JSON Web Key Set"),
        ({_KEYS: (200, b" " * (MOST_BYTES + 1))}, "more than 262144 bytes"),
    ],
)
def test_documents_that_are_not_used(tmp_path: Path, documents: dict[str, Any], why: str) -> None:
    """The error says which, and why."""
    with running_provider(tmp_path) as there:
        for path, answer in documents.items():
            changed = {**there.discovery, **answer} if isinstance(answer, dict) else None
            there.documents[path] = answer if changed is None else (200, json.dumps(changed).encode())
        with pytest.raises(FetchError) as failed:
            _fetched(there)
    assert why in failed.value.hint


def test_a_provider_with_another_certificate_is_not_believed(tmp_path: Path) -> None:
    """Neither with the authorities of this machine; a file without authorities is refused at the start."""
    with running_provider(tmp_path) as there:
        with pytest.raises(FetchError, match="certificate"):
            fetch_keys(there.issuer, trusted(None), RealClock())
        assert there.application.heard == []
    for content in (b"", b"no certificate"):
        there.ca.write_bytes(content)
        with pytest.raises(FetchError, match="--oidc-ca-file"):
            trusted(there.ca)
    there.ca.unlink()
    with pytest.raises(FetchError, match="No such file"):
        trusted(there.ca)


def _fetched(provider: Provider) -> tuple[ProviderKey, ...]:
    return fetch_keys(provider.issuer, trusted(provider.ca), RealClock())


@pytest.mark.parametrize("seed", range(8))
def test_laws_of_fetches(seed: int) -> None:
    """Each request is answered, by keys that were fetched after it or less than ten seconds before; fetches are ten
    seconds apart, one at a time; keys are never forgotten.
    """
    random = Random(seed)  # noqa: S311 - reproducible
    began: list[float] = []
    ended: list[float] = []
    asked: list[tuple[pykka.Future[Message], float, int]] = []
    with Harness() as bee:

        def fetch() -> tuple[ProviderKey, ...]:
            assert len(began) == len(ended), "one at a time"
            assert not ended or bee.clock.monotonic() >= ended[-1] + PAUSE
            began.append(bee.clock.monotonic())
            with suppress(pykka.Timeout):
                bee.simulation.future().get(timeout=random.choice((0.1, 1.0, 12.0)))
            ended.append(bee.clock.monotonic())
            if random.random() < 0.3:
                raise FetchError("https://login.example", "nobody listens there")
            return keys_of(rsa_key(), f"k{len(began)}")

        known = KnownKeys()
        bee.add(IdentityProvider, known, fetch)
        bee.start()
        had = False
        for _ in range(60):
            now, running = bee.clock.monotonic(), len(began) if len(began) > len(ended) else 0
            number = random.randint(0, 3)
            asked += [(bee.future(NAME, bee.message(RESOURCE, REFRESH)), now, running) for _ in range(number)]
            bee.run_for(random.choice((0.0, 0.5, 3.0, 11.0)))
            for each in [*asked]:
                future, since, running = each
                with suppress(pykka.Timeout):
                    future.get(timeout=0.0)
                    assert ended and ended[-1] >= since - PAUSE, "the keys are new enough"
                    assert len(ended) >= running, "it waits for the fetch that is under way"
                    asked.remove(each)
            assert all(bee.clock.monotonic() - since <= 24.0 for _, since, _ in asked), "each is answered"
            assert known.keys or not had
            had = bool(known.keys)
        before = len(began)
        bee.run_for(PERIOD + 60.0)
        assert len(began) > before, "each hour"
