"""The Helm chart of cloudcore: rendered, it is what `deploy/` has, and the embedded API server takes it.

What is rendered here are the few forms that the chart uses; Helm itself is no package of Debian.
"""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from modules.apimachinery.kinds import KINDS
from tests.modules.processes.cloudcore.deployment import ONE, REPLICAS, manifests
from tests.modules.processes.cloudcore.stubs import Stub
from tests.packaging.chart import NAME, VALUES, chart, pack
from tests.support.control_client import Apply
from tests.support.patience import PATIENCE

_GIVEN: Final = {**VALUES, "image": "registry.example/cloudcore@sha256:00", "dnsName": "cloud.example"}
_RANGE: Final = re.compile(r"\n +\{\{- range \.Values\.(\w+) \}\}(.*?)\n +\{\{- end \}\}", re.DOTALL)
_ACTION: Final = re.compile(r"\{\{ (toJson )?\.(?:Values\.(\w+)|Release\.(Namespace)) \}\}")


def rendered(values: dict[str, Any], namespace: str = "kubeedge") -> list[dict[str, Any]]:
    """Return the objects of the chart with these values, as Helm renders its templates."""
    found = []
    for name, text in chart().items():
        if name.startswith("templates/"):
            condition, rest = text.split("\n", 1)
            compared = re.fullmatch(r"\{\{- if (eq|gt) \(int \.Values\.replicas\) 1 \}\}", condition)
            assert compared is not None, condition
            if (values["replicas"] > 1) is (compared[1] == "gt"):
                found += list(yaml.safe_load_all(_filled(rest.removesuffix("\n{{- end }}\n"), values, namespace)))
    return found


def _filled(text: str, values: dict[str, Any], namespace: str) -> str:
    def repeated(body: re.Match[str]) -> str:
        return "".join(body[2].replace("{{ toJson . }}", json.dumps(each)) for each in values[body[1]])

    def value(action: re.Match[str]) -> str:
        found = namespace if action[3] else values[action[2]]
        return json.dumps(found) if action[1] else str(found)

    text = _ACTION.sub(value, _RANGE.sub(repeated, text))
    assert "{{" not in text
    return text


def wanted(file: str) -> list[dict[str, Any]]:
    """Return the objects of a file of deploy as the chart has to have them."""
    found = [each for each in manifests(file) if each["kind"] != "Namespace"]
    (deployment,) = (each for each in found if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = _GIVEN["image"]
    container["args"].append("--lease-namespace=kubeedge")
    return found


@pytest.mark.parametrize(("file", "replicas"), [(ONE, 1), (REPLICAS, 3)])
def test_it_is_what_deploy_has(file: str, replicas: int) -> None:
    assert rendered({**_GIVEN, "replicas": replicas}) == wanted(file)


def test_its_values() -> None:
    """A namespace, a name and arguments of one's own."""
    arguments = ["--jobs", "--advertise-address=192.0.2.1"]
    found = rendered({**_GIVEN, "dnsName": "edge.example", "replicas": 5, "arguments": arguments}, "mine")
    (deployment,) = (each for each in found if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 5
    assert "--dns-name=edge.example" in container["args"]
    assert container["args"][-3:] == ["--lease-namespace=mine", *arguments]
    namespaces = {each["metadata"].get("namespace", "mine") for each in found}
    assert namespaces == {"mine", "kube-node-lease"}
    subjects = {subject["namespace"] for each in found for subject in each.get("subjects", ())}
    assert subjects == {"mine"}


def test_helm_is_told_which_values_are_wrong() -> None:
    """The chart's own have no image and no name: Helm refuses them by the schema."""
    files = chart()
    assert yaml.safe_load(files["values.yaml"]) == VALUES
    schema = json.loads(files["values.schema.json"])
    assert schema["properties"].keys() - {"global"} == VALUES.keys() == set(schema["required"])
    pattern = schema["properties"]["dnsName"]["pattern"]
    assert [name for name in ("", "a b", "a.b", "-a", "a\nb") if re.search(pattern, name)] == ["a.b"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_it_can_be_applied(replicas: int, tmp_path: Path) -> None:
    """Roles and Deployments are no kinds of the embedded API server."""
    kinds = {kind.name for kind in KINDS}
    known = [each for each in rendered({**_GIVEN, "replicas": replicas}) if each["kind"] in kinds]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeedge"}}
    with Stub(tmp_path) as stub:
        results = stub.client.run(Apply([namespace, *known]))
    assert [item.error for item in results] == [""] * (1 + len(known))


def test_the_archive_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = pack(tmp_path / "a"), pack(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        assert archive.getnames() == [f"{NAME}/{name}" for name in chart()]


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
def test_helm_accepts_it(tmp_path: Path) -> None:
    packed = str(pack(tmp_path))
    options = ["--set", "image=registry.example/cloudcore@sha256:00,dnsName=cloud.example", "--namespace", "kubeedge"]
    for words in (["lint", packed, *options], ["template", "cloudcore", packed, *options]):
        done = subprocess.run(["helm", *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert [each for each in yaml.safe_load_all(done.stdout) if each] == wanted(ONE)
