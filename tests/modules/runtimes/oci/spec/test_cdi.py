"""Devices by name: files of vendors, and what they change in a specification."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from modules.runtimes.engine.errors import BadRequestError, RequestRefusedError, WrongStateError
from modules.runtimes.oci.spec import Json, Machine, check_container
from modules.runtimes.oci.spec.cdi_changes import _yaml
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.spec.oci_runtime import Bench, shell
from tests.modules.runtimes.oci.spec.samples import IMAGE, UNIFIED, linux, mount_at, request, translated

_FILE: Json = {
    "cdiVersion": "0.6.0",
    "kind": "vendor.com/gpu",
    "annotations": {"what": "ever"},
    "containerEdits": {
        "env": ["VENDOR=1"],
        "mounts": [{"hostPath": "/etc", "containerPath": "/driver"}],
        "hooks": [{"hookName": "poststop", "path": "/usr/bin/common"}],
    },
    "devices": [
        {
            "name": "0",
            "containerEdits": {
                "env": ["GPU=0"],
                "deviceNodes": [
                    {"path": "/dev/gpu0", "hostPath": "/dev/null", "permissions": "rw"},
                    {"path": "/dev/gpu-ctl", "type": "c", "major": 195, "minor": 255, "fileMode": 432, "gid": 44},
                ],
                "hooks": [
                    {"hookName": "createContainer", "path": "/usr/bin/hook", "args": ["hook", "a"], "timeout": 5}
                ],
                "additionalGids": [44, 44, 0, -7],
            },
        },
        {"name": "1", "containerEdits": {"env": ["GPU=1"]}},
    ],
}


def _machine(tmp_path: Path, **files: Any) -> Machine:
    directories = (tmp_path / "etc-cdi", tmp_path / "run-cdi")
    for name, content in files.items():
        directory, _, rest = name.partition("_")
        path = tmp_path / f"{directory}-cdi" / rest.replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return replace(UNIFIED, cdi_directories=directories)


def _config(*names: str) -> cri.ContainerConfig:
    envs = [cri.KeyValue(key="GPU", value=b"mine")]
    return linux(CDI_devices=[cri.CDIDevice(name=name) for name in names], envs=envs)


def test_a_device_by_name(tmp_path: Path) -> None:
    """Variables, devices with their permissions, mounts, hooks and groups; what is common to a file once."""
    machine = _machine(tmp_path, etc_gpu_json=_FILE)
    config = _config("vendor.com/gpu=0", "vendor.com/gpu=1")
    check_container(request(config), IMAGE, machine)
    spec = translated(config, tmp_path, machine=machine).config
    assert [variable for variable in spec["process"]["env"] if variable[:3] in ("GPU", "VEN")] == ["GPU=1", "VENDOR=1"]
    assert spec["process"]["user"]["additionalGids"] == [0, 44]
    null, control = spec["linux"]["devices"]
    assert (null["path"], null["major"], null["minor"]) == ("/dev/gpu0", 1, 3)
    assert control == {
        "path": "/dev/gpu-ctl", "type": "c", "major": 195, "minor": 255, "fileMode": 432, "gid": 44,
    }  # fmt: skip
    assert [(rule["major"], rule["minor"], rule["access"]) for rule in spec["linux"]["resources"]["devices"][1:]] == [
        (1, 3, "rw"),
        (195, 255, "rwm"),
    ]
    assert mount_at(spec, "/driver")["options"] == ["rbind"]
    hook = {"path": "/usr/bin/hook", "args": ["hook", "a"], "env": [], "timeout": 5}
    common = {"path": "/usr/bin/common", "args": [], "env": []}
    assert spec["hooks"] == {"createContainer": [hook], "poststop": [common]}


def test_devices_that_annotations_name(tmp_path: Path) -> None:
    """As device plugins give them for older runtimes: beside CRI's, and each device once."""
    machine = _machine(tmp_path, etc_gpu_json=_FILE)
    config = _config("vendor.com/gpu=0")
    config.annotations["cdi.k8s.io/plugin_gpu"] = "vendor.com/gpu=0,vendor.com/gpu=1"
    config.annotations["example.com/cdi.k8s.io"] = "vendor.com/gpu=9"
    check_container(request(config), IMAGE, machine)
    spec = translated(config, tmp_path, machine=machine).config
    assert "GPU=1" in spec["process"]["env"]
    assert len(spec["hooks"]["createContainer"]) == 1
    config.annotations["cdi.k8s.io/another"] = "gpu0"
    with pytest.raises(BadRequestError, match="no name of a CDI device"):
        check_container(request(config), IMAGE, machine)


def test_a_specification_without_such_devices_is_as_it_is(tmp_path: Path) -> None:
    """No file is read for it."""
    assert "hooks" not in translated(linux(), tmp_path, machine=_machine(tmp_path, etc_gpu_json="{")).config


def test_yaml_and_precedence(tmp_path: Path) -> None:
    """The second directory counts before the first, and YAML is read as JSON is."""
    text = "cdiVersion: 0.6.0\nkind: vendor.com/gpu\ndevices:\n- name: '0'\n  containerEdits:\n    env: [GPU=run]\n"
    machine = _machine(tmp_path, etc_gpu_json=_FILE, run_gpu_yaml=text)
    env = translated(_config("vendor.com/gpu=0"), tmp_path, machine=machine).config["process"]["env"]
    assert "GPU=run" in env
    assert "VENDOR=1" not in env


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("gpu0", BadRequestError, "no name of a CDI device"),
        ("vendor.com/gpu=../x", BadRequestError, "no name of a CDI device"),
        ("vendor.com/gpu=9", WrongStateError, "unresolvable CDI device vendor.com/gpu=9"),
        ("other.com/gpu=0", WrongStateError, "unresolvable CDI device"),
    ],
)
def test_names_that_nothing_has(tmp_path: Path, name: str, kind: type[RequestRefusedError], told: str) -> None:
    """Refused when the container is made."""
    with pytest.raises(kind, match=told):
        check_container(request(_config(name)), IMAGE, _machine(tmp_path, etc_gpu_json=_FILE))


def test_two_files_with_one_device(tmp_path: Path) -> None:
    """In one directory nothing says which counts."""
    machine = _machine(tmp_path, etc_a_json=_FILE, etc_b_json=_FILE)
    with pytest.raises(WrongStateError, match="two files of one directory"):
        check_container(request(_config("vendor.com/gpu=0")), IMAGE, machine)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"kind": 5}',
        "[" * 100_000,
        " " * 300_000,
        '{"kind": "a", "devices": [{"name": "0", "containerEdits": []}]}',
    ],
)
def test_a_wrong_file_is_reported_with_the_missing_device(tmp_path: Path, content: str) -> None:
    """Other files are read all the same."""
    machine = _machine(tmp_path, etc_bad_json=content, etc_gpu_json=_FILE)
    check_container(request(_config("vendor.com/gpu=0")), IMAGE, machine)
    with pytest.raises(WrongStateError, match=r"bad\.json is wrong"):
        check_container(request(_config("vendor.com/gpu=9")), IMAGE, machine)


@pytest.mark.parametrize("text", ["a: &x [1]\nb: *x\n", "[" * 33 + "]" * 33, "a: [", "\x00", "!!python/object:x {}"])
def test_yaml_that_is_too_much(tmp_path: Path, text: str) -> None:
    """Too many aliases, too deep nesting, and invalid YAML."""
    with pytest.raises(WrongStateError, match=r"bad\.yaml is wrong"):
        check_container(request(_config("vendor.com/gpu=9")), IMAGE, _machine(tmp_path, etc_bad_yaml=text))


def test_yaml_is_read_as_deep_as_it_may_be() -> None:
    assert str(_yaml("[" * 32 + "]" * 32)) == "[" * 32 + "]" * 32


@pytest.mark.parametrize(
    "edits",
    [
        {"env": ["novalue"]},
        {"env": ["=x"]},
        {"deviceNodes": [{"path": "relative"}]},
        {"deviceNodes": [{"path": "/no/such/device"}]},
        {"deviceNodes": [{"path": "/dev/null", "type": "x"}]},
        {"deviceNodes": [{"path": "/dev/null", "permissions": "z"}]},
        {"mounts": [{"hostPath": "../x", "containerPath": "/x"}]},
        {"mounts": [{"hostPath": "/x", "containerPath": "/../x"}]},
        {"hooks": [{"hookName": "whenever", "path": "/x"}]},
        {"hooks": [{"hookName": "poststop", "path": "x"}]},
    ],
)
def test_wrong_changes(tmp_path: Path, edits: Json) -> None:
    """Refused when the container is made, as a fault of the file."""
    file = {"kind": "v.com/c", "devices": [{"name": "0", "containerEdits": edits}]}
    with pytest.raises(WrongStateError, match="a CDI file is wrong"):
        check_container(request(_config("v.com/c=0")), IMAGE, _machine(tmp_path, etc_c_json=file))


_KEYS = ("kind", "devices", "name", "containerEdits", "env", "deviceNodes", "path", "mounts", "hooks")
_VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=15,
)


@given(content=st.text(max_size=60) | _VALUES.map(json.dumps), ending=st.sampled_from(("json", "yaml")))
def test_any_file(tmp_path_factory: pytest.TempPathFactory, content: str, ending: str) -> None:
    """A device or a refusal, nothing else."""
    top = tmp_path_factory.getbasetemp()
    for old in (top / "etc-cdi").glob("any.*"):
        old.unlink()
    machine = _machine(top, **{f"etc_any_{ending}": content.encode(errors="replace").decode()})
    with pytest.raises(WrongStateError):
        check_container(request(_config("vendor.com/gpu=0")), IMAGE, machine)


def test_a_real_container_with_such_a_device(bench: Bench, tmp_path: Path) -> None:
    """The device can be read, the variable is there, the mount too, and the hook has run."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/library").touch()
    hook = {"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", f"touch {tmp_path}/hook-ran"]}
    node = {"path": "/dev/accelerator", "hostPath": "/dev/zero"}
    mount = {"hostPath": str(tmp_path / "driver"), "containerPath": "/driver", "options": ["ro", "nosuid", "bind"]}
    edits = {"env": ["GPU=here"], "deviceNodes": [node], "mounts": [mount], "hooks": [hook]}
    file = {"cdiVersion": "0.6.0", "kind": "v.com/c", "devices": [{"name": "0", "containerEdits": edits}]}
    _machine(tmp_path, etc_c_json=file)
    bench.machine = replace(bench.machine, cdi_directories=(tmp_path / "etc-cdi",))
    commands = ("echo $GPU", "ls /driver", "dd if=/dev/accelerator bs=3 count=1 2>&1 | cat -v", "touch /driver/f")
    config = linux(command=shell(*commands), CDI_devices=[cri.CDIDevice(name="v.com/c=0")])
    done = bench.run(bench.spec(config))
    assert done.stdout.split()[:2] == ["here", "library"], done.stderr
    assert "^@^@^@" in done.stdout
    assert "Read-only file system" in done.stderr
    assert (tmp_path / "hook-ran").exists()
