"""Every file of deploy/ by the tool that would read it, and by what the program itself says."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyarrow as pa
import pyiceberg.catalog
import pytest
import yaml
from fixtures.deploy_tools import (
    DEPLOY,
    REPOSITORY,
    dashboard_faults,
    deploy_check,
    ensure,
    kustomize,
    promtool,
    run,
)
from oracles.lake_script import flows_table, structures_table
from oracles.stored_lake import write_lake
from oracles.traffic import write_otlp

from flowdiff.__main__ import main
from flowdiff.samples import asked_samples, find_samples
from flowdiff.settings.effective import effective
from flowdiff.settings.keys import duration_of
from schemas.errors import TRY_AGAIN, HaltedError
from schemas.lake import PARAMS_SCHEMA
from schemas.sizes import parse_size
from schemas.windows import NS_PER_DAY, NS_PER_MINUTE

SYSTEMD = DEPLOY / "systemd" / "flowdiff-ingest.service"
KUBERNETES = ("flowdiff.yaml", "kustomization.yaml")
ALERTS = DEPLOY / "prometheus" / "alerts.yml"


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    ensure()


def documents(name: str) -> dict[str, dict[str, Any]]:
    """Of a manifest, or of what a kustomization makes of one, by kind."""
    text = (DEPLOY / "kubernetes" / name).read_text()
    if name == "kustomization.yaml":
        made = kustomize(DEPLOY / "kubernetes")
        assert made.returncode == 0, made.stderr
        text = made.stdout
    found = list(yaml.safe_load_all(text))
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
    assert {*services} == {"kafka", "topic", "collector", "flowdiff", "watch", "prometheus", "grafana"}
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
    (published,) = services["watch"]["ports"]
    assert settings.serve.watch_address.endswith(f":{published['target']}")
    assert services["watch"]["command"] == ["watch", settings.lake]
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert {*services} >= {job["dns_sd_configs"][0]["names"][0] for job in jobs}
    assert settings.lake.startswith(
        next(v["target"] for v in flowdiff["volumes"] if v["type"] == "volume") + "/"
    )


def test_compose_without_a_broker_receives_on_loopback_only() -> None:
    done = deploy_check("compose", DEPLOY / "compose-otlp.yaml")
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    for service in services.values():
        for port in service.get("ports", []):
            assert ipaddress.ip_address(port["host_ip"]).is_loopback
    receive = services["receive"]
    assert Path(receive["build"]["context"]).resolve() == REPOSITORY
    settings = effective({}, receive["environment"]).config
    assert duration_of(receive["stop_grace_period"]) > settings.stop_budget_ns
    addresses = (settings.otlp, settings.otlp_grpc, settings.serve.address)
    inside = {int(address.rpartition(":")[2]) for address in addresses}
    assert {port["target"] for port in receive["ports"]} == inside
    assert services["watch"]["command"] == ["watch", settings.lake]
    serve = services["serve"]
    assert serve["command"][:2] == ["serve", settings.lake]
    options = dict(pairwise(serve["command"]))
    (page,) = serve["ports"]
    assert options["--listen"].endswith(f":{page['target']}")
    assert {*options} >= {"--anyone", "--host"}  # a name that browsers of this machine use is let in
    assert settings.lake.startswith(receive["volumes"][0]["target"] + "/")


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
    # `flowdiff compare` in the pod copies files of the lake to a folder that can be written.
    cache = environ.pop("FLOWDIFF_CACHE", None)
    assert (cache is None) == ("volumeClaimTemplates" in found["StatefulSet"]["spec"])
    if cache is not None:
        assert Path(cache).parent in {Path(each["mountPath"]) for each in container["volumeMounts"]}
        held = next(each for each in pod["volumes"] if each["name"] == "tmp")["emptyDir"]["sizeLimit"]
        assert (parse_size(environ.pop("FLOWDIFF_CACHE_SIZE")) or 0) < (parse_size(f"{held}B") or 0)
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


def unit_in(root: Path, text: str, name: str = SYSTEMD.name) -> Path:
    """A root with the unit and the program that it starts."""
    program = root / "opt" / "flowdiff" / "bin" / "flowdiff"
    unit = root / "etc" / "systemd" / "system" / name
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


def test_the_receiver_is_a_unit_as_confined_as_ingestion(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "flowdiff-receive.service").read_text()
    unit = unit_in(tmp_path, text, "flowdiff-receive.service")
    assert verify(tmp_path, unit) == ""
    told, other = (
        [line for line in each.splitlines() if "=" in line and not line.startswith(("#", "Env", "Desc"))]
        for each in (text, SYSTEMD.read_text())
    )
    assert told == other
    given = [line.removeprefix("Environment=").split("=", 1) for line in text.splitlines() if "=" in line]
    environ = {name: value for name, value in given if name.startswith("FLOWDIFF_")}
    settings = effective({}, environ).config
    assert settings.receiver.token_file is not None
    assert settings.receiver.certificate_file is not None


def test_a_unit_with_a_mistake_is_refused(tmp_path: Path) -> None:
    unit = unit_in(tmp_path, SYSTEMD.read_text().replace("ProtectSystem", "ProtectSystm"))
    assert "ProtectSystm" in verify(tmp_path, unit)


def test_the_watch_is_a_unit_and_a_deployment_beside_ingestion(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "flowdiff-watch.service").read_text()
    unit = unit_in(tmp_path, text, "flowdiff-watch.service")
    assert verify(tmp_path, unit) == ""
    assert "ExecStart=/opt/flowdiff/bin/flowdiff watch\n" in text
    confined = [line for line in SYSTEMD.read_text().splitlines() if line.startswith(("Protect", "Restrict"))]
    assert [line for line in text.splitlines() if line.startswith(("Protect", "Restrict"))] == [
        line for line in confined if not line.startswith("RestartPrevent")
    ]
    found, beside = documents("watch.yaml"), documents("flowdiff.yaml")
    for document in found.values():
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    spec = found["Deployment"]["spec"]["template"]["spec"]
    ((one,), pod) = (spec["containers"], beside["StatefulSet"]["spec"]["template"]["spec"])
    (other,) = pod["containers"]
    for field in ("image", "securityContext", "envFrom", "startupProbe", "livenessProbe", "readinessProbe"):
        assert one[field] == other[field]
    file = tmp_path / "flowdiff.toml"
    file.write_text(beside["ConfigMap"]["data"]["flowdiff.toml"])
    environ = {each["name"]: each["value"] for each in one["env"]}
    config = effective({}, {"FLOWDIFF_SERVE_WATCH_ADDRESS": environ["FLOWDIFF_SERVE_WATCH_ADDRESS"]}, file)
    assert one["args"] == ["watch", config.config.lake]
    port = int(config.config.serve.watch_address.rpartition(":")[2])
    assert [each["containerPort"] for each in one["ports"]] == [port]
    (served,) = found["Service"]["spec"]["ports"]
    assert served["port"] == port
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    # Its metrics are scraped as a job of its own; pods of ingestion are not chosen by it.
    job = found["Service"]["metadata"]["labels"]["app.kubernetes.io/name"]
    assert f"job_name: {job}" in (DEPLOY / "prometheus" / "prometheus.yml").read_text()


def test_the_receiver_is_a_pod_with_a_disk_as_confined_as_ingestion(tmp_path: Path) -> None:
    found, beside = documents("receive.yaml"), documents("flowdiff.yaml")
    for document in found.values():
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    whole = found["StatefulSet"]["spec"]
    pod, other = whole["template"]["spec"], beside["StatefulSet"]["spec"]["template"]["spec"]
    ((one,), (container,)) = (pod["containers"], other["containers"])
    for field in ("image", "args", "securityContext", "startupProbe", "livenessProbe", "readinessProbe"):
        assert one[field] == container[field]
    for field in ("securityContext", "terminationGracePeriodSeconds", "enableServiceLinks"):
        assert pod[field] == other[field]
    file = tmp_path / "flowdiff.toml"
    file.write_text(found["ConfigMap"]["data"]["flowdiff.toml"])
    config = effective({}, {}, file).config
    assert config.stay_halted
    ports = {each["name"]: each["containerPort"] for each in one["ports"]}
    addresses = {"otlp-http": config.otlp, "otlp-grpc": config.otlp_grpc, "metrics": config.serve.address}
    assert ports == {name: int(address.rpartition(":")[2]) for name, address in addresses.items()}
    assert {each["targetPort"]: each["port"] for each in found["Service"]["spec"]["ports"]} == ports
    assert found["Service"]["spec"]["selector"].items() <= whole["template"]["metadata"]["labels"].items()
    mounts = {each["name"]: Path(each["mountPath"]) for each in one["volumeMounts"]}
    claims = {each["metadata"]["name"] for each in whole["volumeClaimTemplates"]}
    assert mounts.keys() == {each["name"] for each in pod["volumes"]} | claims
    # The spool is in the lake, which outlives the pod; tokens and certificate are mounted.
    assert mounts["lake"] in Path(config.lake).parents
    assert not config.receiver.spool
    for secret in ("token_file", "certificate_file", "key_file"):
        assert getattr(config.receiver, secret).parent in mounts.values()


def test_systemd_does_not_start_what_waits_for_a_person() -> None:
    told = dict(line.split("=", 1) for line in SYSTEMD.read_text().splitlines() if "=" in line)
    assert told["Restart"] == "on-failure"
    assert int(told["RestartPreventExitStatus"]) == HaltedError.exit_code


def test_the_unit_waits_longer_than_the_stop_budget() -> None:
    stop = re.search(r"^TimeoutStopSec=(\S+)$", SYSTEMD.read_text(), re.MULTILINE)
    assert stop is not None
    settings = effective({"lake": "x", "kafka.topics": "t"}, {}).config
    assert duration_of(stop[1]) > settings.stop_budget_ns


# -- Schedules ----

SCHEDULED = ("compare", "publish", "repair", "retain", "summarize")


def systemd_words(command: str) -> list[str]:
    """What the template unit runs, without the program, as systemd splits a variable."""
    return [command, *shlex.split(environment_of(command)["ARGUMENTS"])]


def environment_of(command: str) -> dict[str, str]:
    """Variables that the template unit runs with."""
    text = (DEPLOY / "systemd" / "schedules" / f"{command}.env").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def cron_lines() -> dict[str, tuple[str, list[str]]]:
    """Command -> time and words of the crontab, also of what waits to be wanted."""
    found = {}
    for line in (DEPLOY / "cron" / "flowdiff.crontab").read_text().splitlines():
        if line and not line.startswith("# ") and "=" not in line.split()[0]:
            *time, words = line.removeprefix("#").split(maxsplit=5)
            program, *rest = shlex.split(words)
            assert program == "flowdiff"
            found[rest[0]] = (" ".join(time), rest)
    return found


def cron_jobs() -> dict[str, dict[str, Any]]:
    """Command -> CronJob."""
    items = yaml.safe_load((DEPLOY / "kubernetes" / "schedules.yaml").read_text())["items"]
    return {job["metadata"]["name"].removeprefix("flowdiff-"): job for job in items}


@pytest.fixture
def recent_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with requests of yesterday, of the same weekday of the two weeks before, and of this hour; made
    for each test, and not just before midnight, as the commands ask for yesterday.
    """
    left_s = (NS_PER_DAY - time.time_ns() % NS_PER_DAY) / 10**9
    if left_s < 60:
        time.sleep(left_s)
    now_ns = time.time_ns()
    today = now_ns - now_ns % NS_PER_DAY
    starts = [
        today - day * NS_PER_DAY + window * 5 * NS_PER_MINUTE
        for day in (1, 8, 15)
        for window in range(100, 112)
    ]
    starts.append(now_ns - 600 * 10**9)
    folder = tmp_path_factory.mktemp("scheduled") / "lake"
    write_lake(folder, flows_table([f"r{n}" for n in range(len(starts))], starts), structures_table())
    return folder


def exit_code_of(words: list[str]) -> int:
    """Run flowdiff here."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("iceberg_threads")
@pytest.mark.parametrize("command", SCHEDULED)
def test_what_is_scheduled_runs_and_is_the_same_everywhere(
    command: str, recent_lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = systemd_words(command)
    pod = cron_jobs()[command]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert cron_lines()[command][1] == words
    assert container["args"][: len(words)] == words
    monkeypatch.setenv("FLOWDIFF_LAKE", str(recent_lake))
    for name, value in environment_of(command).items():
        monkeypatch.setenv(name, value.replace("/var/lib/flowdiff", str(recent_lake.parent)))
    (recent_lake.parent / "warehouse").mkdir(exist_ok=True)
    # pyiceberg reads the environment once, where it is first imported: a test before this one may have.
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", pyiceberg.catalog.Config())
    assert exit_code_of(words) in (0, 1, 3)
    assert exit_code_of(container["args"]) == 0
    if command == "publish":
        assert "flowdiff.flows: 37 rows; 37 files added" in capsys.readouterr().out
    if command == "compare":
        told = " ".join(capsys.readouterr().out.split())
        assert told.count("12 requests") == 4


def test_history_of_the_morning_comparison_are_the_weeks_that_are_there(recent_lake: Path) -> None:
    asked = asked_samples(["same-weekday"], ["yesterday"], [])
    found = find_samples(asked, [], now_ns=time.time_ns(), lake=str(recent_lake))
    (_, (reference,)), (_, (problem,)) = found.compared
    assert problem.period.start_ns - reference.period.start_ns == 7 * NS_PER_DAY
    past = [part.period for _, parts in found.history for part in parts]
    assert len(past) == 12
    assert {(problem.period.start_ns - period.start_ns) // NS_PER_DAY for period in past} <= {13, 14}


def test_systemd_takes_the_timers_and_cron_and_kubernetes_have_their_times(tmp_path: Path) -> None:
    folder = DEPLOY / "systemd"
    template = folder / "flowdiff@.service"
    for command in SCHEDULED:
        root = tmp_path / command
        unit = unit_in(root, template.read_text(), f"flowdiff@{command}.service")
        timer = unit.parent / f"flowdiff-{command}.timer"
        shutil.copy(folder / timer.name, timer)
        assert verify(root, unit) == ""
        assert verify(root, timer) == ""
        told = dict(line.split("=", 1) for line in timer.read_text().splitlines() if "=" in line)
        assert told["Unit"] == unit.name
        assert run("systemd-analyze", "calendar", told["OnCalendar"]).returncode == 0
        hour, minute, _ = told["OnCalendar"].split()[1].split(":")
        times = (f"{int(minute)} {hour if hour == '*' else int(hour)} * * *", "UTC")
        spec = cron_jobs()[command]["spec"]
        assert times == (cron_lines()[command][0], told["OnCalendar"].split()[2])
        assert times == (spec["schedule"], spec["timeZone"].removeprefix("Etc/"))
    options = ("--offline=yes", f"--root={root}", "--threshold=20", "--no-pager")
    assert run("systemd-analyze", "security", *options, unit.name).returncode == 0


@pytest.mark.parametrize("successes", ["SuccessExitStatus=1 3", ""])
def test_a_scheduled_command_is_started_again_only_where_that_may_help(
    successes: str, tmp_path: Path
) -> None:
    """Also where OnFailure= tells a change, as the unit offers: it is there five minutes later, too."""
    text = (DEPLOY / "systemd" / "flowdiff@.service").read_text()
    unit = unit_in(tmp_path, text.replace("SuccessExitStatus=1 3", successes), "flowdiff@compare.service")
    assert verify(tmp_path, unit) == ""
    told = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
    # No signal, no timeout and no other code restarts it; systemd refuses such a list for a oneshot.
    assert (told["Type"], told["Restart"]) == ("exec", "no")
    assert int(told["RestartForceExitStatus"]) == TRY_AGAIN
    assert duration_of(told["RestartSec"].replace("min", "m")) < duration_of(told["RuntimeMaxSec"])


def test_only_what_needs_a_catalog_waits_to_be_wanted() -> None:
    lines = (DEPLOY / "cron" / "flowdiff.crontab").read_text().splitlines()
    in_cron = {command for command in SCHEDULED if any(f"#{cron_lines()[command][0]} " in x for x in lines)}
    in_kubernetes = {command for command, job in cron_jobs().items() if job["spec"].get("suspend")}
    assert in_cron == in_kubernetes == {"publish"}


def test_jobs_are_pods_of_the_deployment() -> None:
    found = documents("flowdiff.yaml")
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    version = kubernetes_validate.latest_version()
    assert sorted(cron_jobs()) == [*SCHEDULED]
    workers = documents("import-job.yaml")["Job"]
    for job in (*cron_jobs().values(), workers):
        kubernetes_validate.validate(job, version, strict=True)
        run_once = job if job is workers else job["spec"]["jobTemplate"]
        mine = run_once["spec"]["template"]["spec"]
        for field in ("serviceAccountName", "automountServiceAccountToken", "enableServiceLinks"):
            assert mine[field] == pod[field]
        assert mine["securityContext"] == pod["securityContext"]
        ((one,), (other,)) = (mine["containers"], pod["containers"])
        for field in ("image", "securityContext", "envFrom"):
            assert one[field] == other[field]
        assert {each["name"] for each in one["volumeMounts"]} == {each["name"] for each in mine["volumes"]}
        lake = next(each["value"] for each in one["env"] if each["name"] == "FLOWDIFF_LAKE")
        assert f'lake = "{lake}"' in found["ConfigMap"]["data"]["flowdiff.toml"]


def test_workers_of_the_import_job_meet_in_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first does what the others would, where they come late; they learn that it is done."""
    job = documents("import-job.yaml")["Job"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    fields = {each["name"]: each["valueFrom"]["fieldRef"] for each in container["env"] if "valueFrom" in each}
    assert "job-completion-index" in fields["WORKER"]["fieldPath"]
    assert "controller-uid" in fields["FLOWDIFF_JOB"]["fieldPath"]
    files = container["args"][1]
    assert files.startswith("s3://")
    (tmp_path / "traces").mkdir()
    write_otlp(tmp_path / "traces" / "a.pb", 20)
    monkeypatch.setenv("FLOWDIFF_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("FLOWDIFF_JOB", "5f0c2f0e-6a51-4b3e-9d0e-3f1f7a1c2b4d")
    given = [word.replace(files, str(tmp_path / "traces" / "*.pb")) for word in container["args"]]
    assert job["completions"] == job["parallelism"] == int(given[-1].partition("/")[2])
    for number in range(job["completions"]):
        assert exit_code_of([word.replace("$(WORKER)", str(number)) for word in given]) == 0
    assert list((tmp_path / "lake" / "flows").glob("*/*.parquet"))


# -- Gates ----


def gate_words() -> list[str]:
    """What the analysis of a rollout runs, two versions filled in."""
    template = yaml.safe_load((DEPLOY / "argo" / "analysis-template.yaml").read_text())
    (metric,) = template["spec"]["metrics"]
    job = metric["provider"]["job"]["spec"]
    whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job}
    kubernetes_validate.validate(whole, kubernetes_validate.latest_version(), strict=True)
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [1])
    words = job["template"]["spec"]["containers"][0]["args"]
    names = [arg["name"] for arg in template["spec"]["args"]]
    values = dict(zip(names, ("v1", "v2", "LAKE"), strict=True))
    return [re.sub(r"\{\{args\.([\w-]+)\}\}", lambda match: values[match[1]], word) for word in words]


@pytest.fixture(scope="module")
def versions_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions in this half hour."""
    folder = tmp_path_factory.mktemp("versions") / "lake"
    now_ns = time.time_ns()
    starts = [now_ns - minute * NS_PER_MINUTE for minute in range(12, 0, -1)]
    ids = [f"r{n:02}" for n in range(len(starts))]
    flows = flows_table(ids, starts)
    params = pa.table(
        {
            "request_id": ids,
            "kind": flows["kind"].to_pylist(),
            "position": [0] * len(ids),
            "key": ["service.version"] * len(ids),
            "num": [None] * len(ids),
            "text": ["v1", "v2"] * 6,
        }
    )
    write_lake(folder, flows, structures_table(), params=params.cast(PARAMS_SCHEMA))
    return folder


def test_the_action_tells_the_verdict_and_warns_where_nothing_can_be_told(
    versions_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLOWDIFF_LAKE", str(versions_lake))
    assert exit_code_of(gate_words()) == 3
    told = capsys.readouterr().out
    assert told.startswith("### ")
    assert "| reference |" in told
    action = yaml.safe_load((DEPLOY / "github" / "compare.yml").read_text())
    step = next(s for s in action["jobs"]["compare"]["steps"] if "run" in s)
    assert {*step["env"]} == {"BEFORE", "AFTER"}
    summary = tmp_path / "summary"
    environ = {
        "BEFORE": "v1",
        "AFTER": "v2",
        "GITHUB_STEP_SUMMARY": str(summary),
        "FLOWDIFF_LAKE": str(versions_lake),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "::warning::flowdiff cannot tell whether v2 differs from v1" in done.stdout
    assert summary.read_text().startswith("### ")


# -- Prometheus, Grafana, runbook ----


@pytest.mark.parametrize("name", ["compare", "release"])
def test_actions_use_others_by_their_commit(name: str) -> None:
    jobs = yaml.safe_load((DEPLOY / "github" / f"{name}.yml").read_text())["jobs"]
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


def test_a_release_is_built_with_and_without_the_native_reader_and_is_of_its_tag() -> None:
    jobs = yaml.safe_load((DEPLOY / "github" / "release.yml").read_text())["jobs"]
    assert {one["cargo"] for one in jobs["wheels"]["strategy"]["matrix"]["include"]} == {"yes", "no"}
    steps = "\n".join(step.get("run", "") for step in jobs["wheels"]["steps"])
    (check,) = re.findall(r"^grep .*$", steps, re.MULTILINE)
    version = re.search(r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    for tag, code in ((f"v{version[1]}", 0), ("v99.0.0", 1)):
        told = {"GITHUB_REF_NAME": tag, "PATH": os.environ["PATH"]}
        done = subprocess.run(["bash", "-c", check], cwd=REPOSITORY, env=told, check=False)
        assert done.returncode == code
    assert set(jobs["publish"]["needs"]) == {"wheels", "image"}


def test_wheels_of_one_platform_have_a_tag_that_pypi_takes(tmp_path: Path) -> None:
    steps = yaml.safe_load((DEPLOY / "github" / "release.yml").read_text())["jobs"]["wheels"]["steps"]
    (tagged,) = (step for step in steps if "wheel tags" in step.get("run", ""))
    assert tagged["if"] == "matrix.cargo == 'yes'"
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    told = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", tagged["run"]], cwd=tmp_path, env=told, capture_output=True, text=True, check=True
    )
    assert re.search(r"--platform-tag manylinux_2_\d+_(x86_64|aarch64) ", done.stdout)


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
    text = (REPOSITORY / "docs" / "internals" / "runbook.md").read_text()
    sections = dict(re.findall(r"^## (Flowdiff\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert [*sections] == [*alerts()]
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"docs/internals/runbook.md#{name.lower()}"
        assert "**Means.**" in sections[name]
        assert "**Do.**" in sections[name]


DASHBOARDS = ("dashboard.json", "lake/dashboard.json")


def test_grafana_knows_every_field_of_the_dashboards() -> None:
    """In one run: to read the types takes seconds."""
    texts = [(DEPLOY / "grafana" / name).read_text() for name in DASHBOARDS]
    wrong = [text.replace('"graphTooltip"', '"graphTooltips"') for text in texts]
    *faults, of_one, of_other = dashboard_faults([*texts, *wrong])
    assert faults == [[], []]
    assert "graphTooltips" in " ".join(of_one)
    assert "graphTooltips" in " ".join(of_other)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_lie_side_by_side(name: str) -> None:
    panels = json.loads((DEPLOY / "grafana" / name).read_text())["panels"]
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
