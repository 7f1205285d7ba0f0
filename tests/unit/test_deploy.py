"""The files of docs/deploy: a systemd unit, a compose file, Kubernetes manifests. They name what there is."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.settings import PREFIX, all_settings
from tests.support.repository import ROOT

DEPLOY = ROOT / "docs" / "deploy"
FILES = ("memoryd.service", "compose.yaml", "kubernetes.yaml")
UNIT = DEPLOY / "memoryd.service"


def shutdown_seconds() -> float:
    """What a daemon takes at most to stop, unless the settings say otherwise."""
    return float(all_settings().model_fields["shutdown_seconds"].default)


@pytest.mark.parametrize("name", FILES)
def test_each_setting_exists_and_each_file_is_in_the_documents(name: str) -> None:
    text = (DEPLOY / name).read_text("utf-8")
    named = set(re.findall(rf"{PREFIX}(\w+)", text))
    assert named
    assert {one.lower() for one in named} <= all_settings().model_fields.keys()
    assert f"deploy/{name}" in (ROOT / "docs/operations.md").read_text("utf-8")


def test_the_image_and_the_probes_are_those_of_the_daemon() -> None:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    daemon = compose["services"]["memoryd"]
    assert (DEPLOY / daemon["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert daemon["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert float(daemon["stop_grace_period"].removesuffix("s")) > shutdown_seconds()

    (deployment,) = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > shutdown_seconds()
    (container,) = pod["containers"]
    port = container["ports"][0]["containerPort"]
    assert {"name": "MEMORYD_HTTP", "value": f"0.0.0.0:{port}"} in container["env"]
    pages = (ROOT / "docs/operations.md").read_text("utf-8")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert f"`{container[probe]['httpGet']['path']}`" in pages
    # The user of the image.
    user = re.search(r"--uid (\d+)", (ROOT / "Dockerfile").read_text("utf-8"))
    assert user is not None
    assert pod["securityContext"]["runAsUser"] == int(user[1])


def test_the_unit_stops_in_time_and_leaves_little_open(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read(UNIT, "utf-8")
    assert float(unit["Service"]["TimeoutStopSec"]) > shutdown_seconds()
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed: its unit is not judged")
    # The program of the unit is not installed here.
    text = UNIT.read_text("utf-8").replace("/opt/memoryd/bin/memoryd", "/bin/true")
    (tmp_path / "memoryd.service").write_text(text)
    for arguments in (["verify"], ["security", "--offline=true", "--threshold=20"]):
        done = subprocess.run(
            [program, *arguments, str(tmp_path / "memoryd.service")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-500:] + done.stderr
