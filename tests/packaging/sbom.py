"""The list of what a release consists of, as CycloneDX 1.5 in JSON (https://cyclonedx.org/docs/1.5/json/).

It is made from the wheels alone: names, versions, licences and dependencies are in their metadata (PEP 566), and each
has its SHA-256. The same wheels give the same bytes.
"""

import hashlib
import json
import re
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import HeaderParser
from pathlib import Path
from time import gmtime, strftime
from typing import Any, Final

_REQUIRED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)")
_SPACE: Final = uuid.UUID("7e0b3c34-6a4b-5d0e-9a52-2f0c5d1e8f10")
"""Namespace of the serial numbers, drawn once."""
_LONGEST_LICENCE: Final = 100


def sbom_of(wheels: Sequence[Path], version: str, seconds: int) -> bytes:
    """Return the list.

    Args:
        wheels: edgecore's own, and those of all that it needs.
        version: of edgecore.
        seconds: time of the release since the epoch.
    """
    found = sorted((_component(wheel) for wheel in wheels), key=lambda each: str(each[0]["bom-ref"]))
    by_name = {normalized(str(component["name"])): str(component["bom-ref"]) for component, _ in found}
    own = by_name["edgecore"]
    hashes = "".join(component["hashes"][0]["content"] for component, _ in found)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, version + hashes)}",
        "version": 1,
        "metadata": {
            "timestamp": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds)),
            "component": next(component for component, _ in found if component["bom-ref"] == own),
        },
        "components": [component for component, _ in found if component["bom-ref"] != own],
        "dependencies": [
            {"ref": component["bom-ref"], "dependsOn": sorted({by_name[need] for need in needs if need in by_name})}
            for component, needs in found
        ],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def normalized(name: str) -> str:
    """Return the name of a distribution as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _component(wheel: Path) -> tuple[dict[str, Any], list[str]]:
    """Return a wheel's entry, and the names of what it needs without an extra."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [each for each in packed.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each)]
        metadata = HeaderParser().parsestr(packed.read(name).decode())
    title, version = str(metadata["Name"]), str(metadata["Version"])
    reference = f"pkg:pypi/{normalized(title)}@{version.replace('+', '%2B')}"
    component: dict[str, Any] = {
        "type": "application" if normalized(title) == "edgecore" else "library",
        "bom-ref": reference,
        "name": title,
        "version": version,
        "purl": reference,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }
    if licence := next(_licences(metadata), ""):
        component["licenses"] = [{"license": {"name": licence}}]
    return component, [normalized(need[1]) for line in metadata.get_all("Requires-Dist", []) if (need := _need(line))]


def _need(line: str) -> re.Match[str] | None:
    return None if re.search(r"\bextra\s*==", line) else _REQUIRED.match(line)


def _licences(metadata: Any) -> Iterator[str]:
    """Yield the licence by expression, by classifier, and by text, each only if it is one line."""
    prefix = "License :: OSI Approved :: "
    classifiers = [each.removeprefix(prefix) for each in metadata.get_all("Classifier", []) if each.startswith(prefix)]
    for text in (metadata["License-Expression"], *classifiers, metadata["License"]):
        if text and "\n" not in text and len(text) <= _LONGEST_LICENCE:
            yield str(text)
