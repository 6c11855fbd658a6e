"""The list of what a release consists of: what CycloneDX 1.5 demands of it, and what the wheels say."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.sbom import normalized, sbom_of

_HEADS = {
    "edgecore": "License: Apache-2.0\nRequires-Dist: some_lib>=1\nRequires-Dist: Other.Lib\n"
    'Requires-Dist: extra-lib; extra == "dev"\n',
    "Some-Lib": "Classifier: License :: OSI Approved :: MIT License\nRequires-Dist: other-lib (>=2)\n",
    "other.lib": "License: A text\n of several\n lines\n",
    "extra_lib": "License-Expression: BSD-3-Clause\n",
}


def wheels_in(directory: Path) -> list[Path]:
    """Make wheels that have nothing but metadata."""
    made = []
    for name, head in _HEADS.items():
        stem = f"{name.replace('-', '_')}-1.0+g1"
        wheel = directory / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as packed:
            packed.writestr(
                f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0+g1\n{head}\n"
            )
        made.append(wheel)
    return made


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """Return the list of the wheels."""
    found: dict[str, Any] = json.loads(sbom_of(wheels_in(tmp_path), "1.0+g1", 1_790_000_000))
    return found


def test_what_the_form_demands(document: dict[str, Any]) -> None:
    """bomFormat, specVersion, serialNumber and version; each reference once, and none into nothing."""
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", document["serialNumber"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["metadata"]["timestamp"])
    components = [document["metadata"]["component"], *document["components"]]
    references = [each["bom-ref"] for each in components]
    assert len(set(references)) == len(references) == len(_HEADS)
    assert [each["ref"] for each in document["dependencies"]] == sorted(references)
    assert {need for each in document["dependencies"] for need in each["dependsOn"]} <= set(references)
    for each in components:
        assert {"type", "name"} <= set(each)
        assert re.fullmatch(r"pkg:pypi/[a-z0-9-]+@1\.0%2Bg1", each["purl"])
        assert re.fullmatch(r"[0-9a-f]{64}", each["hashes"][0]["content"])


def test_what_the_wheels_say(document: dict[str, Any]) -> None:
    """Names are compared as pip does; a dependency of an extra is none; a licence is one line, or is left out."""
    needs = {each["ref"].split("/")[1].split("@")[0]: each["dependsOn"] for each in document["dependencies"]}
    assert needs["edgecore"] == ["pkg:pypi/other-lib@1.0%2Bg1", "pkg:pypi/some-lib@1.0%2Bg1"]
    assert needs["some-lib"] == ["pkg:pypi/other-lib@1.0%2Bg1"]
    licences = {normalized(each["name"]): each.get("licenses") for each in document["components"]}
    assert licences == {
        "some-lib": [{"license": {"name": "MIT License"}}],
        "other-lib": None,
        "extra-lib": [{"license": {"name": "BSD-3-Clause"}}],
    }
    assert document["metadata"]["component"]["type"] == "application"


def test_the_same_wheels_give_the_same_bytes(tmp_path: Path) -> None:
    """In any order."""
    wheels = wheels_in(tmp_path)
    assert sbom_of(wheels, "1.0", 0) == sbom_of(wheels[::-1], "1.0", 0)
    assert sbom_of(wheels, "1.0", 0) != sbom_of(wheels[:-1], "1.0", 0)
