"""User and groups by the image's files, which are not trusted."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.images.views import cri_user
from modules.runtimes.oci.spec import LinuxUser
from modules.runtimes.oci.spec.rooted_files import open_by_steps, read_inside, real_path_inside
from modules.runtimes.oci.spec.users import check_user, resolve_linux_user
from protos.cri.v1 import api_pb2 as cri

_USERS = ("#web:x:33:0::/:/bin/sh", "root:x:0:0::/:/bin/sh", "web:x:33:34::/:/bin/sh", "# c", "", "bad:x:y:z")
_PASSWD = "".join(f"{line}\n" for line in (*_USERS, "77:x:5000:5001::/:/bin/sh"))
_GROUP = "root:x:0:\nweb:x:34:web\nlog:x:4:web,other\naudio:x:29:web\nnone\nbig:x:99999999999:web\n"


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    """A root with users."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(_PASSWD)
    (tmp_path / "etc/group").write_text(_GROUP)
    return tmp_path


def _context(**fields: object) -> cri.LinuxContainerSecurityContext:
    context = cri.LinuxContainerSecurityContext()
    for name, value in fields.items():
        if name in ("run_as_user", "run_as_group"):
            getattr(context, name).value = value
        elif name == "supplemental_groups":
            context.supplemental_groups.extend(value)  # type: ignore[arg-type]
        else:
            setattr(context, name, value)
    return context


@pytest.mark.parametrize(
    ("context", "image_user", "expected"),
    [
        (_context(), "", (0, 0, (0,))),
        (_context(), "web", (33, 34, (4, 29, 34))),
        (_context(), "33", (33, 34, (4, 29, 34))),
        (_context(), "web:log", (33, 4, (4, 29))),
        (_context(), "33:4", (33, 4, (4, 29))),
        (_context(), "web:12345", (33, 12345, (4, 29, 12345))),
        (_context(), "1234", (1234, 0, (0,))),
        (_context(), "1234:log", (1234, 4, (4,))),
        (_context(), ":log", (0, 4, (4,))),
        (_context(), "77", (77, 0, (0,))),
        (_context(run_as_user=33), "root", (33, 34, (4, 29, 34))),
        (_context(run_as_user=1), "web:log", (1, 0, (0,))),
        (_context(run_as_user=0), "web", (0, 0, (0,))),
        (_context(run_as_username="web"), "1", (33, 34, (4, 29, 34))),
        (_context(run_as_user=33, run_as_group=7), "", (33, 7, (4, 7, 29))),
        (_context(run_as_user=33, supplemental_groups=[9, 4]), "", (33, 34, (4, 9, 29, 34))),
        (
            _context(run_as_user=33, supplemental_groups=[9], supplemental_groups_policy=cri.Strict),
            "",
            (33, 34, (9, 34)),
        ),
        (_context(supplemental_groups=[9]), "web:log", (33, 4, (4, 9, 29))),
    ],
)
def test_resolution(
    rootfs: Path,
    context: cri.LinuxContainerSecurityContext,
    image_user: str,
    expected: tuple[int, int, tuple[int, ...]],
) -> None:
    """CRI's number, CRI's name, the image's; the groups by the policy, also beside a group of the image, but not one
    with the user's name.
    """
    found = resolve_linux_user(rootfs, context, image_user)
    assert (found.uid, found.gid, found.groups) == expected


@pytest.mark.parametrize(
    "image_user", ["nobody", "bad", "#web", "web:nogroup", "٣", "1000 ", "0x1", "1_0", "+", "--1", "1.0"]
)
def test_unknown_names(rootfs: Path, image_user: str) -> None:
    """A name that the image does not have."""
    with pytest.raises(BadRequestError, match=r"the image has no (user|group)"):
        resolve_linux_user(rootfs, _context(), image_user)


_NUMBERS = ["1000", "+1000", "01000", "-1", "4294967295", "4294967296", "99999999999", "18446744073709552616"]
_HOSTILE = "".join(f"{each}:x:0:0::/:/bin/sh\n" for each in _NUMBERS)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A root whose users and groups have names of digits, and are root."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(_HOSTILE)
    (tmp_path / "etc/group").write_text(_HOSTILE + "wheel:x:10:1000\n")
    return tmp_path


@pytest.mark.parametrize(
    ("context", "image_user"),
    [
        (_context(run_as_user=1000), ""),
        (_context(run_as_user=1000, run_as_group=1000), ""),
        (_context(run_as_username="1000"), ""),
        (_context(run_as_username="1000", run_as_group=1000), ""),
        (_context(), "1000"),
        (_context(), "1000:1000"),
        (_context(), "+1000:01000"),
        (_context(), "0001000:+1000"),
    ],
)
def test_a_number_is_never_a_name(hostile: Path, context: cri.LinuxContainerSecurityContext, image_user: str) -> None:
    """In any notation and from any source; nor is it a member of a group under that name."""
    has_group = context.HasField("run_as_group") or ":" in image_user
    found = resolve_linux_user(hostile, context, image_user)
    assert found == LinuxUser(1000, 1000 if has_group else 0, (1000,) if has_group else (0,), has_entry=False)


@pytest.mark.parametrize("number", ["-1", "4294967295", "4294967296", "99999999999", "18446744073709552616"])
def test_numbers_that_linux_does_not_have(hostile: Path, number: str) -> None:
    """They are refused, and neither looked up nor cut to 32 bits; the kubelet's part sees no number either."""
    for context, image_user in [
        (_context(), number), (_context(), f"1:{number}"), (_context(run_as_username=number), "")
    ]:  # fmt: skip
        with pytest.raises(BadRequestError, match="is no number of a"):
            resolve_linux_user(hostile, context, image_user)
    assert cri_user(number) == (None, number)


@pytest.mark.parametrize("user", ["0", "+0", "-0", "000", "0:1000"])
def test_an_image_of_root_is_seen_as_such(user: str) -> None:
    """So runAsNonRoot refuses it."""
    assert cri_user(user) == (cri.Int64Value(value=0), "")


def test_an_image_without_files(tmp_path: Path) -> None:
    """Numbers are enough."""
    assert resolve_linux_user(tmp_path, _context(), "1000:1001") == LinuxUser(1000, 1001, (1001,), has_entry=False)
    with pytest.raises(BadRequestError, match="no user"):
        resolve_linux_user(tmp_path, _context(), "web")


def test_links_stay_inside(rootfs: Path, tmp_path: Path) -> None:
    """A link to an absolute path, or far up, leads to a file of the image: never to the machine's."""
    (rootfs / "etc/passwd").rename(rootfs / "users")
    for target in ("/users", "../../../../../../users"):
        (rootfs / "etc/passwd").unlink(missing_ok=True)
        (rootfs / "etc/passwd").symlink_to(target)
        assert resolve_linux_user(rootfs, _context(), "web").uid == 33
    (rootfs / "etc/passwd").unlink()
    (rootfs / "etc/passwd").symlink_to("/etc/shadow")
    assert read_inside(rootfs, "etc/passwd", 100) is None


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "huge", "loop"])
def test_other_things_than_files(rootfs: Path, kind: str) -> None:
    """A FIFO or device is never opened, a huge file is not read, a circle of links ends."""
    path = rootfs / "etc/passwd"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(path, 0o020666, os.makedev(1, 5))
    elif kind == "directory":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(5 << 20)
    else:
        path.symlink_to("passwd")
    if kind in ("huge", "loop"):
        with pytest.raises(BadRequestError, match="/etc/passwd cannot be read"):
            resolve_linux_user(rootfs, _context(), "0")
    else:
        assert resolve_linux_user(rootfs, _context(), "7") == LinuxUser(7, 0, (0,), has_entry=False)


def test_opening_without_openat2(rootfs: Path) -> None:
    """On an old kernel: plain paths work, links and ".." are refused."""
    (rootfs / "link").symlink_to("etc")
    top = os.open(rootfs, os.O_PATH)
    try:
        os.close(open_by_steps(top, "/etc/passwd"))
        for path in ("link/passwd", "etc/../etc/passwd", "none"):
            with pytest.raises(OSError, match=r"link|leaves|No such"):
                open_by_steps(top, path)
    finally:
        os.close(top)


def test_a_path_inside_is_named_as_the_machine_sees_it(rootfs: Path) -> None:
    """Links inside lead inside."""
    (rootfs / "link").symlink_to("/etc")
    assert real_path_inside(rootfs, "link/passwd") == rootfs / "etc/passwd"


@pytest.mark.parametrize(
    "context",
    [
        _context(run_as_group=5),
        _context(run_as_user=-1),
        _context(run_as_user=1 << 32),
        _context(run_as_user=1, supplemental_groups=[-5]),
        _context(run_as_username="a:b"),
    ],
)
def test_refused_before_the_image_is_looked_at(context: cri.LinuxContainerSecurityContext) -> None:
    """A group without a user, numbers that Linux does not have, a name that cannot be one."""
    with pytest.raises(BadRequestError):
        check_user("create it", context)


@given(passwd=st.binary(max_size=300), group=st.binary(max_size=300), user=st.text(max_size=12))
def test_any_files(tmp_path_factory: pytest.TempPathFactory, passwd: bytes, group: bytes, user: str) -> None:
    """Whatever the files hold: numbers of Linux in ascending order with the own group, or a refusal."""
    rootfs = tmp_path_factory.getbasetemp() / "any"
    (rootfs / "etc").mkdir(parents=True, exist_ok=True)
    (rootfs / "etc/passwd").write_bytes(b"root:x:0:0:\n" + passwd)
    (rootfs / "etc/group").write_bytes(b"g:x:3:root\n" + group)
    try:
        found = resolve_linux_user(rootfs, _context(), user)
    except BadRequestError:
        return
    assert found.groups == tuple(sorted({*found.groups, found.gid}))
    assert all(0 <= number < 2**32 - 1 for number in (found.uid, *found.groups))
