"""`make chart`: a Helm chart of cloudcore, made of `deploy/cloudcore.yaml` and `deploy/cloudcore-replicas.yaml`.

Each file is a template in which a few texts are values; with one replica the chart has the objects of the one, with
more those of the other. Helm makes the namespace, so theirs is left out. The same commit gives the same bytes.
"""

import gzip
import io
import json
import re
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from modules.processes.common.version import VERSION
from tests.packaging.release import ROOT

NAME: Final = "cloudcore"
_FILES: Final = {"cloudcore.yaml": "eq", "cloudcore-replicas.yaml": "gt"}
"""The files of deploy, and how their number of replicas compares with 1."""
_RELEASE: Final = re.compile(r"\d+\.\d+\.\d+")
_LAST_ARGUMENT: Final = "            - --log-format=json\n"
_VALUES_OF: Final = (
    (re.compile(r"(?m)^( +)image: cloudcore:.*$"), r"\1image: {{ toJson .Values.image }}"),
    (re.compile(r"--dns-name=cloud\.example"), "--dns-name={{ .Values.dnsName }}"),
    (re.compile(r"(?m)^  replicas: \d+$"), "  replicas: {{ .Values.replicas }}"),
    (re.compile(r"(?m)^(  +)namespace: kubeedge$"), r"\1namespace: {{ .Release.Namespace }}"),
    (
        re.compile(re.escape(_LAST_ARGUMENT)),
        f"{_LAST_ARGUMENT}            - --lease-namespace={{{{ .Release.Namespace }}}}\n"
        "            {{- range .Values.arguments }}\n            - {{ toJson . }}\n            {{- end }}\n",
    ),
)
"""What of the files is a value."""
VALUES: Final[Mapping[str, Any]] = {"image": "", "dnsName": "", "replicas": 1, "arguments": []}
_COMMENTS: Final = {
    "image": "made by deploy/Dockerfile and pushed to a registry of yours, such as registry.example/cloudcore@sha256:…",
    "dnsName": "by which edge nodes reach the Service",
    "replicas": "with more than one, the Secret cloudcore-tls has the nodes' certificate authority",
    "arguments": "further ones of `cloudcore run`",
}
_SCHEMA: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": list(VALUES),
    "additionalProperties": False,
    "properties": {
        "global": {"type": "object"},
        "image": {"type": "string", "minLength": 1},
        "dnsName": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 100},
        "arguments": {"type": "array", "items": {"type": "string"}},
    },
}
"""Helm holds the values to it."""


def chart() -> dict[str, str]:
    """Return the files of the chart, by name."""
    release = _RELEASE.match(VERSION)
    assert release is not None, VERSION
    about = {
        "apiVersion": "v2", "name": NAME, "description": "The cloud of edge nodes at a cluster", "type": "application",
        "version": release[0], "appVersion": release[0], "kubeVersion": ">=1.32.0-0",
    }  # fmt: skip
    values = "".join(f"# {_COMMENTS[name]}\n{name}: {json.dumps(value)}\n" for name, value in VALUES.items())
    return {
        "Chart.yaml": yaml.safe_dump(about, sort_keys=False),
        "values.yaml": values,
        "values.schema.json": json.dumps(_SCHEMA, indent=2) + "\n",
        **{f"templates/{name}": _template(name, compared) for name, compared in _FILES.items()},
    }


def _template(name: str, compared: str) -> str:
    text = (ROOT / "deploy" / name).read_text()
    assert "{{" not in text, f"deploy/{name} has what Helm would read"
    documents = [each for each in text.split("\n---\n") if "\nkind: Namespace\n" not in each]
    text = "\n---\n".join(documents)
    for pattern, value in _VALUES_OF:
        text, found = pattern.subn(value, text)
        assert found, f"deploy/{name} has no {pattern.pattern}"
    return f"{{{{- if {compared} (int .Values.replicas) 1 }}}}\n{text.rstrip()}\n{{{{- end }}}}\n"


def pack(into: Path) -> Path:
    """Write the chart as an archive; return it."""
    files = chart()
    target = into / f"{NAME}-{yaml.safe_load(files['Chart.yaml'])['version']}.tgz"
    into.mkdir(parents=True, exist_ok=True)
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{NAME}/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    target.write_bytes(gzip.compress(written.getvalue(), mtime=0))
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{pack(Path(sys.argv[1]))}\n")
