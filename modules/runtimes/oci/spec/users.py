"""User and groups of a container's process: the runtime knows numbers only, names are in the image's files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec.model import LinuxUser
from modules.runtimes.oci.spec.rooted_files import read_inside
from modules.runtimes.oci.user_numbers import LARGEST_ID, is_number, number_in
from protos.cri.v1 import api_pb2 as cri

_LARGEST_FILE: Final = 4 << 20
"""Bytes of /etc/passwd or /etc/group of an image."""
_ATTEMPT: Final = "choose the container's user"


def check_user(attempt: str, security: cri.LinuxContainerSecurityContext) -> None:
    """Refuse users that are wrong for any image: CRI forbids a group without a user."""
    has_user = security.HasField("run_as_user") or bool(security.run_as_username)
    if security.HasField("run_as_group") and not has_user:
        raise BadRequestError(attempt, "runAsGroup without runAsUser", "give both")
    ids = [security.run_as_user.value, security.run_as_group.value, *security.supplemental_groups]
    if wrong := next((number for number in ids if not 0 <= number <= LARGEST_ID), None):
        raise BadRequestError(attempt, f"{wrong} is no user or group of Linux", f"from 0 to {LARGEST_ID}")
    if any(character in security.run_as_username for character in ":\n\0"):
        raise BadRequestError(
            attempt, f'the user name "{security.run_as_username[:60]!r}" has a colon or control character'
        )


def resolve_linux_user(rootfs: Path, security: cri.LinuxContainerSecurityContext, image_user: str) -> LinuxUser:
    """Return the user that the container runs as: CRI's number, CRI's name, the image's user, root.

    Names are looked up in /etc/passwd and /etc/group below `rootfs`; a number never is a name there. A user without an
    entry has group 0. With the policy Merge the groups that list the user are added, also to the group that the image
    names (`user:group`), but none with the user's own name (containerd's WithAdditionalGIDs).

    Raises:
        BadRequestError: an unknown name, a number that Linux does not have, or files that cannot be read.
    """
    files = _UserFiles(rootfs)
    user, group = _asked(security, image_user)
    uid, gid, name = files.user(user)
    if group:
        gid = files.group(group)
    listed = () if security.supplemental_groups_policy == cri.Strict else files.groups_of(name)
    return LinuxUser(uid, gid, tuple(sorted({gid, *listed, *security.supplemental_groups})), has_entry=bool(name))


def names_user(security: cri.LinuxContainerSecurityContext, image_user: str) -> bool:
    """Return whether a container's user or group is a name, which its image may lack."""
    return any(each and number_in(each) is None for each in _asked(security, image_user))


def may_have_entry(config: cri.ContainerConfig, user: LinuxUser) -> bool:
    """Return whether a user may have an entry in /etc/passwd: in the image's, or in a file that is mounted there."""
    return user.has_entry or any(mount.container_path.rstrip("/") in ("/etc", "/etc/passwd") for mount in config.mounts)


def _asked(security: cri.LinuxContainerSecurityContext, image_user: str) -> tuple[str, str]:
    group = str(security.run_as_group.value) if security.HasField("run_as_group") else ""
    if security.HasField("run_as_user"):
        return str(security.run_as_user.value), group
    if security.run_as_username:
        return security.run_as_username, group
    user, _, image_group = image_user.partition(":")
    return user or "0", image_group


class _UserFiles:
    """The user database of an image, read when it is needed."""

    def __init__(self, rootfs: Path) -> None:
        self._rootfs = rootfs

    def user(self, asked: str) -> tuple[int, int, str]:
        """Return uid, primary gid and name of a user given by name or number. The first entry that fits counts."""
        number = _number(asked, "user")
        for name, uid, gid in self.users():
            if (name == asked) if number is None else (uid == number):
                return uid, gid, name
        if number is None:
            raise _unknown(asked, "user", "/etc/passwd")
        return number, 0, ""

    def group(self, asked: str) -> int:
        """Return the number of a group given by name or number."""
        number = _number(asked, "group")
        found = number if number is not None else next((gid for name, gid, _ in self._groups() if name == asked), None)
        if found is None:
            raise _unknown(asked, "group", "/etc/group")
        return found

    def groups_of(self, user: str) -> list[int]:
        """Return the groups that list the user, without one of the same name."""
        return [gid for name, gid, members in self._groups() if user in members and user not in ("", name)]

    def users(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, uid and primary gid of each user."""
        for fields in self._lines("etc/passwd", 4):
            uid, gid = _id_of(fields[2]), _id_of(fields[3])
            if uid is not None and gid is not None:
                yield fields[0], uid, gid

    def _groups(self) -> Iterator[tuple[str, int, list[str]]]:
        for fields in self._lines("etc/group", 3):
            gid = _id_of(fields[2])
            if gid is not None:
                yield fields[0], gid, fields[3].split(",") if len(fields) > 3 else []

    def _lines(self, path: str, least: int) -> Iterator[list[str]]:
        """Yield the fields of each entry; other lines are passed over, as the C library does."""
        try:
            text = read_inside(self._rootfs, path, _LARGEST_FILE) or b""
        except OSError as error:
            raise BadRequestError(_ATTEMPT, f"the image's /{path} cannot be read: {error.strerror}") from error
        for line in text.decode(errors="surrogateescape").split("\n"):
            fields = line.strip().split(":")
            if len(fields) >= least and fields[0] and not fields[0].startswith("#"):
                yield fields


def _id_of(text: str) -> int | None:
    """Return a user's or group's number in a file; None for anything else."""
    return number_in(text) if text.isdecimal() else None


def _number(text: str, kind: str) -> int | None:
    """Return the number that a text is; None for a name. Raises BadRequestError for a number that Linux lacks."""
    number = number_in(text)
    if number is None and is_number(text):
        raise BadRequestError(_ATTEMPT, f'"{text[:60]}" is no number of a {kind}', f"use one from 0 to {LARGEST_ID}")
    return number


def _unknown(name: str, kind: str, file: str) -> BadRequestError:
    return BadRequestError(_ATTEMPT, f'the image has no {kind} "{name[:60]}" in {file}', "use a number")
