"""The directory of the internal broker: its files, its user, and the process that an earlier edgecore has left."""

import base64
import os
import pwd
import secrets
import select
import shutil
import signal
from _hashlib import pbkdf2_hmac  # hashlib has none, see `hash_without_openssl`
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from beehive.files.descriptors import OwnedFd, open_process
from beehive.files.durable import beside, put_in_place, replace_file, replace_soon, write_file
from beehive.files.reading import read_file
from beehive.node_namespaces import is_machine_root
from modules.edge.eventbus.internal_broker import (
    ACL,
    CONFIGURATION,
    DATA,
    PASSWORDS,
    InternalBroker,
    acl,
    configuration,
)
from modules.edge.eventbus.mosquitto_sessions import LARGEST, MOST_BYTES, read_held, without

PROGRAM: Final = "mosquitto"
PID: Final = "pid"
STORED: Final = "mosquitto.db"
"""The file of sessions and messages, in `DATA`."""
_SMALL: Final = 4 * 1024 * 1024
"""Bytes of stored messages that fit in any case: small messages take up to six times as much memory."""
_CLIENT_ID: Final = "client-id"
SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ROUNDS: Final = 1000
_USERS: Final = ("mosquitto", "nobody")
END_SECONDS: Final = 5.0
"""Seconds for mosquitto to write its stored messages, and to end."""


class Owner(NamedTuple):
    """The user and group that mosquitto runs as."""

    uid: int
    gid: int


def find_mosquitto(searched: str = SEARCHED) -> Path | None:
    """Return the program; None if it is not installed. The process' own PATH does not count: it may be anybody's."""
    found = shutil.which(PROGRAM, path=searched)
    return None if found is None else Path(found)


def owner() -> Owner:
    """Return mosquitto's user for root's edgecore, else the own one."""
    if not is_machine_root():
        return Owner(os.geteuid(), os.getegid())
    for name in _USERS:
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return Owner(found.pw_uid, found.pw_gid)
    return Owner(65534, 65534)


def client_id(directory: Path) -> str:
    """Return the secret name of edgecore's session, which is made once. Raises OSError."""
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    file = directory / _CLIENT_ID
    with suppress(FileNotFoundError):
        if known := file.read_text().strip():
            return known
    made = f"edgecore-{secrets.token_hex(16)}"
    replace_file(file, made.encode(), 0o600)
    return made


def write_files(broker: InternalBroker, user: Owner) -> None:
    """Write mosquitto's files again; it may read them, and write in its own directory only. Raises OSError."""
    directory = broker.directory
    data = directory / DATA
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    texts = {CONFIGURATION: configuration(broker, is_root=user.uid == 0), ACL: acl(broker.user)}
    if broker.user:
        texts[PASSWORDS] = password_line(broker.user, broker.password, secrets.token_bytes(12))
    for name, text in texts.items():
        replace_soon(directory / name, text.encode(), 0o640)
        os.chown(directory / name, -1, user.gid)
    os.chown(directory, -1, user.gid)
    directory.chmod(0o750)
    os.chown(data, user.uid, user.gid, follow_symlinks=False)


def password_line(user: str, password: str, salt: bytes) -> str:
    """Return the line of mosquitto's password file for a user (PBKDF2 with SHA-512)."""
    digest = pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"{user}:$7${_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n"


def mark(directory: Path) -> str:
    """Return the name under which mosquitto runs in a directory, the first word of its command line."""
    return f"{PROGRAM}: {directory.absolute()}"


def set_aside_messages(directory: Path) -> Path | None:
    """Rename the stored messages, so that mosquitto starts without them; return the new name, or None if there are
    none. The file of an earlier time is replaced. Raises OSError.
    """
    stored = directory / DATA / STORED
    aside = stored.with_suffix(".db.unusable")
    try:
        stored.rename(aside)
    except FileNotFoundError:
        return None
    return aside


def shorten_messages(broker: InternalBroker, user: Owner) -> None:
    """Leave out of the stored messages what sessions hold beyond their bound, before mosquitto starts: it reads all or
    none. Raises OSError, and UnreadableError for a file of another version.
    """
    stored = broker.directory / DATA / STORED
    with suppress(FileNotFoundError):
        data = read_file(stored, LARGEST) if stored.stat().st_size > _SMALL else b""
        if data:
            shorter = without(data, read_held(data).to_end(broker.client_id.encode(), MOST_BYTES))
            if len(shorter) < len(data):
                new = beside(stored)
                write_file(new, shorter, 0o600)
                os.chown(new, user.uid, user.gid, follow_symlinks=False)
                put_in_place(new, stored)


def end_left_over(directory: Path) -> None:
    """End the mosquitto that an edgecore which was killed has left in a directory. Blocks for some seconds at most."""
    with suppress(OSError, ValueError):
        pid = int((directory / PID).read_text())
        with OwnedFd(open_process(pid)) as process:
            name = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
            if name == os.fsencode(mark(directory)):  # else the number belongs to another process by now
                _end(process)


def _end(process: int) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
        if poll.poll(END_SECONDS * 1000):
            return
