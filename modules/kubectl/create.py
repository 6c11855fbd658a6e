"""`create`: makes objects from manifests, or from options: configmaps, secrets, pods, workloads, roles and others; and
tokens of service accounts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from modules.apimachinery.printing.fields import map_at, text_at
from modules.apimachinery.printing.terminal import print_text
from modules.cli.errors import StatusError, UsageError
from modules.kubectl import file_objects
from modules.kubectl.durations import seconds_of
from modules.kubectl.output import print_result
from modules.kubectl.rbac_generators import OPTIONS
from modules.kubectl.resources import ref

if TYPE_CHECKING:
    from modules.apimachinery.printing.fields import JsonObject
    from modules.cli.parser import VerbParser
    from modules.kubectl.discovery import ApiResource
    from modules.kubectl.file_objects import FileObject
    from modules.kubectl.session import Session

_SOURCES: Final = (
    ("--from-literal", "KEY=VALUE", "an entry"),
    ("--from-file", "[KEY=]FILE|DIR", "an entry from a file; of a directory, one for each file"),
    ("--from-env-file", "FILE", "entries from lines KEY=VALUE"),
)
_MADE: Final = (
    "configmap NAME, secret generic|tls|docker-registry NAME, namespace NAME, and with [-- ARGUMENT…] pod NAME, "
    "deployment NAME, job NAME, cronjob NAME; role NAME, clusterrole NAME, rolebinding NAME, clusterrolebinding NAME; "
    "serviceaccount NAME, token NAME (of a service account)"
)
_OF_A_POD: Final = (
    ("--image", "IMAGE", "its image"),
    ("--restart", "POLICY", "Always, OnFailure or Never (default: Always; of jobs: Never, of cronjobs: OnFailure)"),
    ("--port", "PORT", "a port that it listens on"),
    ("--labels", "KEY=VALUE,…", "its labels (default: run=NAME)"),
)

_BOUND_KINDS: Final = ("Pod", "Secret", "Node")
_BOUND: Final = "bound_object"


def _add_token_options(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--audience", action="append", default=[], metavar="NAME", help="token: its audience; repeatable"
    )
    parser.add_argument("--duration", default="", metavar="TIME", help="token: how long it is valid: 10m, 24h")
    for part, text in (("kind", ", ".join(_BOUND_KINDS)), ("name", "its name"), ("uid", "its uid (default: any)")):
        parser.add_argument(
            f"--bound-object-{part}",
            default="",
            metavar=part.upper(),
            help=f"token: the object that it is bound to: {text}",
        )


def _create_token(session: Session, chosen: Any, names: list[str]) -> int:
    """Print a new token, and nothing else; with `-o` the whole TokenRequest.

    Raises:
        UsageError: the words or options are wrong.
    """
    if len(names) != 1:
        raise UsageError(f"exactly one NAME is required, got {len(names)}: `create token NAME`")
    if chosen.dry_run != "none":
        raise UsageError("a token is not stored anywhere, so there is no dry run of it")
    resource = session.discovery.one("serviceaccounts")
    path = resource.path(session.namespace, names[0], "token")
    body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": _spec(chosen)}
    answer = session.client.request("POST", path, (), body)
    if chosen.output:
        print_result(chosen, resource, answer, "created")
    else:
        print_text(text_at(answer, "status.token"))
    return 0


def _spec(chosen: Any) -> JsonObject:
    spec: JsonObject = {"audiences": chosen.audience} if chosen.audience else {}
    if chosen.duration:
        seconds = seconds_of(chosen.duration)
        if seconds <= 0 or seconds != int(seconds) or chosen.duration.startswith("-"):
            raise UsageError("--duration is a whole number of seconds, above 0")
        spec["expirationSeconds"] = int(seconds)
    kind, name, uid = (getattr(chosen, f"{_BOUND}_{part}") for part in ("kind", "name", "uid"))
    if not kind and (name or uid):
        raise UsageError("--bound-object-kind is set if --bound-object-name or --bound-object-uid is")
    if kind:
        if kind not in _BOUND_KINDS or not name:
            raise UsageError(
                f"--bound-object-kind is one of {', '.join(_BOUND_KINDS)}, and --bound-object-name is set with it"
            )
        bound = {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}
        spec["boundObjectRef"] = {field: value for field, value in bound.items() if value}
    return spec


def add(parser: VerbParser) -> None:
    """Add the options."""
    parser.add_argument("words", nargs="*", metavar="KIND NAME", help=f"without -f: {_MADE}")
    file_objects.add_options(parser)
    for name, metavar, text in _SOURCES:
        parser.add_argument(
            name, action="append", default=[], metavar=metavar, help=f"configmap, secret generic: {text}"
        )
    parser.add_argument("--type", default="", metavar="TYPE", help="secret generic: its type (default: Opaque)")
    for name, text in (("--cert", "the certificate, in PEM"), ("--key", "its private key, in PEM")):
        parser.add_argument(name, default="", metavar="FILE", help=f"secret tls: {text}")
    for name in ("server", "username", "password", "email"):
        parser.add_argument(f"--docker-{name}", default="", metavar=name.upper(), help="secret docker-registry")
    parser.flag("--save-config")
    for name, metavar, text in _OF_A_POD:
        parser.add_argument(name, default="", metavar=metavar, help=f"pod or workload: {text}")
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="pod: a variable; repeatable")
    parser.flag("--command", dest="as_command", text="pod: what follows -- is the command, not its arguments")
    parser.absent(
        "--edit", "`create --dry-run=client -o yaml` prints what would be made; edit that, and `create -f` it"
    )
    parser.add_argument("--replicas", default="1", metavar="NUMBER", help="deployment: how many pods (default: 1)")
    parser.add_argument("--schedule", default="", metavar="SCHEDULE", help="cronjob: as in cron: '*/5 * * * *'")
    parser.add_argument("--from", dest="made_from", default="", metavar="cronjob/NAME", help="job: from a CronJob's")
    for name, metavar, text in OPTIONS:
        parser.add_argument(name, action="append", default=[], metavar=metavar, help=f"{text}; repeatable")
    parser.add_argument("--role", default="", metavar="NAME", help="rolebinding: the Role that is given")
    parser.add_argument("--clusterrole", default="", metavar="NAME", help="binding: the ClusterRole that is given")
    _add_token_options(parser)
    parser.absent("--raw", "`apply -f` and `create -f` write objects")


def run(session: Session, chosen: Any) -> int:
    """Make the objects; return 1 when one was refused."""
    if not chosen.words:
        return file_objects.for_each(session, chosen, "create", "creating", partial(_create, session, chosen))
    if chosen.filename:
        raise UsageError("with -f, nothing else is named: leave out " + " ".join(chosen.words))
    if chosen.words[0] == "token":
        return _create_token(session, chosen, chosen.words[1:])
    from modules.kubectl.generators import generated  # noqa: PLC0415 - reads files, which most commands do not

    obj = generated(chosen, session.discovery)
    if chosen.made_from:
        obj = _of_cron_job(session, chosen.made_from, obj)
    wanted = ref(session, _resource(session, chosen, obj), obj["metadata"]["name"])
    namespace = "" if chosen.dry_run == "client" and not chosen.namespace else wanted.namespace
    placed = file_objects.FileObject(wanted, file_objects.with_namespace(obj, namespace), "")
    try:
        after, done = _create(session, chosen, placed)
    except StatusError as error:
        message = f"failed to create {wanted.resource.singular}: {error.message}"
        raise StatusError(error.code, error.reason, message, error.details) from error
    print_result(chosen, wanted.resource, after, done)
    return 0


def _create(session: Session, chosen: Any, wanted: FileObject) -> tuple[JsonObject, str]:
    after = wanted.object
    if chosen.dry_run != "client":
        path = wanted.ref.resource.path(wanted.ref.namespace)
        after = session.client.request("POST", path, file_objects.write_query(session, chosen), after)
    return after, "created"


def _of_cron_job(session: Session, word: str, job: JsonObject) -> JsonObject:
    """Return a Job of a CronJob's template, as kubectl makes it."""
    kind, slash, name = word.partition("/")
    if not slash or kind.split(".")[0] not in ("cronjob", "cronjobs", "cj"):
        raise UsageError("--from wants cronjob/NAME")
    found = session.client.get(session.discovery.one("cronjobs").path(session.namespace, name))
    template = map_at(found, "spec.jobTemplate")
    metadata = {of: map_at(template, f"metadata.{of}") for of in ("labels", "annotations")}
    metadata["annotations"] = {**metadata["annotations"], "cronjob.kubernetes.io/instantiate": "manual"}
    fields = ("apiVersion", "kind")
    owner = {**{field: found[field] for field in fields}, "name": name, "uid": text_at(found, "metadata.uid")}
    kept = {of: members for of, members in metadata.items() if members}
    given = {**job["metadata"], **kept, "ownerReferences": [{**owner, "controller": True}]}
    return {**job, "metadata": given, "spec": map_at(template, "spec")}


def _resource(session: Session, chosen: Any, obj: JsonObject) -> ApiResource:
    """Return the object's resource; `--dry-run=client` works without a server."""
    from modules.kubectl.discovery import ApiResource  # noqa: PLC0415

    kind = obj["kind"]
    if chosen.dry_run == "client":
        return ApiResource(f"{kind.lower()}s", kind.lower(), kind, namespaced=kind != "Namespace")
    return session.discovery.of_manifest(obj["apiVersion"], kind)
