"""Image names are completed as container runtimes complete them, and pulled when the policy says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.images.pull_policy import PullDecision, should_pull
from modules.apimachinery.image_names import ImageName, ImageNameError, listed_name, parse_image

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.35", "docker.io/library/busybox:1.35"),
        ("kubeedge/pause:3.6", "docker.io/kubeedge/pause:3.6"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
        ("registry.k8s.io/pause:3.6", "registry.k8s.io/pause:3.6"),
        ("localhost/x", "localhost/x:latest"),
        ("localhosts/x", "docker.io/localhosts/x:latest"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("127.0.0.1:5000/a/b:c", "127.0.0.1:5000/a/b:c"),
        ("[::1]:5000/x", "[::1]:5000/x:latest"),
        ("my_registry.example/x", "my_registry.example/x:latest"),
        (f"busybox@{DIGEST}", f"docker.io/library/busybox@{DIGEST}"),
        (f"busybox:1@{DIGEST}", f"docker.io/library/busybox:1@{DIGEST}"),
        ("a__b-c.d", "docker.io/library/a__b-c.d:latest"),
        (f"registry.example/{'x' * 255}", f"registry.example/{'x' * 255}:latest"),
    ],
)
def test_short_names_become_full(name: str, full: str) -> None:
    """Registry, official library and tag are filled in; what is given stays."""
    assert str(parse_image(name)) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Busybox",
        "busybox:",
        "busybox@",
        "busybox:a b",
        "busybox@sha256:12",
        f"busybox@sha256:{'a' * 63}",
        f"busybox@sha256:{'A' * 64}",
        f"busybox@SHA256:{'a' * 64}",
        f"busybox@sha512:{'a' * 64}",
        f"busybox@md5:{'a' * 32}",
        "a//b",
        "/a",
        "a/",
        "-x/y",
        "my_registry:5000/x",
        "..",
        f"registry.example/{'x' * 256}",
        "0f" * 32,
    ],
)
def test_impossible_names_are_refused(name: str) -> None:
    """The error shows the name."""
    with pytest.raises(ImageNameError, match="cannot read the image name"):
        parse_image(name)


_word = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)


@given(_word, st.lists(_word, min_size=1, max_size=3), _word, st.sampled_from(["", DIGEST]))
def test_full_names_read_back(host: str, path: list[str], tag: str, digest: str) -> None:
    """Writing and reading a full name are inverse, and completing it changes nothing."""
    name = ImageName(f"{host}.example.org:443", "/".join(path), tag, digest)
    assert parse_image(str(name)) == name
    assert str(parse_image(str(name))) == str(name)


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("a", "docker.io/library/a:latest"),
        ("r.example/a:1", "r.example/a:1"),
        (f"r.example/a@{DIGEST}", f"r.example/a@{DIGEST}"),
        (f"r.example/a:1@{DIGEST}", f"r.example/a@{DIGEST}"),
        (DIGEST, f"docker.io/library/{DIGEST}"),
        ("No Name", "No Name"),
    ],
)
def test_an_image_is_listed_by_its_tag_or_its_digest(name: str, listed: str) -> None:
    assert listed_name(name) == listed


@pytest.mark.parametrize(
    ("policy", "image", "present", "decision"),
    [
        ("Always", "a:1", True, PullDecision.PULL),
        ("Always", "a:1", False, PullDecision.PULL),
        ("IfNotPresent", "a", True, PullDecision.USE),
        ("IfNotPresent", "a", False, PullDecision.PULL),
        ("Never", "a", True, PullDecision.USE),
        ("Never", "a", False, PullDecision.REFUSE),
        ("", "a", True, PullDecision.PULL),
        ("", "a:latest", True, PullDecision.PULL),
        ("", "a:1", True, PullDecision.USE),
        ("", f"a@{DIGEST}", True, PullDecision.USE),
        ("", f"a:1@{DIGEST}", True, PullDecision.USE),
        ("", f"a:latest@{DIGEST}", True, PullDecision.PULL),
        ("", "a:1", False, PullDecision.PULL),
    ],
)
def test_policy_decides_about_pulling(policy: str, image: str, decision: PullDecision, *, present: bool) -> None:
    """Policy, tag and presence decide; an empty policy is the API server's default."""
    assert should_pull(policy, image, present=present) is decision
