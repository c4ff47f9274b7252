"""Every file of deploy/ by the tool that would read it, and by what the program itself says."""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from fixtures.deploy_tools import DEPLOY, REPOSITORY, dashboard_check, deploy_check, ensure, promtool, run

from flowdiff.settings.effective import effective
from flowdiff.settings.keys import duration_of
from schemas.errors import HaltedError

SYSTEMD = DEPLOY / "systemd" / "flowdiff-ingest.service"
KUBERNETES = ("flowdiff.yaml", "disk.yaml")
ALERTS = DEPLOY / "prometheus" / "alerts.yml"


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    ensure()


def documents(name: str) -> dict[str, dict[str, Any]]:
    """Of a manifest, by kind."""
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


# -- container, compose ----


def test_the_containerfile_builds_a_locked_image_without_root() -> None:
    done = deploy_check("containerfile", DEPLOY / "Containerfile")
    assert done.returncode == 0, done.stderr
    build, image = json.loads(done.stdout)["Stages"]
    installs = [line for line in build["Instructions"] if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]
    assert image["Instructions"].index("USER 10001:10001") < image["Instructions"].index(
        'ENTRYPOINT ["flowdiff"]'
    )
    assert not [line for line in image["Instructions"] if line.startswith("ADD") or "pip" in line]


def test_the_containerfile_copies_what_is_there_and_all_of_it() -> None:
    copies = re.findall(r"^COPY (?!--)(.+) \S+$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    sources = {source for line in copies for source in line.split()}
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {package.rstrip("*") for package in packages} <= sources
    kept = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    assert {f"!{source}" for source in sources} <= {*kept}


def test_a_containerfile_with_a_mistake_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "Containerfile"
    wrong.write_text((DEPLOY / "Containerfile").read_text().replace("EXPOSE 9464", "EXPOSED 9464"))
    assert "EXPOSED" in deploy_check("containerfile", wrong).stderr


def test_compose_is_whole_and_listens_on_loopback_only() -> None:
    done = deploy_check("compose", DEPLOY / "compose.yaml")
    assert done.returncode == 0, done.stderr
    project = json.loads(done.stdout)
    services = project["services"]
    assert {*services} == {"kafka", "topic", "collector", "flowdiff", "prometheus", "grafana"}
    for service in services.values():
        for port in service.get("ports", []):
            assert ipaddress.ip_address(port["host_ip"]).is_loopback
        for volume in service.get("volumes", []):
            if volume["type"] == "bind":
                assert Path(volume["source"]).exists(), volume
                assert volume["read_only"]
    flowdiff = services["flowdiff"]
    assert Path(flowdiff["build"]["context"]).resolve() == REPOSITORY
    assert (REPOSITORY / flowdiff["build"]["dockerfile"]).exists()
    settings = effective({}, {}, DEPLOY / "flowdiff.toml").config
    assert duration_of(flowdiff["stop_grace_period"]) > settings.stop_budget_ns
    assert settings.kafka.topics[0] in " ".join(services["topic"]["command"])
    assert settings.lake.startswith(
        next(v["target"] for v in flowdiff["volumes"] if v["type"] == "volume") + "/"
    )


def test_a_compose_file_with_a_mistake_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("depends_on:", "depend_on:", 1))
    assert "depend_on" in deploy_check("compose", wrong).stderr


def test_the_collector_sends_what_flowdiff_reads_keyed_by_trace() -> None:
    config = yaml.safe_load((DEPLOY / "collector.yaml").read_text())
    durable = yaml.safe_load((DEPLOY / "collector-durable.yaml").read_text())
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert {*pipeline[kind]} <= {*config[kind]}
    assert {*durable["service"]["extensions"]} <= {*durable["extensions"]}
    assert {*durable["exporters"]} <= {*config["exporters"]}
    exporter = config["exporters"]["kafka"]
    kafka = effective({}, {}, DEPLOY / "flowdiff.toml").config.kafka
    assert exporter["partition_traces_by_id"] is True
    assert exporter["traces"]["topic"] in kafka.topics
    assert exporter["traces"]["encoding"].replace("_", "-") == kafka.format_of_topic(kafka.topics[0])
    assert exporter["retry_on_failure"] == {"enabled": True, "max_elapsed_time": "0s"}


# -- Kubernetes, systemd ----


@pytest.mark.parametrize("name", KUBERNETES)
def test_kubernetes_takes_the_manifests(name: str) -> None:
    version = kubernetes_validate.latest_version()
    for document in documents(name).values():
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", KUBERNETES)
def test_pods_are_stopped_probed_and_confined_as_the_program_wants(name: str, tmp_path: Path) -> None:
    found = documents(name)
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    file = tmp_path / "flowdiff.toml"
    file.write_text(found["ConfigMap"]["data"]["flowdiff.toml"])
    environ = {each["name"]: each.get("value", "pod-0") for each in container["env"]}
    assert environ.pop("FLOWDIFF_CONFIG") == "/etc/flowdiff/flowdiff.toml"
    config = effective({}, {**environ, "FLOWDIFF_KAFKA_SECURITY_PASSWORD": "x"}, file).config
    assert pod["terminationGracePeriodSeconds"] * 10**9 > config.stop_budget_ns
    port = int(config.serve.address.rpartition(":")[2])
    assert [each["containerPort"] for each in container["ports"]] == [port]
    probes = {
        kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")
    }
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["enableServiceLinks"] is False
    assert config.kafka.static_member_id == "pod-0"
    assert config.stay_halted  # else it would be started again and again
    mounts = {each["name"] for each in container["volumeMounts"]}
    claims = {
        each["metadata"]["name"] for each in found["StatefulSet"]["spec"].get("volumeClaimTemplates", [])
    }
    assert mounts == {each["name"] for each in pod["volumes"]} | claims
    labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    # Pods share a lake only where all of them can write it.
    is_shared = found["StatefulSet"]["spec"]["replicas"] > 1
    assert is_shared == config.lake.startswith("s3://") == (not claims)


def test_the_service_monitor_finds_the_service_under_the_name_that_alerts_use() -> None:
    monitor = documents("servicemonitor.yaml")["ServiceMonitor"]["spec"]
    service = documents("flowdiff.yaml")["Service"]
    labels = service["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert f'job="{labels[monitor["jobLabel"]]}"' in ALERTS.read_text()


def unit_in(root: Path, text: str) -> Path:
    """A root with the unit and the program that it starts."""
    program = root / "opt" / "flowdiff" / "bin" / "flowdiff"
    unit = root / "etc" / "systemd" / "system" / SYSTEMD.name
    for file in (program, unit):
        file.parent.mkdir(parents=True)
    shutil.copy("/bin/true", program)
    unit.write_text(text)
    return unit


def verify(root: Path, unit: Path) -> str:
    """What systemd has against a unit."""
    done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", f"--root={root}", unit)
    return done.stdout + done.stderr + (f"exit code {done.returncode}" if done.returncode else "")


def test_systemd_takes_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    unit = unit_in(tmp_path, SYSTEMD.read_text())
    assert verify(tmp_path, unit) == ""
    options = ("--offline=yes", f"--root={tmp_path}", "--threshold=20", "--no-pager")
    security = run("systemd-analyze", "security", *options, unit.name)
    assert security.returncode == 0, security.stdout[-300:]


def test_a_unit_with_a_mistake_is_refused(tmp_path: Path) -> None:
    unit = unit_in(tmp_path, SYSTEMD.read_text().replace("ProtectSystem", "ProtectSystm"))
    assert "ProtectSystm" in verify(tmp_path, unit)


def test_systemd_does_not_start_what_waits_for_a_person() -> None:
    told = dict(line.split("=", 1) for line in SYSTEMD.read_text().splitlines() if "=" in line)
    assert told["Restart"] == "on-failure"
    assert int(told["RestartPreventExitStatus"]) == HaltedError.exit_code


def test_the_unit_waits_longer_than_the_stop_budget() -> None:
    stop = re.search(r"^TimeoutStopSec=(\S+)$", SYSTEMD.read_text(), re.MULTILINE)
    assert stop is not None
    settings = effective({"lake": "x", "kafka.topics": "t"}, {}).config
    assert duration_of(stop[1]) > settings.stop_budget_ns


# -- Prometheus, Grafana, runbook ----


def test_prometheus_takes_its_configuration_and_the_alerts_do_what_they_say() -> None:
    for words in (
        ("check", "config", DEPLOY / "prometheus" / "prometheus.yml"),
        ("check", "rules", "--lint-fatal", ALERTS),
        ("test", "rules", DEPLOY / "prometheus" / "alerts_test.yml"),
    ):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_every_alert_is_tested_both_ways() -> None:
    names = [
        each["name"]
        for each in yaml.safe_load((DEPLOY / "prometheus" / "alerts_test.yml").read_text())["tests"]
    ]
    assert sorted(names) == sorted(f"{name} {what}" for name in alerts() for what in ("fires", "is quiet"))


def test_the_runbook_has_a_section_for_every_alert() -> None:
    text = (REPOSITORY / "docs" / "runbook.md").read_text()
    sections = dict(re.findall(r"^## (Flowdiff\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert [*sections] == [*alerts()]
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"
        assert "**Means.**" in sections[name]
        assert "**Do.**" in sections[name]


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    text = (DEPLOY / "grafana" / "dashboard.json").read_text()
    done = dashboard_check(text)
    assert done.returncode == 0, done.stdout
    assert "graphTooltips" in dashboard_check(text.replace('"graphTooltip"', '"graphTooltips"')).stdout


def test_panels_lie_side_by_side() -> None:
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len({*cells})
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_grafana_finds_the_data_source_and_the_dashboard() -> None:
    folder = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards" / "flowdiff.yaml").read_text())["providers"]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    targets = [volume.split(":")[1] for volume in compose["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/dashboard.json" in targets
    assert source["type"] == "prometheus"
    assert source["url"].removeprefix("http://").partition(":")[0] in compose
