"""The user of a container's processes: its security context, as far as this process may follow it."""

import os
import pwd

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.shim.protocol import Namespacing, UserSpec
from protos.cri.v1 import api_pb2 as cri

_ATTEMPT = "choose the container's user"


def resolve_user(context: cri.LinuxContainerSecurityContext, own_uid: int, namespacing: Namespacing) -> UserSpec | None:
    """Return the user to change to; None to keep edgecore's own.

    Group and supplementary groups are completed from the machine's user database, as runc does from the image's.

    Raises:
        BadRequestError: a group without a user (CRI forbids it), an unknown name.
        WrongStateError: another user while edgecore is not root, or while mounts need a user namespace.
    """
    asked = _asked_uid(context)
    if asked is None and context.HasField("run_as_group"):
        raise BadRequestError(_ATTEMPT, "runAsGroup without runAsUser", "give both")
    if own_uid != 0 or namespacing == "user":
        if asked not in (None, own_uid):
            reason = f"the container asks for user {asked}, edgecore runs as user {own_uid} and cannot change it"
            raise WrongStateError(_ATTEMPT, reason, "run edgecore as root or leave runAsUser out")
        return None
    if asked is None and not context.supplemental_groups:
        return None
    return _complete(asked or 0, context)


def _asked_uid(context: cri.LinuxContainerSecurityContext) -> int | None:
    if context.HasField("run_as_user"):
        return context.run_as_user.value
    if not context.run_as_username:
        return None
    try:
        return pwd.getpwnam(context.run_as_username).pw_uid
    except KeyError:
        reason = f'there is no user "{context.run_as_username}" on this machine'
        raise BadRequestError(_ATTEMPT, reason, "use a number") from None


def _complete(uid: int, context: cri.LinuxContainerSecurityContext) -> UserSpec:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        gid, known = 0, list[int]()
    else:
        gid, known = entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)
    if context.HasField("run_as_group"):
        gid = context.run_as_group.value
    if context.supplemental_groups_policy == cri.Strict:
        known = []
    return UserSpec(uid=uid, gid=gid, groups=sorted({gid, *known, *context.supplemental_groups}))
