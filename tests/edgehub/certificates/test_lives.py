"""Laws of the certificate's files over crashes at any step, again and again, and of renewals over random clocks."""

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, cast

import pytest

from beehive.sockets.tls import TlsFiles
from beehive.testing import FakeContext
from edgehub.certificates import files
from edgehub.certificates.certificate import Certificate
from edgehub.certificates.manager import CertificateManager
from edgehub.certificates.renewal import CHECK, LONGEST_WAIT, Renewer
from edgehub.certificates.settings import CertificateSettings
from edgehub.errors import UnreachableError


class CrashError(BaseException):
    """The machine lost its power."""


class Disk:
    """Ends at a random step of what it is asked for, before it, within it, or after it."""

    def __init__(self, patch: pytest.MonkeyPatch, random: Random) -> None:
        self._random = random
        self.left = -1
        """Steps until the crash; -1 for none."""
        for name in ("_write", "_rename", "_remove"):
            patch.setattr(files, name, self._step(getattr(files, name), is_write=name == "_write"))

    def _step(self, work: object, *, is_write: bool) -> object:
        def step(path: Path, *given: object) -> None:
            self.left -= 1
            how = self._random.choice(("before", "within", "after")) if self.left == 0 else ""
            if how == "before":
                raise CrashError
            if how == "within" and is_write:
                content, mode = given
                path.unlink(missing_ok=True)
                if self._random.random() < 0.5:
                    raise CrashError
                work(path, cast("bytes", content)[:1], mode)  # type: ignore[operator]
                raise CrashError
            work(path, *given)  # type: ignore[operator]
            if how:
                raise CrashError

        return step


@pytest.mark.parametrize("seed", range(8))
def test_key_and_certificate_fit_after_any_crashes(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And they are never older than those that were stored; nor is a key forgotten whose join has no answer yet."""
    random = Random(seed)  # noqa: S311 - reproducible
    disk = Disk(monkeypatch, random)
    settings = CertificateSettings(
        node="n1", server="https://cloud", authority=str(tmp_path / "ca.crt"), certificate=str(tmp_path / "node.crt"),
        key=str(tmp_path / "node.key"),
    )  # fmt: skip
    paths: TlsFiles = settings.paths
    stored, joining = 0, b""
    for number in range(1, 120):
        disk.left = random.choice((-1, *range(1, 12)))
        try:
            if random.random() < 0.2:
                key = f"joining {number}".encode()
                files.keep_joining_key(paths, key)
                joining = key
            else:
                new = f"{number}".encode()
                files.store(paths, new if random.random() < 0.3 else None, new, new)
                stored, joining = number, b""
                assert files.read_keys(paths, is_of_node=True) == [new], "a join that was answered leaves no key behind"
        except CrashError:
            if random.random() < 0.5:  # the next one begins with what is left
                joining = b""
                continue
            disk.left = random.choice((-1, -1, 1))
            try:
                files.finish_replacement(paths)
            except CrashError:
                disk.left = -1
                files.finish_replacement(paths)
            joining = b""  # it may be either
        disk.left = -1
        files.finish_replacement(paths)
        if joining:
            assert joining in files.read_keys(paths, is_of_node=True)
        if not stored and not paths.certificate.exists():
            continue
        pair = int(paths.certificate.read_bytes())
        assert paths.key.read_bytes() == b"%d" % pair, "the key is the certificate's"
        assert pair >= stored
        stored = pair
        assert paths.key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("at", range(1, 14))
@pytest.mark.parametrize("how", ["before", "within", "after"])
def test_the_key_of_a_join_is_found_again_after_a_crash_at_any_step(
    tmp_path: Path, at: int, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the moment when it was kept: the cloud may have given the name to it."""
    random = Random(0)  # noqa: S311 - the choice is the test's
    disk = Disk(monkeypatch, random)
    settings = CertificateSettings(
        node="n1", server="https://cloud", authority=str(tmp_path / "ca.crt"), certificate=str(tmp_path / "node.crt"),
        key=str(tmp_path / "node.key"),
    )  # fmt: skip
    paths: TlsFiles = settings.paths
    files.keep_joining_key(paths, b"key")
    monkeypatch.setattr(random, "choice", lambda _: how)
    disk.left = at
    with suppress(CrashError):
        files.store(paths, b"ca", b"certificate", b"key")
    disk.left = -1
    assert b"key" in files.read_keys(paths, is_of_node=True)


_LIFE: Final = 24 * 3600.0


class Certificates:
    """The certificate of a node, and a cloud that may be away."""

    def __init__(self, bee: FakeContext, random: Random) -> None:
        self._bee, self._random = bee, random
        self.is_away = False
        self.renewals: list[float] = []
        """In monotonic seconds."""
        self.replace()

    def replace(self, life: float = _LIFE) -> None:
        """Put another certificate into the file."""
        now = self._bee.clock.now()
        self.certificate = Certificate("system:node:n1", "system:nodes", "KubeEdge", now, now + life)

    def current(self) -> Certificate:
        """Return the certificate."""
        return self.certificate

    def why_unusable(self) -> str | None:
        """Return why it cannot be used."""
        return "it has expired" if self.certificate.not_after <= self._bee.clock.now() else None

    def renew(self) -> None:
        """Obtain the next one."""
        assert self.why_unusable() is None, "with an expired certificate nobody can renew it"
        if self.is_away:
            raise UnreachableError("cannot request a certificate", "https://cloud", "on purpose")
        self.renewals.append(self._bee.clock.monotonic())
        self.replace()


@pytest.mark.parametrize("seed", range(8))
def test_a_certificate_is_renewed_in_time_for_any_jump_of_the_clock(seed: int) -> None:
    """In time: within an hour of 90 % of its life, if the cloud is there. And no two renewals follow at once, unless
    the first was of another certificate.
    """
    random = Random(seed)  # noqa: S311 - reproducible
    bee = FakeContext(seed)
    site = Certificates(bee, random)
    heard: list[float] = []
    renewer = bee.start_actor(Renewer, cast("CertificateManager", site), lambda: heard.append(bee.clock.monotonic()))
    late = 0.0
    for _ in range(60):
        match random.randrange(8):
            case 0:
                bee.clock.jump_wall(random.choice((-_LIFE / 2, 0.6 * _LIFE, -10.0)))
            case 1:
                site.replace(random.choice((3 * 3600.0, _LIFE)))
                if random.random() < 0.5:
                    renewer.tell(CHECK)
            case 2:
                site.is_away = not site.is_away
            case _:
                bee.simulation.run_for(random.choice((60.0, 700.0, 3600.0)))
        certificate, now = site.certificate, bee.clock.now()
        is_late = now > certificate.not_before + 0.9 * (certificate.not_after - certificate.not_before)
        if not is_late or site.is_away or site.why_unusable():
            late = bee.clock.monotonic()
        assert bee.clock.monotonic() - late <= LONGEST_WAIT + 700.0
    bee.simulation.run_for(0.0)
    assert len(heard) == len(site.renewals), "each renewal is told, for the link"
    assert all(b - a >= 5.0 for a, b in zip(site.renewals, site.renewals[1:], strict=False))
