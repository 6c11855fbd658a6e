"""What pods are made of: each object asked for once a job, tokens kept while they are good."""

from collections import Counter
from typing import Any, cast

import pytest
from msgspec.structs import replace

from beehive.decoding import decode_json
from beehive.simulation import Simulation, VirtualClock
from edged.pod_workers.job import DeliveredObject
from edged.pod_workers.pod_objects import CACHE_SIZE, PodObjects
from edged.pod_workers.service_account_tokens import TokenManager
from edged.pods.model import PodUid
from metamanager.client import MetaClient, NotConnectedError
from modules.apimachinery.types import (
    ObjectMeta,
    Pod,
    PodSpec,
    ServiceAccountTokenProjection,
    TokenRequest,
    encode,
    format_time,
)
from modules.apimachinery.types.persistent import SecretReference
from modules.apimachinery.types.tokens import TokenRequestSpec, TokenRequestStatus
from tests.edged.status.meta_requests import NOT_FOUND

POD = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u"), spec=PodSpec(service_account_name="sa"))
WANTED = ServiceAccountTokenProjection(path="token", audience="api", expiration_seconds=1000)


class Meta:
    """metamanager's client; errors are raised in the place of an answer."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.objects: dict[str, Any] = {}
        self.asked: Counter[str] = Counter()
        self.questions: list[tuple[str, str, str]] = []
        self.requests: list[TokenRequest] = []
        self.life = 1000
        self.age = 0
        """Seconds since the answered tokens were made."""
        self.error: Exception | None = None

    def get(self, kind: str, namespace: str, name: str) -> bytes:
        """One object."""
        self.asked[name] += 1
        self.questions.append((kind, namespace, name))
        if name not in self.objects:
            raise self.error or NOT_FOUND
        return encode(self.objects[name])

    def token(self, namespace: str, account: str, request: bytes) -> bytes:
        """Another token with each call."""
        if self.error is not None:
            raise self.error
        assert (namespace, account) == ("default", "sa")
        self.requests.append(decode_json(request, TokenRequest))
        expires = format_time(int((self.clock.now() + self.life - self.age) * 1e9))  # type: ignore[arg-type]
        spec = TokenRequestSpec(expiration_seconds=self.life)
        status = TokenRequestStatus(token=f"t{len(self.requests)}", expiration_timestamp=expires)
        return encode(TokenRequest(spec=spec, status=status))


@pytest.fixture
def clock() -> VirtualClock:
    return Simulation(1).clock


@pytest.fixture
def meta(clock: VirtualClock) -> Meta:
    return Meta(clock)


@pytest.fixture
def cache(clock: VirtualClock) -> TokenManager:
    return TokenManager(clock)


def sources(meta: Meta, cache: TokenManager) -> PodObjects:
    return PodObjects(POD, cast("MetaClient", meta), cache)


@pytest.mark.parametrize(
    ("uid", "other"),
    [
        ("v", WANTED),
        ("u", ServiceAccountTokenProjection(path="token", audience="vault", expiration_seconds=1000)),
        ("u", ServiceAccountTokenProjection(path="token", audience="api", expiration_seconds=2000)),
    ],
)
def test_another_pod_audience_or_lifetime_has_another_token(
    cache: TokenManager, uid: str, other: ServiceAccountTokenProjection
) -> None:
    of_other = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=uid), spec=POD.spec)
    got = [
        cache.get(pod, wanted, lambda _, text=text: TokenRequest(status=TokenRequestStatus(token=text)))  # type: ignore[misc]
        for pod, wanted, text in ((POD, WANTED, "one"), (of_other, other, "two"), (POD, WANTED, "three"))
    ]
    assert got == ["one", "two", "one"]


def test_an_object_is_asked_for_once_a_job(meta: Meta, cache: TokenManager) -> None:
    meta.objects["settings"] = {"metadata": {"name": "settings"}, "data": {"a": "b"}}
    job = sources(meta, cache)
    for _ in range(2):
        found = job.config_map("settings")
        assert found is not None
        assert found.data == {"a": "b"}
        assert job.secret("none") is None
    assert meta.asked == {"settings": 1, "none": 1}
    sources(meta, cache).config_map("settings")
    assert meta.asked["settings"] == 2


def test_an_object_that_a_message_has_brought_is_not_asked_for(meta: Meta, cache: TokenManager) -> None:
    brought = encode({"metadata": {"name": "settings"}, "data": {"a": "new"}})
    delivered = {("configmap", "default", "settings"): DeliveredObject(brought)}
    job = PodObjects(POD, cast("MetaClient", meta), cache, delivered)
    found = job.config_map("settings")
    assert found is not None
    assert found.data == {"a": "new"}
    assert job.secret("settings") is None
    assert meta.questions == [("secret", "default", "settings")]


def test_each_object_is_asked_for_by_its_kind_and_in_its_namespace(meta: Meta, cache: TokenManager) -> None:
    """Cluster-scoped objects have no namespace; a storage driver's secret may be in another than the pod's."""
    job = sources(meta, cache)
    names = ("settings", "s", "elsewhere", "here", "claim", "pv", "attachment", "driver")
    meta.objects = {name: {"metadata": {"name": name}} for name in names}
    found = [
        job.config_map("settings"),
        job.secret("s"),
        job.secret_of(SecretReference(name="elsewhere", namespace="storage")),
        job.secret_of(SecretReference(name="here")),
        job.claim("claim"),
        job.persistent_volume("pv"),
        job.attachment("attachment"),
        job.csi_driver("driver"),
    ]
    assert [each is not None and each.metadata.name for each in found] == list(names)
    assert meta.questions == [
        ("configmap", "default", "settings"),
        ("secret", "default", "s"),
        ("secret", "storage", "elsewhere"),
        ("secret", "default", "here"),
        ("persistentvolumeclaim", "default", "claim"),
        ("persistentvolume", "", "pv"),
        ("volumeattachment", "", "attachment"),
        ("csidriver", "", "driver"),
    ]


def test_no_more_is_remembered_than_a_job_may(meta: Meta, cache: TokenManager) -> None:
    """A pod may mount megabytes of configmaps, each needed once; small ones are still remembered."""
    for number in range(20):
        data = {"file": "x" * (CACHE_SIZE // 8)}
        meta.objects[f"large-{number}"] = {"metadata": {"name": f"large-{number}"}, "data": data}
    meta.objects["small"] = {"metadata": {"name": "small"}, "data": {}}
    job = sources(meta, cache)
    for _ in range(2):
        for name in meta.objects:
            assert job.config_map(name) is not None
    again = [name for name, times in meta.asked.items() if times == 2]
    assert len(again) == 13
    assert meta.asked["small"] == 1


def test_an_object_that_cannot_be_asked_for_is_not_a_missing_one(meta: Meta, cache: TokenManager) -> None:
    meta.error = NotConnectedError("ask", "it")
    job = sources(meta, cache)
    for ask in (lambda: job.config_map("settings"), lambda: job.secret("s"), lambda: job.token(WANTED)):
        with pytest.raises(NotConnectedError):
            ask()


def test_a_token_is_asked_for_with_audience_life_and_the_pod_it_is_bound_to(meta: Meta, cache: TokenManager) -> None:
    assert sources(meta, cache).token(WANTED) == "t1"
    spec = meta.requests[0].spec
    assert (spec.audiences, spec.expiration_seconds) == (("api",), 1000)
    assert spec.bound_object_ref is not None
    assert (spec.bound_object_ref.kind, spec.bound_object_ref.name, spec.bound_object_ref.uid) == ("Pod", "web", "u")


@pytest.mark.parametrize(
    ("life", "age", "left"),
    [
        pytest.param(1000, 0, 800, id="when four fifths of its life have passed"),
        pytest.param(10_000_000, 0, 24 * 3600, id="daily"),
        pytest.param(1000, 700, 100, id="from the store as early as if it had just been made"),
        pytest.param(10_000_000, 24 * 3600 - 100, 100, id="from the store daily"),
    ],
)
def test_a_token_is_renewed(
    meta: Meta, cache: TokenManager, clock: VirtualClock, life: int, age: int, left: int
) -> None:
    """After a restart of the agent metamanager answers with the stored one."""
    meta.life, meta.age = life, age
    ask = sources(meta, cache).token
    ask(WANTED)
    clock.jump_wall(left - 1)
    assert ask(WANTED) == "t1"
    clock.jump_wall(2)
    assert ask(WANTED) == "t2"


def test_each_audience_has_its_own_token_and_a_gone_pod_has_no_token(meta: Meta, cache: TokenManager) -> None:
    ask = sources(meta, cache).token
    assert ask(WANTED) == "t1"
    assert ask(ServiceAccountTokenProjection(path="token", audience="vault", expiration_seconds=1000)) == "t2"
    cache.forget_pod(PodUid("another"))
    assert ask(WANTED) == "t1"
    cache.forget_pod(PodUid("u"))
    assert ask(WANTED) == "t3"


def test_an_account_that_does_not_exist_has_no_token(meta: Meta, cache: TokenManager) -> None:
    meta.error = NOT_FOUND
    assert sources(meta, cache).token(WANTED) is None


def test_a_kept_token_is_never_shown(meta: Meta, cache: TokenManager) -> None:
    sources(meta, cache).token(WANTED)
    assert "t1" not in repr(vars(cache))


@pytest.mark.parametrize("name", ["", "../../etc", "a/b", "x" * 254, "a\0b"])
def test_what_no_object_can_be_called_is_not_asked_for(name: str) -> None:
    """It does not exist: metamanager would be asked for something else, or for nothing that it knows."""
    clock = Simulation(1).clock
    meta = Meta(clock)
    account = replace(POD, spec=PodSpec(service_account_name=name or "a/b"))
    sources = PodObjects(account, cast("MetaClient", meta), TokenManager(clock))
    assert (sources.config_map(name), sources.secret(name), sources.claim(name)) == (None, None, None)
    assert sources.token(WANTED) is None
    assert not meta.asked
    assert not meta.requests
