"""The Helm chart: rendered by helm, checked by Kubernetes' schemas, and its words by the program itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from fixtures.deploy_tools import DEPLOY, ensure, helm
from oracles import fork_server

from flowdiff.settings.effective import effective
from flowdiff.settings.keys import duration_of

CHART = DEPLOY / "helm" / "flowdiff"
TOKENS = (
    "--set",
    "receiver.tokensSecret=t",
    "--set",
    "receiver.tlsSecret=c",
    "--set",
    "serve.tokensSecret=s",
)
VARIANTS: dict[str, tuple[str, ...]] = {
    "disk": (),
    "disk, closed": TOKENS,
    "disk, ingestion only": ("--set", "watch.enabled=false", "--set", "serve.enabled=false"),
    "bucket": ("--set", "lake.bucket=s3://traces/flowdiff", "--set", "ingest.replicas=2", *TOKENS),
    "kafka": ("-f", str(CHART / "values-kafka.yaml"), "--set", "serve.anyone=true"),
    "monitored": ("--set", "serviceMonitor.enabled=true"),
}
PATIENCE_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    ensure()


def rendered(*options: str) -> list[dict[str, Any]]:
    """Documents of the chart as release `flowdiff`."""
    done = helm("template", "flowdiff", CHART, "--namespace", "traces", "--kube-version", "1.33", *options)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(found: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """Documents of a kind by name."""
    named = {each["metadata"]["name"]: each for each in found if each["kind"] == kind}
    assert len(named) == sum(each["kind"] == kind for each in found)
    return named


def pods(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Pod templates by the names of what starts them."""
    templates = {}
    for each in found:
        spec = each.get("spec", {})
        spec = spec["jobTemplate"]["spec"] if each["kind"] == "CronJob" else spec
        if "template" in spec:
            templates[each["metadata"]["name"]] = spec["template"]
    return templates


def containers(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Containers by name, except those of scheduled commands."""
    parts = [one for pod in pods(found).values() for one in pod["spec"]["containers"]]
    return {one["name"]: one for one in parts if one["name"] != "flowdiff"}


def answer_code(asked: urllib.request.Request) -> int:
    """HTTP status of an answer."""
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_and_kubernetes_take_the_chart(variant: str) -> None:
    lint = helm("lint", "--strict", CHART, *VARIANTS[variant])
    assert lint.returncode == 0, lint.stdout + lint.stderr
    found = rendered(*VARIANTS[variant])
    for document in found:
        if document["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    for pod in pods(found).values():
        volumes = {each["name"] for each in pod["spec"]["volumes"]} | {
            claim["metadata"]["name"]
            for each in of_kind(found, "StatefulSet").values()
            if each["spec"]["template"] is pod
            for claim in each["spec"].get("volumeClaimTemplates", [])
        }
        parts = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
        assert {each["name"] for part in parts for each in part["volumeMounts"]} == volumes


@pytest.mark.parametrize("variant", VARIANTS)
def test_services_budgets_and_policies_name_pods_and_ports_that_are_there(variant: str) -> None:
    found = rendered(*VARIANTS[variant])
    ports: dict[str, tuple[dict[str, str], dict[str, int]]] = {
        name: (
            pod["metadata"]["labels"],
            {
                each["name"]: each["containerPort"]
                for part in pod["spec"]["containers"]
                for each in part.get("ports", [])
            },
        )
        for name, pod in pods(found).items()
    }

    def chosen(selector: dict[str, str]) -> list[dict[str, int]]:
        return [there for labels, there in ports.values() if selector.items() <= labels.items()]

    for service in of_kind(found, "Service").values():
        (pod,) = chosen(service["spec"]["selector"])
        assert {each["targetPort"]: each["port"] for each in service["spec"]["ports"]}.items() <= pod.items()
    for budget in of_kind(found, "PodDisruptionBudget").values():
        assert len(chosen(budget["spec"]["selector"]["matchLabels"])) == 1
    (policy,) = of_kind(found, "NetworkPolicy").values()
    (rule,) = policy["spec"]["ingress"]
    open_ports = {each["port"] for each in rule["ports"]}
    served = {each["targetPort"] for s in of_kind(found, "Service").values() for each in s["spec"]["ports"]}
    assert served <= open_ports
    for monitor in of_kind(found, "ServiceMonitor").values():
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        services = [
            s for s in of_kind(found, "Service").values() if wanted <= s["metadata"]["labels"].items()
        ]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {each["name"] for s in services for each in s["spec"]["ports"]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_program_takes_the_settings(variant: str, tmp_path: Path) -> None:
    found = rendered(*VARIANTS[variant])
    (config,) = of_kind(found, "ConfigMap").values()
    file = tmp_path / "flowdiff.toml"
    file.write_text(config["data"]["flowdiff.toml"])
    parts = containers(found)
    ingest = parts["ingest"]
    environ = {each["name"]: each.get("value", "1") for each in ingest["env"]}
    assert environ.pop("FLOWDIFF_CONFIG") == "/etc/flowdiff/flowdiff.toml"
    for name in ("FLOWDIFF_CACHE", "FLOWDIFF_CACHE_SIZE"):
        environ.pop(name, None)
    settings = effective({}, {**environ, "FLOWDIFF_KAFKA_SECURITY_PASSWORD": "x"}, file).config
    pod = pods(found)["flowdiff"]["spec"]
    assert pod["terminationGracePeriodSeconds"] * 10**9 > settings.stop_budget_ns
    assert settings.stay_halted  # else it would be started again and again
    ports = {each["name"]: each["containerPort"] for each in ingest["ports"]}
    addresses = {"metrics": settings.serve.address}
    if settings.receives:
        addresses |= {"otlp-http": settings.otlp, "otlp-grpc": settings.otlp_grpc}
    assert ports == {name: int(address.rpartition(":")[2]) for name, address in addresses.items()}
    mounts = [Path(each["mountPath"]) for each in ingest["volumeMounts"]]
    files = [settings.kafka.security.ca_file, settings.receiver.token_file]
    files += [settings.receiver.certificate_file, settings.receiver.key_file]
    for path in [each for each in files if each is not None]:
        assert path.parent in mounts
    kept = settings.receiver.spool or settings.lake
    assert kept.startswith("s3://") or Path(kept).parent in mounts  # it outlives the pod
    if "watch" in parts:
        (port,) = parts["watch"]["ports"]
        assert settings.serve.watch_address.endswith(f":{port['containerPort']}")
        lake = next(each["value"] for each in parts["watch"]["env"] if each["name"] == "FLOWDIFF_LAKE")
        assert lake == settings.lake


def test_pods_are_those_of_the_plain_manifests() -> None:
    """As confined and probed, the same commands at the same times; what differs is their number."""
    found = rendered("-f", str(CHART / "values-kafka.yaml"))
    plain = {
        name: [*yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text())]
        for name in ("flowdiff", "watch", "schedules")
    }
    (stateful,) = (each for each in plain["flowdiff"] if each["kind"] == "StatefulSet")
    pod = stateful["spec"]["template"]["spec"]
    (one,) = pod["containers"]
    for mine in pods(found).values():
        for field in ("automountServiceAccountToken", "enableServiceLinks", "securityContext"):
            assert mine["spec"][field] == pod[field]
        for part in (*mine["spec"]["containers"], *mine["spec"].get("initContainers", [])):
            for field in ("image", "securityContext", "envFrom"):
                assert part[field] == one[field]
    ingest = containers(found)["ingest"]
    for field in ("args", "startupProbe", "livenessProbe", "readinessProbe", "resources", "ports"):
        assert ingest[field] == one[field]
    jobs = {each["metadata"]["name"]: each["spec"] for each in plain["schedules"][0]["items"]}
    made = {name: each["spec"] for name, each in of_kind(found, "CronJob").items()}
    assert jobs.keys() == made.keys()
    for name, job in jobs.items():
        for field in ("schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds"):
            assert made[name][field] == job[field]
        assert made[name]["suspend"] == job.get("suspend", False)
        args = [
            each["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
            for each in (made[name], job)
        ]
        assert args[0] == args[1]
    config = of_kind(found, "ConfigMap")["flowdiff"]["data"]["flowdiff.toml"]
    (theirs,) = (each["data"]["flowdiff.toml"] for each in plain["flowdiff"] if each["kind"] == "ConfigMap")
    asked, other = tomllib.loads(config), tomllib.loads(theirs)
    for table in ("kafka", "live", "log", "lake", "stay_halted", "stop_budget"):
        assert asked[table] == other[table]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("ingest.replicas=2",), "needs lake.bucket"),
        (("ingest.source=files",), "ingest.source is otlp or kafka"),
        (("ingest.source=kafka",), "needs settings.kafka.topics"),
        (("lake.bucket=gs://x",), "lake.bucket is s3://"),
    ],
)
def test_values_that_no_pod_could_work_with_are_refused(options: tuple[str, ...], message: str) -> None:
    words = [word for option in options for word in ("--set", option)]
    done = helm("template", "flowdiff", CHART, "--kube-version", "1.33", *words)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        ((), {"localhost": 200}),
        (("--set", "serve.anyone=true"), {"localhost": 200, "flowdiff-serve.traces": 200, "other": 421}),
        (("--set", "serve.tokensSecret=s"), {"localhost": 200, "flowdiff-serve.traces": 401}),
    ],
)
def test_pages_are_served_to_whom_the_values_say(
    options: tuple[str, ...], answers: dict[str, int], tmp_path: Path
) -> None:
    """The rendered words start a server; its probe is run as the pod would run it."""
    from oracles.lake_script import flows_table, structures_table
    from oracles.stored_lake import write_lake

    starts = [1_700_000_000_000_000_000 + n for n in range(3)]
    write_lake(tmp_path / "lake", flows_table(["a", "b", "c"], starts), structures_table())
    found = rendered(*options)
    serve = containers(found)["serve"]
    secret = tmp_path / "secret"
    secret.write_text(f"read somebody {'x' * 40}\n")
    secret.chmod(0o440)  # as Kubernetes mounts it where pods have a group
    (tmp_path / "tokens").mkdir()
    places = {"/run/secret": tmp_path, "/run/tokens": tmp_path / "tokens"}
    for init in pods(found)["flowdiff"]["spec"].get("initContainers", []):
        command = init["command"][-1].replace("/run/secret/tokens", str(secret))
        command = command.replace("/run/tokens", str(places["/run/tokens"]))
        subprocess.run(["sh", "-c", command], check=True)
    words = [word.replace("/run/tokens", str(places["/run/tokens"])) for word in serve["args"]]
    listens = words[words.index("--listen") + 1]
    words[words.index("--listen") + 1] = re.sub(r":\d+$", ":0", listens)
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = fork_server.Popen(
            [sys.executable, "-m", "flowdiff", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, "FLOWDIFF_LAKE": str(tmp_path / "lake")},
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (said := re.search(r"http://[\d.]+:(\d+)/", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        probe = serve["livenessProbe"]["exec"]["command"]
        program = probe[-1].replace("localhost:4320", f"localhost:{said[1]}")
        assert probe[:2] == ["python", "-c"]
        assert fork_server.run([sys.executable, "-c", program]).returncode == 0
        for host, code in answers.items():
            asked = urllib.request.Request(
                f"http://127.0.0.1:{said[1]}/{'healthz' if host == 'localhost' else ''}",
                headers={"Host": host},
            )
            assert answer_code(asked) == code, host
    finally:
        process.terminate()
        process.wait()


def test_longer_than_the_stop_budget_is_waited_for() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    pod = pods(rendered())["flowdiff"]["spec"]
    assert pod["terminationGracePeriodSeconds"] * 10**9 > duration_of(values["settings"]["stop_budget"])
