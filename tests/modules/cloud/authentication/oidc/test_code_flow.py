"""The sign-in of browsers, without a provider: how often it is asked, and what counts as its answer."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from beehive.http.call import HttpReply
from beehive.simulation import Simulation
from modules.cloud.authentication.oidc import code_flow
from modules.cloud.authentication.oidc.code_flow import CodeFlow, SignInCode, SignInError
from modules.cloud.authentication.oidc.fetching import FetchError
from modules.cloud.authentication.settings import OidcSettings
from tests.modules.cloud.authentication.oidc.provider import unsigned

NOTHING: Any = None
_CODE = SignInCode("code", "v" * 43, "nonce")


class Flow(CodeFlow):
    """A sign-in whose provider the test is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.simulation = Simulation(0)
        super().__init__(OidcSettings(issuer_url="https://a", client_id="edge"), NOTHING, self.simulation.clock)
        self.is_away, self.asked, self.claims = False, 0, {"nonce": "nonce"}
        monkeypatch.setattr(code_flow, "fetch_document", self._document)
        monkeypatch.setattr(code_flow, "perform", self._answer)

    def _document(self, *args: Any) -> Any:
        self.asked += 1
        if self.is_away:
            self.simulation.run_for(30.0)
            raise FetchError("https://a", "nobody listens there")
        return args[-1]("https://a/auth", "https://a/token")

    def _answer(self, *_: Any, **__: Any) -> HttpReply:
        token = f"{unsigned(self.claims, alg='RS256')}.AAAA"
        return HttpReply(200, (), msgspec.json.encode({"id_token": token}))

    def tries(self, number: int) -> int:
        """Ask for the addresses; return how often the provider was asked for them."""
        before = self.asked
        for _ in range(number):
            with suppress(SignInError):
                self.sign_in()
        return self.asked - before


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> Flow:
    return Flow(monkeypatch)


def test_the_provider_is_asked_now_and_then(flow: Flow) -> None:
    """Anybody can have it asked: once in ten minutes, or ten seconds after a look for its name that has failed."""
    assert flow.tries(5) == 1
    flow.simulation.clock.jump_wall(-3600.0)
    flow.simulation.run_for(599.0)
    assert flow.tries(5) == 0
    flow.simulation.run_for(1.0)
    flow.is_away = True
    assert flow.tries(5) == 1
    flow.simulation.run_for(10.0)
    assert flow.tries(5) == 1
    flow.simulation.run_for(10.0)
    assert flow.sign_in().endpoint == "https://a/auth", "its addresses are known"


@pytest.mark.parametrize("claims", [{}, {"nonce": ""}, {"nonce": None}, {"nonce": ["nonce"]}])
def test_a_token_without_the_nonce_is_none(flow: Flow, claims: dict[str, Any]) -> None:
    """It may have been made for somebody else."""
    for wrong in ({"nonce": ""}, {"code": "x" * 5000}):
        with pytest.raises(SignInError, match="the code is none"):
            flow.exchange(msgspec.structs.replace(_CODE, **wrong), "")
    assert flow.asked == 0, "the provider is not asked for such a code"
    assert flow.exchange(_CODE, "") != ""
    flow.claims = claims
    with pytest.raises(SignInError):
        flow.exchange(_CODE, "")


def test_few_codes_are_exchanged_at_a_time(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds a thread; a further one is refused, and does not wait: half of them are for other addresses. While the
    provider is away none is held.
    """
    depth, flow.is_away = 0, True
    for _ in range(5):
        with pytest.raises(SignInError):
            flow.exchange(_CODE, "")
    flow.is_away = False
    flow.simulation.run_for(10.0)

    def answer(*_: Any, **__: Any) -> HttpReply:
        nonlocal depth
        depth += 1
        flow.exchange(_CODE, "", "192.0.2.1")
        raise AssertionError

    def answer_others(*_: Any, **__: Any) -> HttpReply:
        nonlocal depth
        depth += 1
        flow.exchange(_CODE, "", f"198.51.100.{depth}")
        raise AssertionError

    for answering, number in ((answer, 4), (answer_others, 8)):
        depth = 0
        monkeypatch.setattr(code_flow, "perform", answering)
        with pytest.raises(SignInError, match="too many"):
            flow.exchange(_CODE, "", "192.0.2.1")
        assert depth == number
    assert not flow._exchanging
