"""edgehub with a certificate, in virtual time: when it is renewed, and that nothing on the link is lost by it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from beehive import Message, ModuleName, RealClock
from beehive.testing import Harness
from edgehub import EdgeHub, LinkCounters, Outgoing
from edgehub.certificates.files import pem, store
from edgehub.certificates.manager import CertificateManager
from edgehub.certificates.renewal import LONGEST_WAIT
from edgehub.certificates.settings import CertificateSettings
from edgehub.errors import UnreachableError
from edgehub.settings import Limits
from modules.lab.doubles.memory_cloud import MemoryCloud
from tests.edgehub.certificates.authority import DAY, NODE, Authority, key_pem, name
from tests.edgehub.links import settings
from tests.edgehub.messages import message

AUTHORITY = Authority()


class FakeIssuer:
    """Puts certificates into the files that begin now, by the harness's clock; or fails."""

    def __init__(self, bee: Harness, life: float) -> None:
        self._bee = bee
        self._life = life
        self.failing = False
        self.age = 0.0
        """Seconds since when a new certificate is valid, by this node's clock."""
        self.times: list[float] = []
        self.kinds: list[bool] = []

    def obtain(self, settings: CertificateSettings, *, renew: bool, wanted: Callable[[], bool]) -> None:
        now = self._bee.clock.now()
        self.times.append(now)
        self.kinds.append(renew)
        if self.failing:
            raise UnreachableError("cannot request a certificate", "https://cloud", "on purpose")
        self.put(settings, self._life)

    def put(self, settings: CertificateSettings, life: float) -> None:
        """Puts a certificate with so many seconds into the files."""
        now = self._bee.clock.now()
        subject = name(f"system:node:{NODE}", "system:nodes")
        since = now - RealClock().now() - self.age
        issued = AUTHORITY.sign(AUTHORITY.key.public_key(), subject, since=since, life=life)
        store(settings.paths, pem(AUTHORITY.der), issued.public_bytes(Encoding.PEM), key_pem(AUTHORITY.key))

    def cancel(self) -> None: ...


class Bed:
    """edgehub with a certificate of a day and a cloud in memory."""

    def __init__(self, directory: Path, *, life: float = DAY, **changes: Any) -> None:
        self.bee = Harness(0)
        self.cloud = MemoryCloud(self.bee.simulation)
        self.counters = LinkCounters()
        self.issuer = FakeIssuer(self.bee, life)
        fields: dict[str, Any] = {
            "node": NODE, "server": "https://cloud", "authority": str(directory / "ca.crt"),
            "certificate": str(directory / "node.crt"), "key": str(directory / "node.key"),
        }  # fmt: skip
        made = CertificateSettings(**{**fields, **changes})
        self.issuer.obtain(made, renew=False, wanted=lambda: True)
        self.began = self.bee.clock.now()
        self.certificates = CertificateManager(made, self.bee.clock, self.counters, self.issuer)
        self.bee.add(
            EdgeHub, settings(), self.cloud.make_link, Outgoing(Limits()), self.counters, self.certificates
        )  # fmt: skip

    @property
    def renewals(self) -> list[float]:
        """Seconds after the beginning."""
        return [time - self.began for time in self.issuer.times[1:]]

    def sent(self) -> list[Message]:
        """What the cloud got, keepalives apart."""
        return [one for one in self.cloud.messages() if one.route.operation != "keepalive"]


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path)
    with made.bee:
        made.bee.start()
        yield made


def test_it_is_renewed_between_70_and_90_percent_of_its_life_again_and_again(bed: Bed) -> None:
    bed.bee.run_for(3 * DAY)
    assert len(bed.renewals) in (3, 4)
    previous = 0.0
    for time in bed.renewals:
        assert 0.69 * DAY < time - previous < 0.91 * DAY
        previous = time
    assert all(bed.issuer.kinds[1:])
    assert bed.counters.certificates["issued"] == len(bed.renewals)
    assert bed.counters.certificate_expires == pytest.approx(bed.began + previous + DAY, abs=2)


def test_the_link_is_renewed_immediately_with_each_new_certificate(bed: Bed) -> None:
    bed.bee.run_for(0.95 * DAY)
    (time,) = bed.renewals
    assert len(bed.cloud.dialled) == 2
    first, second = bed.cloud.dialled
    assert second - first == pytest.approx(time, abs=1)
    assert bed.counters.connected


def test_messages_on_their_way_at_that_moment_arrive(bed: Bed) -> None:
    """What the old link took and did not confirm is sent again by the new one; with it what comes meanwhile."""
    bed.bee.run_for(0.69 * DAY)
    bed.cloud.stalled = True
    before = [message(f"default/device/{number}", "upload") for number in range(5)]
    for one in before:
        bed.bee.send(ModuleName.EDGEHUB, one)
    bed.bee.settle()
    while len(bed.cloud.links) == 1:
        bed.bee.run_for(10)
    bed.cloud.stalled = False
    ids = [one.header.msg_id for one in bed.sent()]
    assert [ids.count(one.header.msg_id) for one in before] == [2] * 5
    after = message("default/event/after", "insert")
    bed.bee.send(ModuleName.EDGEHUB, after)
    bed.bee.settle()
    assert bed.sent()[-1].header.msg_id == after.header.msg_id


def test_a_renewal_that_fails_is_tried_again_and_the_link_stays(bed: Bed) -> None:
    """Ever more rarely, but every ten minutes at the longest; then it succeeds."""
    bed.issuer.failing = True
    bed.bee.run_for(0.95 * DAY)
    assert len(bed.cloud.dialled) == 1
    assert bed.counters.certificates["certificate server"] == len(bed.renewals) > 5
    gaps = [b - a for a, b in zip(bed.renewals, bed.renewals[1:], strict=False)]
    assert max(gaps) <= 601
    bed.issuer.failing = False
    bed.bee.run_for(660)
    assert bed.counters.certificates["issued"] == 1
    assert len(bed.cloud.dialled) == 2
    bed.issuer.failing, before = True, len(bed.renewals)
    bed.bee.run_for(0.91 * DAY)
    assert bed.renewals[before + 1] - bed.renewals[before] <= 11, "the next failure is a first one again"


def test_a_certificate_that_is_due_at_its_issue_is_renewed_ever_more_rarely(bed: Bed) -> None:
    """This node's clock is ahead by most of a certificate's life. The link must stay usable all the same."""
    bed.issuer.age = 0.95 * DAY
    bed.bee.run_for(DAY)
    assert 1 < len(bed.renewals) < 150
    assert len(bed.cloud.dialled) == len(bed.renewals) + 1


def test_an_expired_certificate_is_not_renewed(bed: Bed) -> None:
    """The cloud would not take it; the next link joins with the token."""
    bed.issuer.failing = True
    bed.bee.run_for(1.5 * DAY)
    assert max(bed.renewals) <= DAY + 600
    assert len(bed.cloud.dialled) == 1


def test_without_rotation_nothing_is_renewed(tmp_path: Path) -> None:
    bed = Bed(tmp_path, rotate=False)
    with bed.bee:
        bed.bee.start()
        bed.bee.run_for(2 * DAY)
        assert bed.renewals == []
        assert len(bed.cloud.dialled) == 1


def test_another_certificate_in_the_file_is_taken_up(bed: Bed) -> None:
    """After a manual replacement the validity of the new certificate counts."""
    bed.bee.run_for(0.5 * DAY)
    bed.issuer.obtain(bed.certificates._settings, renew=False, wanted=lambda: True)
    bed.bee.run_for(0.65 * DAY)
    assert len(bed.issuer.times) == 2
    bed.bee.run_for(0.3 * DAY)
    assert len(bed.issuer.times) == 3


def test_the_file_is_read_each_hour_for_any_end_of_the_certificate(bed: Bed) -> None:
    """A certificate for two hours that somebody has put there is renewed in time, not when the former one was due."""
    bed.bee.run_for(0.1 * DAY)
    bed.issuer.put(bed.certificates._settings, 2 * LONGEST_WAIT)
    bed.bee.run_for(2 * LONGEST_WAIT)
    assert len(bed.renewals) == 1
