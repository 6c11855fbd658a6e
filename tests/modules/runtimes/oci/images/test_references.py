"""Names of images, digests, challenges, hosts.toml, platforms and pauses: what is decided without a registry."""

import errno
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.goarch import goarch
from modules.runtimes.oci.images.worker import authorization, platforms
from modules.runtimes.oci.images.worker.archive import Archive
from modules.runtimes.oci.images.worker.authorization import (
    Challenge,
    RegistryCredentials,
    credentials_for,
    parse_challenges,
)
from modules.runtimes.oci.images.worker.digests import chain_ids
from modules.runtimes.oci.images.worker.documents import Descriptor
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.hosts import endpoints_of
from modules.runtimes.oci.images.worker.importing import images_of
from modules.runtimes.oci.images.worker.platforms import Platform, amd64_level, fitting, own_platform
from modules.runtimes.oci.images.worker.references import parse_reference
from modules.runtimes.oci.images.worker.retries import RetryPolicy, seconds_of
from tests.modules.runtimes.oci.images.tars import config_of, described, encoded, sha256, write_archive

_HEX = "0123456789abcdef" * 4
_CONFIG = "application/vnd.oci.image.config.v1+json"


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", ("docker.io", "library/busybox", "latest", "")),
        ("team/app:1.0", ("docker.io", "team/app", "1.0", "")),
        ("docker.io/busybox", ("docker.io", "library/busybox", "latest", "")),
        ("index.docker.io/busybox", ("docker.io", "library/busybox", "latest", "")),
        ("localhost/app", ("localhost", "app", "latest", "")),
        ("localhost:5000/app", ("localhost:5000", "app", "latest", "")),
        ("registry.example/a/b__c/d-e:V_1.2-x", ("registry.example", "a/b__c/d-e", "V_1.2-x", "")),
        ("[::1]:5000/app", ("[::1]:5000", "app", "latest", "")),
        (f"app@sha256:{_HEX}", ("docker.io", "library/app", "", f"sha256:{_HEX}")),
        (f"app:1@sha256:{_HEX}", ("docker.io", "library/app", "1", f"sha256:{_HEX}")),
        (f"app@sha512:{_HEX * 2}", ("docker.io", "library/app", "", f"sha512:{_HEX * 2}")),
    ],
)
def test_names_are_read_as_people_write_them(text: str, full: tuple[str, str, str, str]) -> None:
    """With Docker Hub, its official images and `latest` filled in."""
    assert parse_reference(text) == full


@pytest.mark.parametrize(
    "text",
    ["", ":", "@", "App", "a/B", "a//b", "/a", "a/", "a:", "a:b:c", "a b", "a@b", f"a@sha256:{_HEX[:-1]}", "-a", "a_",
     "a..b", "a:" + "t" * 129, "a" * 300, "http://a/b", "a/../b", "a\n", f"a@sha256:{_HEX.upper()}", "ä", "a:-1",
     f"a@md5:{_HEX}", "registry.example:port/a", "registry.example:/a"],
)  # fmt: skip
def test_other_texts_are_no_names(text: str) -> None:
    """In a request they are refused before anything is asked."""
    with pytest.raises(ImageWorkError, match="no image name"):
        parse_reference(text)


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_is_refused(text: str) -> None:
    """And a name that is read stays the same when it is written out."""
    try:
        found = parse_reference(text)
    except ImageWorkError:
        return
    written = found.repository + (f":{found.tag}" if found.tag else "") + (f"@{found.digest}" if found.digest else "")
    assert parse_reference(written) == found


def test_chain_ids_follow_the_image_specification() -> None:
    """The first is the diff id, each further one the hash of the chain id below, a blank, and the diff id."""
    one, two, three = (f"sha256:{hashlib.sha256(each).hexdigest()}" for each in (b"1", b"2", b"3"))
    second = f"sha256:{hashlib.sha256(f'{one} {two}'.encode()).hexdigest()}"
    third = f"sha256:{hashlib.sha256(f'{second} {three}'.encode()).hexdigest()}"
    assert chain_ids([one, two, three]) == (one, second, third)


@pytest.mark.parametrize(
    ("header", "challenges"),
    [
        ('Basic realm="x"', [("basic", {"realm": "x"})]),
        ('Bearer realm="https://a/t",service=s , scope="a,b c"',
         [("bearer", {"realm": "https://a/t", "service": "s", "scope": "a,b c"})]),
        (r'Basic realm="a \"b\" \\", Bearer realm=c', [("basic", {"realm": 'a "b" \\'}), ("bearer", {"realm": "c"})]),
        ("Negotiate, NTLM", [("negotiate", {}), ("ntlm", {})]),
        ('BEARER Realm = "a", realm="b"', [("bearer", {"realm": "a"})]),
        ("", []),
        ('realm="x"', []),
        ('Bearer realm="open', [("bearer", {})]),
        ("Bearer \0", [("bearer", {})]),
    ],
)  # fmt: skip
def test_challenges_are_read(header: str, challenges: list[Challenge]) -> None:
    """Several in one header, quoted texts with commas and escapes, and what is damaged as far as it goes."""
    assert parse_challenges(header) == challenges


def test_spaces_of_a_challenge_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after a comma that is not there: 16 kB of them took four seconds."""
    text = "Bearer" + " " * 1_000_000 + '"'
    monkeypatch.setattr(authorization, "_LONGEST", len(text))
    assert parse_challenges(text) == [("bearer", {})]


def test_credentials_are_for_one_registry() -> None:
    """Docker Hub has several names; a password may have colons."""
    auth = {"auth": "dXNlcjpwYTpzcw==", "server_address": "https://index.docker.io/v1/"}
    assert credentials_for(auth, "docker.io") == RegistryCredentials("user", "pa:ss")
    assert credentials_for(auth, "registry.example") == RegistryCredentials()
    assert "pa:ss" not in repr(credentials_for(auth, "docker.io"))
    with pytest.raises(ImageWorkError, match="base64"):
        credentials_for({"auth": "!"}, "docker.io")


# hosts.toml


def _servers(registry: str, directory: Path) -> list[tuple[str, str, bool]]:
    found = endpoints_of(registry, directory)
    return [(f"{each.address.scheme}://{each.address.name}", each.prefix, each.is_registry) for each in found]


@pytest.mark.parametrize(
    ("registry", "server"),
    [
        ("docker.io", "https://registry-1.docker.io"),
        ("registry.example", "https://registry.example"),
        ("registry.example:5000", "https://registry.example:5000"),
        ("localhost", "http://localhost"),
        ("localhost:443", "https://localhost"),
        ("127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("127.9.9.9:5000", "http://127.9.9.9:5000"),
        ("[::1]:5000", "http://[::1]:5000"),
        ("localhost.example", "https://localhost.example"),
        ("10.0.0.1:5000", "https://10.0.0.1:5000"),
    ],
)
def test_without_a_file_the_registry_itself_is_asked(tmp_path: Path, registry: str, server: str) -> None:
    """By TLS, unless it is this machine."""
    assert _servers(registry, tmp_path) == [(server, "/v2", True)]


def test_a_hosts_file_is_read_as_containerd_does(tmp_path: Path) -> None:
    """Capabilities, paths, certificates relative to the file, headers; a host without "pull" is not asked."""
    directory = tmp_path / "registry.example_5000_"
    directory.mkdir()
    (directory / "hosts.toml").write_text("""
        server = "https://registry.example:5000"
        ca = ["own.pem", "/etc/other.pem"]
        [host."https://mirror.example/v2"]
          capabilities = ["pull", "resolve"]
          client = [["client.cert", "client.key"], ["both.pem", ""]]
        [host."http://plain.example:8080/proxy"]
          capabilities = ["pull"]
          skip_verify = true
          override_path = true
          [host."http://plain.example:8080/proxy".header]
            x-one = "1"
            x-many = ["2", "3"]
        [host."push.example"]
          capabilities = ["push"]
    """)
    assert _servers("registry.example:5000", tmp_path) == [
        ("https://mirror.example", "/v2", False),
        ("http://plain.example:8080", "/proxy", False),
        ("https://registry.example:5000", "/v2", True),
    ]
    mirror, plain, own = endpoints_of("registry.example:5000", tmp_path)
    assert mirror.clients == ((directory / "client.cert", directory / "client.key"), (directory / "both.pem", None))
    assert (plain.resolves, plain.skip_verify, mirror.resolves, mirror.skip_verify) == (False, True, True, False)
    assert plain.headers == (("x-one", "1"), ("x-many", "2"), ("x-many", "3"))
    assert own.ca == (directory / "own.pem", Path("/etc/other.pem"))


@pytest.mark.parametrize(
    "text", ["server = ", "host = 5", 'server = "ftp://a"', '[host."https://a b"]\nca=1', "\xff" * 3]
)
def test_a_hosts_file_that_is_damaged_is_named(tmp_path: Path, text: str) -> None:
    """A pull fails rather than going somewhere else."""
    directory = tmp_path / "_default"
    directory.mkdir()
    (directory / "hosts.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ImageWorkError, match=r"hosts\.toml"):
        endpoints_of("registry.example", tmp_path)


# platforms


def _entry(**platform: str) -> Descriptor:
    return Descriptor("", "", 0, platform, {})


def _chosen(own: Platform, *platforms: dict[str, str]) -> list[str]:
    entries = [_entry(**({"os": "linux"} | each)) for each in platforms]
    return [each.platform.get("variant", "") for each in fitting(entries, own)]


def test_the_highest_variant_that_runs_is_taken() -> None:
    """For each architecture; one without a variant is what containerd takes it for."""
    arm = [{"architecture": "arm", **each} for each in ({"variant": "v5"}, {"variant": "v7"}, {"variant": "v6"}, {})]
    assert _chosen(Platform("arm", 7), *arm) == ["v7", "", "v6", "v5"]
    assert _chosen(Platform("arm", 6), *arm) == ["v6", "v5"]
    arm64 = [{"architecture": "arm64"}, {"architecture": "arm64", "variant": "v8"}, {"architecture": "amd64"}]
    assert _chosen(Platform("arm64", 8), *arm64) == ["", "v8"]
    amd64 = [{"architecture": "amd64", "variant": each} for each in ("", "v2", "v4", "v3", "strange", "v²")]
    assert _chosen(Platform("amd64", 3), *amd64) == ["v3", "v2", ""]
    assert _chosen(Platform("riscv64"), {"architecture": "riscv64"}) == [""]


def test_a_32_bit_image_is_taken_where_there_is_no_other() -> None:
    """On a machine of 64 bits that runs its programs, after all images of 64 bits: arm v8 to v5, 386."""
    arm = [{"architecture": "arm", **each} for each in ({"variant": "v5"}, {"variant": "v8"}, {"variant": "v6"}, {})]
    arm64 = {"architecture": "arm64", "variant": "64"}
    strange = {"architecture": "arm64", "variant": "v8"}
    own = Platform("arm64", 8, (Platform("arm", 8),))
    assert _chosen(own, *arm, arm64, strange) == ["v8", "v8", "", "v6", "v5"]
    assert _chosen(own._replace(others=()), *arm, strange) == ["v8"]
    both = [{"architecture": "386", "variant": ""}, {"architecture": "amd64", "variant": "v2"}]
    assert _chosen(Platform("amd64", 3, (Platform("386"),)), *both) == ["v2", ""]
    assert _chosen(Platform("amd64", 1, (Platform("386"),)), *both) == [""]
    assert _chosen(Platform("amd64", 1), *both) == []
    assert _chosen(Platform("386"), *both) == [""]


@pytest.mark.parametrize(
    ("machine", "flags", "runs", "wanted"),
    [
        ("x86_64", "sse", True, Platform("amd64", 1, (Platform("386"),))),
        ("x86_64", "sse", False, Platform("amd64", 1)),
        ("aarch64", "", True, Platform("arm64", 8, (Platform("arm", 8),))),
        ("aarch64", "", False, Platform("arm64", 8)),
        ("armv8l", "", True, Platform("arm", 7)),
        ("armv7l", "", True, Platform("arm", 7)),
        ("armv6l", "", True, Platform("arm", 6)),
        ("armv5tel", "", True, Platform("arm", 5)),
        ("i686", "", True, Platform("386")),
        ("riscv64", "", True, Platform("riscv64")),
    ],
)
def test_the_platform_of_a_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str, flags: str, runs: bool, wanted: Platform
) -> None:
    """Its architecture by Go's name, and the 32-bit one if it runs such programs."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags\t: {flags}\n")
    monkeypatch.setattr(platforms, "_CPUINFO", cpuinfo)
    monkeypatch.setattr(platforms, "runs", lambda _: runs)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "node", "6.1", "", machine)))
    assert own_platform() == wanted


@pytest.mark.parametrize(
    ("machine", "wanted"),
    [
        ("aarch64", Platform("arm", 8, (Platform("arm64", 8),))),
        ("x86_64", Platform("386", 0, (Platform("amd64", 1),))),
        ("armv7l", Platform("arm", 7)),
    ],
)
def test_the_platform_of_a_system_of_32_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: str, wanted: Platform
) -> None:
    """As a kubelet and a containerd of that system: its architecture first, also below a kernel of 64 bits."""
    monkeypatch.setattr(platforms, "_CPUINFO", tmp_path / "none")
    monkeypatch.setattr(platforms, "runs", lambda _: True)
    monkeypatch.setattr(platforms, "goarch", lambda machine, pointer_bytes=4: goarch(machine, pointer_bytes))
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "node", "6.1", "", machine)))
    assert own_platform() == wanted


def test_an_archive_with_both(tmp_path: Path) -> None:
    """The image of 64 bits has the name, in whatever order they are; one of 32 bits under another name comes along."""
    entries: list[object] = []
    blobs: dict[str, bytes] = {}
    for architecture, name in (("386", "a:1"), ("amd64", "a:1"), ("386", "b:1")):
        config = config_of([], architecture=architecture, Labels={"name": name})
        manifest = encoded({"schemaVersion": 2, "config": described(config, _CONFIG), "layers": []})
        entries.append({
            **described(manifest, "application/vnd.oci.image.manifest.v1+json"),
            "platform": {"os": "linux", "architecture": architecture},
            "annotations": {"io.containerd.image.name": f"example.org/{name}"},
        })  # fmt: skip
        blobs |= {f"blobs/sha256/{sha256(each)[7:]}": each for each in (config, manifest)}
    index = encoded({"schemaVersion": 2, "manifests": entries})
    archive = write_archive(tmp_path / "a.tar", {"oci-layout": b"{}", "index.json": index, **blobs})
    with archive.open("rb") as file:
        found = images_of(Archive(file.fileno()), Platform("amd64", 1, (Platform("386"),)))
    assert [(image.config.platform["architecture"], image.names[0].path) for image in found] == [
        ("amd64", "a"), ("386", "b"),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["docker save", "layout"])
def test_an_archive_for_another_machine_is_refused(form: str, tmp_path: Path) -> None:
    """As in a pull, by the image's config: it would run until its first program does not. One that does not say
    is taken.
    """
    images, own = [], Platform("amd64", 1, (Platform("386"),))
    for architecture in ("arm64", "", "386"):
        config = config_of([], architecture=architecture)
        saved = encoded_list({"Config": "config.json", "Layers": []})
        members = {"config.json": config, "manifest.json": saved}
        if form == "layout":
            manifest = encoded({"schemaVersion": 2, "config": described(config, _CONFIG), "layers": []})
            entry = described(manifest, "application/vnd.oci.image.manifest.v1+json")
            members = {f"blobs/sha256/{sha256(each)[7:]}": each for each in (config, manifest)}
            members |= {"oci-layout": b"{}", "index.json": encoded({"schemaVersion": 2, "manifests": [entry]})}
        images.append(write_archive(tmp_path / f"{architecture}.tar", members))
    other, *fit = images
    for path in fit:
        with path.open("rb") as file:
            assert len(images_of(Archive(file.fileno()), own)) == 1
    with other.open("rb") as file, pytest.raises(ImageWorkError, match="no image for linux/amd64, but for linux/arm64"):
        images_of(Archive(file.fileno()), own)


def encoded_list(*entries: dict[str, object]) -> bytes:
    """A list in JSON."""
    return json.dumps(entries).encode()


@pytest.mark.parametrize("architecture", ["386", "arm"])
def test_programs_of_32_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str) -> None:
    """Whether they run is tried, from memory, and known afterwards; where that is forbidden they do not."""
    file = tmp_path / "program"
    file.write_bytes(platforms.program(architecture))
    file.chmod(0o755)
    platforms.runs.cache_clear()
    assert platforms.runs(architecture) is (_exit_code(file) == 77)

    def forbidden(*_: object) -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "memfd_create", forbidden)
    assert platforms.runs(architecture) is (_exit_code(file) == 77)
    platforms.runs.cache_clear()
    assert not platforms.runs(architecture)
    platforms.runs.cache_clear()


def _exit_code(program: Path) -> int:
    """How a program ends; -1 if it cannot be executed."""
    try:
        return subprocess.run([program], check=False).returncode
    except OSError:
        return -1


def test_entries_without_a_platform_come_last() -> None:
    """And other systems' not at all."""
    entries = [
        Descriptor("", "none", 0, {}, {}),
        _entry(os="windows", architecture="amd64"),
        _entry(os="linux", architecture="amd64"),
    ]
    assert [each.digest for each in fitting(entries, Platform("amd64", 1))] == ["", "none"]


def test_the_level_of_a_processor_follows_its_flags() -> None:
    """Each level needs those below it."""
    second = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
    third = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
    assert [amd64_level(flags) for flags in (set[str](), second, second | third, third)] == [1, 2, 3, 1]


# pauses


def test_pauses_double_and_servers_may_ask_for_others() -> None:
    """Up to a minute; a date counts, too."""
    policy = RetryPolicy(first_delay=0.5, jitter=lambda: 0.5, wall=lambda: 1_000.0)
    assert [policy.delay(attempt, "") for attempt in (2, 3, 4)] == [0.5, 1.0, 2.0]
    assert [policy.delay(2, asked) for asked in ("7", "60", "61", "9" * 30)] == [7.0, 60.0, None, None]
    assert policy.delay(2, "Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert policy.delay(2, "Thu, 01 Jan 1970 00:17:00 GMT") == 20.0
    assert policy.delay(2, "Fri, 01 Jan 2999 00:00:00 GMT") is None
    assert [seconds_of(each, 0.0) for each in ("", "soon", "-1")] == [None, None, None]
