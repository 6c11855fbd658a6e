"""The process of a container: command line, environment, directory."""

from collections.abc import Iterator, Sequence
from typing import Final

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec.model import ImageDefaults, Json
from protos.cri.v1 import api_pb2 as cri

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TERM: Final = "xterm"
_LONGEST: Final = 128 * 1024
"""Bytes of an argument or variable (Linux's MAX_ARG_STRLEN)."""


def check_process(attempt: str, config: cri.ContainerConfig, image: ImageDefaults) -> None:
    """Refuse a process that can never start. Raises BadRequestError."""
    command = command_line(attempt, config, image)
    for text in (*command, *image.environment, image.working_directory, config.working_dir):
        _check_text(attempt, text)
    if any(len(text.encode()) >= _LONGEST for text in command):
        raise BadRequestError(attempt, f"an argument has more than {_LONGEST} bytes")
    for variable in config.envs:
        _check_variable(attempt, variable)
    if config.working_dir and not config.working_dir.startswith("/"):
        raise BadRequestError(attempt, f'the working directory "{config.working_dir[:200]}" is not absolute')


def _check_text(attempt: str, text: str) -> None:
    """Half a character (a lone surrogate) can be in the JSON of an image."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequestError(attempt, f"{text[:60]!r} has half a character") from error
    if "\0" in text:
        raise BadRequestError(attempt, f"{text[:60]!r} has a NUL character")


def _check_variable(attempt: str, variable: cri.KeyValue) -> None:
    """Refuse variables that are not UTF-8: they are JSON on their way to the container."""
    if not variable.key or "=" in variable.key or "\0" in variable.key or b"\0" in variable.value:
        raise BadRequestError(
            attempt, "an environment variable's name is empty or holds '=', or a NUL character is in it"
        )
    if len(variable.key) + len(variable.value) >= _LONGEST:
        raise BadRequestError(
            attempt, f"the environment variable {variable.key[:60]!r} is longer than {_LONGEST} bytes"
        )
    try:
        variable.value.decode()
    except UnicodeDecodeError as error:
        raise BadRequestError(attempt, f"the environment variable {variable.key[:60]!r} is not UTF-8") from error


def command_line(attempt: str, config: cri.ContainerConfig, image: ImageDefaults) -> list[str]:
    """Return OCI's `process.args`: CRI's command replaces the image's entrypoint and command, CRI's arguments the
    image's command. Raises BadRequestError if there is nothing to run.
    """
    if config.command:
        return [*config.command, *config.args]
    entrypoint = [] if list(image.entrypoint) == [""] else list(image.entrypoint)
    command = [*entrypoint, *(config.args or image.command)]
    if not command:
        reason = "no command specified: neither the pod nor the image has one"
        raise BadRequestError(attempt, reason, "give `command:` in the pod")
    return command


def environment(
    config: cri.ContainerConfig, image: ImageDefaults, hostname: str, *, has_entry: bool = True
) -> list[str]:
    """Return OCI's `process.env`: of equal names the pod's counts, then the image's, then the usual one.

    HOME of a user with an entry in /etc/passwd is the runtime's to read, for the file may be mounted. Another user's
    is `/`, as by runc; crun 1.8 leaves it out.
    """
    variables = {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, **({} if has_entry else {"HOME": "/"})}
    if config.tty:
        variables["TERM"] = _TERM
    variables |= dict(_named(image.environment))
    variables |= {each.key: each.value.decode(errors="replace") for each in config.envs}
    return [f"{name}={value}" for name, value in variables.items()]


def _named(variables: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values; an image's text without a name or with a NUL character is left out."""
    for variable in variables:
        name, _, value = variable.partition("=")
        if name and "\0" not in variable:
            yield name, value


def working_directory(config: cri.ContainerConfig, image: ImageDefaults) -> str:
    """Return OCI's `process.cwd`, which the runtime makes if it is missing."""
    path = config.working_dir or image.working_directory
    return path if path.startswith("/") else f"/{path}"


def exec_process(spec_config: Json, command: Sequence[str], *, tty: bool) -> Json:
    """Return the process of a command in the container's environment, with its user and rights."""
    process: Json = {**spec_config["process"], "args": list(command), "terminal": tty}
    if tty and not any(variable.startswith("TERM=") for variable in process["env"]):
        process["env"] = [*process["env"], f"TERM={_TERM}"]
    return process
