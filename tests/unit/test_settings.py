"""Settings of `flowdiff ingest`: which source wins, what every mistake says, and what is printed of it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from flowdiff.__main__ import main
from flowdiff.cli.named_settings import method_keys
from flowdiff.commands.config import default_toml, effective_toml
from flowdiff.settings.effective import KEYS, Effective, effective, kafka_of
from flowdiff.settings.ingest_config import IngestConfig, ServeSettings
from flowdiff.settings.keys import KeyKind, duration_of, keys_of, shown_duration, shown_size, size_of
from ingest.kafka.kafka_settings import KafkaSettings
from schemas.errors import ConfigError, FlowdiffError

NEEDED = {"lake": "lake", "kafka.topics": "spans"}
SECRET = "a-secret-nobody-may-see"


def written(folder: Path, text: str) -> Path:
    file = folder / "flowdiff.toml"
    file.write_text(text)
    return file


def refused(flags: dict[str, object], environ: dict[str, str], file: Path | None = None) -> str:
    with pytest.raises(FlowdiffError) as error:
        effective(flags, environ, file)
    told = str(error.value)
    assert "\n" not in told
    return told


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, '[live]\nlateness = "1s"\nlinger = "2s"\nidle = "3s"\n')
    environ = {"FLOWDIFF_LIVE_LINGER": "20s", "FLOWDIFF_LIVE_IDLE": "30s", "FLOWDIFF_CONFIG": str(file)}
    found = effective({**NEEDED, "live.idle": "300s"}, environ)
    live = found.config.live
    assert (live.lateness_ns, live.linger_ns, live.idle_ns) == (1 * 10**9, 20 * 10**9, 300 * 10**9)
    assert found.origins["live.lateness"] == str(file)
    assert found.origins["live.linger"] == "FLOWDIFF_LIVE_LINGER"
    assert found.origins["live.idle"] == "--idle"
    assert "live.max_future" not in found.origins


def test_a_file_that_is_named_counts_before_the_one_of_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path, 'lake = "a"\n')
    assert effective({"kafka.topics": "t"}, {"FLOWDIFF_CONFIG": "/nowhere"}, file).config.lake == "a"
    assert "/nowhere" in refused(NEEDED, {"FLOWDIFF_CONFIG": "/nowhere"})


def test_an_empty_variable_is_not_set() -> None:
    assert effective(NEEDED, {"FLOWDIFF_KAFKA_GROUP": ""}).config.kafka.group == "flowdiff"


def test_variables_that_kubernetes_sets_for_services_are_left_alone() -> None:
    links = {
        "FLOWDIFF_KAFKA_SERVICE_HOST": "10.0.0.1",
        "FLOWDIFF_KAFKA_SERVICE_PORT_CLIENTS": "9092",
        "FLOWDIFF_KAFKA_PORT": "tcp://10.0.0.1:9092",
        "FLOWDIFF_LIVE_PORT_9464_TCP_ADDR": "10.0.0.1",
        "FLOWDIFF_TEST_KAFKA": "localhost:9092",
    }
    assert effective(NEEDED, links).origins.keys() == NEEDED.keys()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kafka.topic = ['a']", "{file}: there is no key 'kafka.topic'. Did you mean kafka.topics? [config]"),
        ("commit_interval = '1s'", "no key 'commit_interval'. Did you mean live.commit_interval?"),
        (
            "live.commit_interval_ns = 5",
            "no key 'live.commit_interval_ns'. Did you mean live.commit_interval?",
        ),
        ("zzz = 1", "{file}: there is no key 'zzz'. `flowdiff config --defaults` lists them."),
        ("kafka = 3", "kafka ({file}) is a table: write [kafka]."),
        ("live.commit_interval = 10", "live.commit_interval ({file}) cannot be '10': write '10s'."),
        ("live.commit_interval = 'soon'", "live.commit_interval ({file}): 'soon' is not a duration."),
        (
            "live.commit_interval = '0s'",
            "live.commit_interval ({file}) cannot be '0s': input should be greater",
        ),
        ("live.window_length = '7m'", "live.window_length ({file}): Window '7m' does not divide a day"),
        (
            "live.memory = '256MB'",
            "live.memory ({file}) cannot be '256MB': 352MB is the least that is enough",
        ),
        ("live.memory = 'all'", "live.memory ({file}): 'all' is not a size."),
        ("kafka.start_at = 'now'", "kafka.start_at ({file}) cannot be 'now': input should be 'earliest'"),
        ("kafka.max_unpacked = 9", "kafka.max_unpacked ({file}) cannot be '9': write '64MB'."),
        ("kafka.default_format = 'x'", "kafka.default_format ({file}) cannot be 'x': "),
        (
            "kafka.topic_pattern = 'a'",
            "kafka: give either kafka.topics or kafka.topic_pattern. Set: kafka.topic",
        ),
        ("kafka.group = 3", "kafka.group ({file}) cannot be '3': text is wanted."),
        ("live.params_share = true", "live.params_share ({file}) cannot be 'True': a number is wanted."),
        ("kafka.formats = [{topics = '(', format = 'native'}]", "kafka.formats ({file}) cannot be "),
        ("serve.address = 'here'", "serve.address ({file}) cannot be 'here': write host:port."),
        (
            "kafka.security.key_file = 'k'",
            "kafka.security: kafka.security.key_file needs kafka.security.cert",
        ),
        ("lake = ", "{file}: not TOML: "),
        (
            f"kafka.security.password = '{SECRET}'",
            "kafka.security.password ({file}) is a secret and does not belong into a configuration. "
            "Set FLOWDIFF_KAFKA_SECURITY_PASSWORD, or name a file that holds it: "
            "kafka.security.password_file.",
        ),
    ],
)
def test_a_mistake_names_its_key_and_its_place(text: str, told: str, tmp_path: Path) -> None:
    file = written(tmp_path, text + "\n")
    message = refused(NEEDED, {}, file)
    assert told.format(file=file) in message
    assert SECRET not in message


def test_a_variable_that_sets_nothing_is_refused() -> None:
    told = refused(NEEDED, {"FLOWDIFF_LIVE_COMIT_INTERVAL": "1s"})
    assert told.startswith("The variable FLOWDIFF_LIVE_COMIT_INTERVAL sets nothing.")
    assert "Did you mean FLOWDIFF_LIVE_COMMIT_INTERVAL?" in told


def test_no_two_settings_share_a_name() -> None:
    found = [*keys_of(IngestConfig)]
    for names in ([key.name for key in found], [key.variable for key in found]):
        assert len(names) == len({*names})
    flags = [key.flag for key in found if key.flag is not None]
    assert len(flags) == len({*flags})


def test_a_receiver_beside_a_bucket_has_a_folder_and_a_size() -> None:
    told = {"FLOWDIFF_LAKE": "s3://a/b", "FLOWDIFF_OTLP": "127.0.0.1:4318"}
    told |= {"FLOWDIFF_RECEIVER_SPOOL": "/var/spool", "FLOWDIFF_RECEIVER_MAX_SPOOL": "1GB"}
    receiver = effective({}, told).config.receiver
    assert (receiver.spool, receiver.max_spool_bytes) == ("/var/spool", 2**30)


def test_what_is_missing_says_how_to_set_it() -> None:
    assert "lake is not set. Give --lake, set FLOWDIFF_LAKE" in refused({"kafka.topics": "t"}, {})


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.kind is KeyKind.SECRET])
def test_a_secret_is_read_and_never_shown(name: str) -> None:
    key = KEYS[name]
    needs = {
        "kafka.security.key_password": {},
        "kafka.security.password": {},
        "kafka.security.client_secret": {},
        "live.decode.params.hash_key": {"live.decode.params.hash": "user.id"},
    }.get(name, {})
    found = effective({**NEEDED, **needs}, {key.variable: SECRET})
    value = found.value(key).get_secret_value()
    assert value in (SECRET, SECRET.encode())
    assert SECRET not in effective_toml(found)
    assert f"is set, and not shown  # {key.variable}" in effective_toml(found)
    assert SECRET not in repr(found)
    # A mistake elsewhere, and one that the model finds in the section of the secret.
    for wrong in ({"kafka.start_at": "x"}, {"kafka.security.protocol": "SASL_SSL"}):
        message = refused({**NEEDED, **needs, **wrong}, {key.variable: SECRET})
        assert SECRET not in message


def test_the_key_of_hashed_parameters_comes_from_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"0123456789abcdef\n")
    flags = {**NEEDED, "live.decode.params.hash": "user.id"}
    rules = effective({**flags, "hash_key_file": str(tmp_path / "key")}, {}).config.live.decode.params
    assert rules.hash_key is not None
    assert rules.hash_key.get_secret_value() == b"0123456789abcdef"
    assert "hash_key_file" in refused({**flags, "hash_key_file": "/nowhere"}, {})
    assert "live.decode.params" in refused(flags, {})


EVERYTHING = {
    **NEEDED,
    "kafka.topics": "a,b",
    "kafka.formats": r"spans-\d+=otlp_json,x=y=native",
    "kafka.bootstrap": "one:1,two:2",
    "kafka.session_timeout": "1500ms",
    "kafka.heartbeat_interval": "500ms",
    "live.window_length": "15m",
    "live.memory": "400000KB",
    "live.params_share": "0.25",
    "live.accept_gaps": True,
    "live.decode.params.deny": 'say "hi",a\\b',
    "serve.address": "[::1]:0",
    "log.format": "json",
}


def test_what_is_printed_reads_back_as_it_was(tmp_path: Path) -> None:
    found = effective(EVERYTHING, {})
    again = effective({}, {}, written(tmp_path, effective_toml(found)))
    assert again.config == found.config
    assert found.config.kafka.formats[1].topics == "x=y"
    assert effective({}, {}, written(tmp_path, effective_toml(again))).config == found.config


def test_every_line_has_its_origin() -> None:
    found = effective(EVERYTHING, {"FLOWDIFF_LOG_LEVEL": "debug"})
    lines = [line for line in effective_toml(found).splitlines() if " = " in line]
    assert all("  # " in line for line in lines)
    assert 'level = "debug"  # FLOWDIFF_LOG_LEVEL' in lines
    assert 'window_length = "15m"  # --window-length' in lines
    assert 'lateness = "30s"  # default' in lines


def test_the_defaults_are_a_file_to_begin_with(tmp_path: Path) -> None:
    uncommented = "\n".join(
        line.removeprefix("# ") if " = " in line and line.startswith("# ") and _is_key(line) else line
        for line in default_toml(expert=True).splitlines()
    )
    found: Effective = effective(NEEDED, {}, written(tmp_path, uncommented.replace("topics = []", "")))
    assert found.config == effective(NEEDED, {}).config
    everyday = ["kafka", "receiver", "live", "serve", "log", "watch", "notify"]
    assert [*tomllib.loads(default_toml())] == everyday
    assert [*tomllib.loads(default_toml(expert=True))][: len(everyday) + 1] == [
        *everyday[:5],
        "heap",
        *everyday[5:],
    ]


def test_keys_for_experts_are_shown_on_request_and_where_they_are_set() -> None:
    assert (
        sum(not key.is_expert for name, key in method_keys().items() if name.startswith(("robust", "refine")))
        <= 45
    )
    found = effective(NEEDED, {"FLOWDIFF_WATCH_KAPPA": "0.3"})
    assert "kappa = 0.3  # FLOWDIFF_WATCH_KAPPA" in effective_toml(found)
    assert "tail_df" not in effective_toml(found)
    assert "tail_df = 3.0  # default" in effective_toml(found, expert=True)
    assert "kappa" not in default_toml()
    for line in ("# kappa = 0.25", "[robust.causes]", "# flooded = 3.0"):
        assert f"\n{line}\n" in default_toml(expert=True)


def _is_key(line: str) -> bool:
    return line.removeprefix("# ").partition(" = ")[0].isidentifier()


def test_every_key_is_named_once_and_explained() -> None:
    assert len({key.variable for key in KEYS.values()}) == len(KEYS)
    assert [name for name, key in KEYS.items() if not key.about] == []
    assert {key.field[0] for key in KEYS.values()} == {*IngestConfig.model_fields}


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0s"), (10**6, "1ms"), (1500 * 10**6, "1500ms"), (90 * 10**9, "90s"), (60 * 10**9, "1m")],
)
def test_durations_there_and_back(ns: int, text: str) -> None:
    assert (duration_of(text), shown_duration(ns)) == (ns, text)


def test_a_duration_has_64_bits() -> None:
    assert duration_of("9223372036854ms") == 9_223_372_036_854 * 10**6
    with pytest.raises(ConfigError, match="longer than 292 years"):
        duration_of("9223372036855ms")


@pytest.mark.parametrize(("size", "text"), [(0, "0B"), (1000, "1000B"), (1536, "1536B"), (2**30, "1GB")])
def test_sizes_there_and_back(size: int, text: str) -> None:
    assert (size_of(text), shown_size(size)) == (size, text)
    with pytest.raises(ConfigError):
        size_of("-1MB")


@pytest.mark.parametrize(
    ("address", "is_open"),
    [
        ("127.0.0.1:0", False),
        ("localhost:1", False),
        ("[::1]:1", False),
        ("", False),
        (":1", True),
        ("0.0.0.0:1", True),
    ],
)
def test_an_address_is_open_unless_it_is_loopback(address: str, is_open: bool) -> None:
    assert ServeSettings(address=address).is_open is is_open


def test_the_command_prints_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLOWDIFF_LAKE", "from-the-environment")
    monkeypatch.setenv("FLOWDIFF_KAFKA_SECURITY_PASSWORD", SECRET)
    file = written(tmp_path, '[kafka]\ntopics = ["a"]\ngroup = "mine"\n')
    with pytest.raises(SystemExit) as ended:
        main(["config", "--config", str(file), "--group", "ours", "--no-accept-gaps"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert 'lake = "from-the-environment"  # FLOWDIFF_LAKE' in out
    assert f'topics = ["a"]  # {file}' in out
    assert 'group = "ours"  # --group' in out
    assert "accept_gaps = false  # --accept-gaps" in out
    assert SECRET not in out


@pytest.mark.parametrize("server", ["localhost", "h:1", "10.0.0.1:9092", "[::1]:9092", "a_b.c-d:65535"])
def test_brokers_are_names_or_addresses_with_a_port(server: str) -> None:
    assert KafkaSettings(bootstrap=(server,), topics=("t",)).bootstrap == (server,)


@pytest.mark.parametrize("server", ["h:abc", "h:", "h:65536", ":1", "h:1/t", "http://h:1", "[::1", "h:-1"])
def test_what_is_no_broker_is_said_in_one_line(server: str) -> None:
    with pytest.raises(ConfigError, match="brokers are host:port"):
        effective({"lake": "x", "kafka.topics": "t", "kafka.bootstrap": server}, {})


@pytest.mark.parametrize(
    "server",
    [
        "user:hunter2@broker:9092",
        "broker:1?user=x&password=hunter2",
        "kafka://broker:1?password=hunter2",
        "broker:1#hunter2",
        "broker:1;password=hunter2",
    ],
)
def test_a_password_among_the_brokers_is_refused_and_not_shown(server: str) -> None:
    with pytest.raises(ConfigError) as error:
        effective({"lake": "x", "kafka.topics": "t", "kafka.bootstrap": server}, {})
    assert "hunter2" not in str(error.value)
    assert "user" not in str(error.value).replace("kafka.security", "")
    assert "brokers are host:port; who connects is in kafka.security" in str(error.value)


def test_what_bounds_reading_reaches_a_command_that_is_not_ingest(tmp_path: Path) -> None:
    file = written(tmp_path, '[kafka]\nmax_unpacked = "2MB"\nrequest_timeout = "3s"\ngroup = "other"\n')
    found = kafka_of({}, {}, file, topic_pattern=".*")
    assert (found.request_timeout_ms, found.group) == (3_000, "flowdiff")
    assert found.max_unpacked_bytes == size_of("2MB")
