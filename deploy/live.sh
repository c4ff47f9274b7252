#!/usr/bin/env bash
# Live ingestion, from a broker to a report, in about six minutes: a Kafka of its own, a service that is traced
# into it in real time and breaks after two minutes, `flowdiff ingest`, and a comparison of the two halves.
# Everything that is started here ends with it; what it leaves is in one folder.
set -euo pipefail
flowdiff="${FLOWDIFF:-flowdiff}"
folder="${LIVE_FOLDER:-live}"
libs="${KAFKA_LIBS:-.cache/kafka}"
kafka="$(dirname "$0")/kafka/kafka.sh"
topic=traces
half=120 # seconds before the fault, and with it

rm -rf "$folder"
mkdir -p "$folder"
ingest=
cleanup() {
    [ -z "$ingest" ] || { kill -TERM "$ingest" 2>/dev/null && wait "$ingest" || true; }
    "$kafka" kill "$folder/kafka" >/dev/null 2>&1 || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n$ flowdiff %s\n' "$*"; "$flowdiff" "$@"; }
at() { date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ; }

echo "A Kafka broker of its own ..."
"$kafka" install "$libs"
"$kafka" start "$libs" "$folder/kafka" > "$folder/kafka.env"
bootstrap=$(sed -n 's/^BOOTSTRAP=//p' "$folder/kafka.env")

# Windows are whole minutes: the service starts with the one after the next.
start=$(( ($(date +%s) / 60 + 2) * 60 ))
say simulate --workload postmark-large --requests 57000 --sample 0.2 --seed 1 --start "$(at $start)" \
    --fault F1-mds-config --fault-start $half --format otlp-json --out "$folder/traces.ndjson.gz"

printf '\n$ flowdiff ingest --bootstrap %s --topics %s --lake %s/lake --window-length 1m ... &\n' "$bootstrap" $topic "$folder"
"$flowdiff" ingest --bootstrap "$bootstrap" --topics $topic --default-format otlp-json --lake "$folder/lake" \
    --window-length 1m --idle 20s --serve-address 127.0.0.1:0 2> "$folder/ingest.log" &
ingest=$!

wait_s=$(( start - $(date +%s) ))
[ $wait_s -le 0 ] || { echo "The service starts in $wait_s s; its metadata server breaks $half s later."; sleep $wait_s; }
say produce "$folder/traces.ndjson.gz" --format otlp-json --topic $topic --bootstrap "$bootstrap" --speed 1 --make-topic 4

end=$(( start + 2 * half ))
echo "Waiting until the last minute is sealed ..."
for _ in $(seq 60); do
    sealed=$("$flowdiff" windows --lake "$folder/lake" --json 2>/dev/null | grep -c window_start || true)
    [ "$sealed" -lt 4 ] || break
    kill -0 $ingest || { cat "$folder/ingest.log" >&2; exit 1; }
    sleep 2
done

say windows --lake "$folder/lake"
say compare --lake "$folder/lake" --reference "$(at $start)/$(at $(( start + half )))" \
    --problem "$(at $(( start + half )))/$(at $end)" --fail-on never --html "$folder/report.html"

printf '\nOpen %s/report.html in a browser. What ingest said is in %s/ingest.log.\n' "$folder" "$folder"
