"""A kill or a power cut at each step of what the authority's files go through."""

from pathlib import Path

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, load_authority, open_authority
from tests.modules.cloud.cloudhub.certificates.made import NOW
from tests.support.power_cuts import Cut, Promise, after_each_cut

KEYS = (b"PRIVATE KEY",)


def test_the_authority_is_made_once_and_is_whole_after_a_cut_at_any_step(tmp_path: Path) -> None:
    """With another one, every node that has joined would have to join again."""
    files = AuthorityFiles(tmp_path / "tls")

    def life(promise: Promise) -> None:
        promise(open_authority(files, ["localhost"], NOW).pem)

    def check(cut: Cut) -> None:
        found = open_authority(files, ["localhost"], NOW)
        assert not cut.promised or cut.promised == (found.pem,)
        assert load_authority(files, NOW).pem == found.pem

    assert after_each_cut(tmp_path, life, check, secrets=KEYS) > 12


def test_a_server_s_certificate_for_other_names_fits_its_key_after_a_cut_at_any_step(tmp_path: Path) -> None:
    files = AuthorityFiles(tmp_path / "tls")
    authority = open_authority(files, ["localhost"], NOW).pem

    def check(_: Cut) -> None:
        assert open_authority(files, ["cloud"], NOW).pem == authority
        before = files.server.read_bytes()
        assert open_authority(files, ["cloud"], NOW).pem == authority
        assert files.server.read_bytes() == before, "the certificate and the key are a pair"

    assert after_each_cut(tmp_path, lambda _: open_authority(files, ["cloud"], NOW), check, secrets=KEYS) > 6
