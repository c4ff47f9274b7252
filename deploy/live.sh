#!/usr/bin/env bash
# Live ingestion, from a broker to a report, in about twelve minutes: a Kafka of its own, a service that is traced into
# it in real time, breaks after four minutes and is repaired two minutes later, `flowdiff ingest`, and `flowdiff watch`, which
# finds by itself what broke, where and when it is over. Every sealed window is shown as it comes, and where `flowdiff top`
# looks at both. Then a comparison of before and during.
# Everything that is started here ends with it; what it leaves is in one folder.
set -euo pipefail
flowdiff="${FLOWDIFF:-flowdiff}"
folder="${LIVE_FOLDER:-live}"
libs="${KAFKA_LIBS:-.cache/kafka}"
kafka="$(dirname "$0")/kafka/kafka.sh"
topic=traces
before=240 # seconds before the fault
during=120 # with it
after=150  # and when it is repaired

rm -rf "$folder"
mkdir -p "$folder"
ingest=
watch=
windows=
cleanup() {
    for each in $windows $watch $ingest; do kill -TERM "$each" 2>/dev/null && wait "$each" || true; done
    "$kafka" kill "$folder/kafka" >/dev/null 2>&1 || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '\n$ flowdiff %s\n' "$*"; "$flowdiff" "$@"; }

# Print every window as it is sealed, until this process is ended.
show_windows() {
    trap 'exit 0' TERM
    local shown=0
    while true; do
        # The lake is made by the first of both that come to it; before, there is nothing to list.
        "$flowdiff" windows --lake "$folder/lake" > "$folder/windows.txt" 2> "$folder/windows.err" || true
        [ $shown = 0 ] && [ "$(wc -l < "$folder/windows.txt")" -gt 1 ] && { echo; head -n 1 "$folder/windows.txt"; shown=1; }
        [ $shown = 0 ] || { tail -n +$(( shown + 1 )) "$folder/windows.txt"; shown=$(wc -l < "$folder/windows.txt"); }
        sleep 10 & wait $!
    done
}

# Wait until a process serves its metrics, and say how to look at them: process, log, how the log names the address.
address() {
    local found=
    until found=$(sed -nE "s/$3/\1/p" "$2" | head -n 1) && [ -n "$found" ]; do
        kill -0 "$1" || { cat "$2" >&2; exit 1; }
        sleep 0.2
    done
    printf 'Look at it while it runs:  %s top %s\n' "$flowdiff" "$found"
}
at() { date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ; }

echo "A Kafka broker of its own ..."
"$kafka" install "$libs"
"$kafka" start "$libs" "$folder/kafka" > "$folder/kafka.env"
bootstrap=$(sed -n 's/^BOOTSTRAP=//p' "$folder/kafka.env")

# Windows are whole minutes: the service starts with the one after the next.
start=$(( ($(date +%s) / 60 + 2) * 60 ))
broken=$(( start + before ))
repaired=$(( broken + during ))
# One run: two would leave a gap between the end of the first and the start of the second, which looks like an outage.
say simulate --workload postmark-large --requests 111000 --sample 0.2 --seed 1 --start "$(at $start)" \
    --fault F1-mds-config --fault-start $before --fault-end $(( before + during )) --format otlp-json \
    --out "$folder/traces.ndjson.gz"

printf '\n$ flowdiff ingest --bootstrap %s --topics %s --lake %s/lake --window-length 1m ... &\n' "$bootstrap" $topic "$folder"
"$flowdiff" ingest --bootstrap "$bootstrap" --topics $topic --default-format otlp-json --lake "$folder/lake" \
    --window-length 1m --idle 20s --serve-address 127.0.0.1:0 2> "$folder/ingest.log" &
ingest=$!
address $ingest "$folder/ingest.log" '.*"serves": "([^"]*)".*'

wait_s=$(( start - $(date +%s) ))
[ $wait_s -le 0 ] || { echo "The service starts in $wait_s s; its metadata server breaks $before s later, for $during s."; sleep $wait_s; }
printf '\n$ flowdiff watch %s/lake --slot 10s &\n' "$folder"
"$flowdiff" watch "$folder/lake" --slot 10s --serve-watch-address 127.0.0.1:0 2> "$folder/watch.log" > >(tee "$folder/incidents.txt") &
watch=$!
address $watch "$folder/watch.log" '.*metrics at (.*[0-9])\.'
show_windows &
windows=$!
printf '\n$ flowdiff produce ... --speed 1 &\n'
"$flowdiff" produce "$folder/traces.ndjson.gz" --format otlp-json --topic $topic \
    --bootstrap "$bootstrap" --speed 1 --make-topic 4 > "$folder/produce.txt"

end=$(( repaired + after ))
echo "All is sent. Waiting until the last minute is sealed and decided ..."
for _ in $(seq 150); do
    decided=$("$flowdiff" sql --lake "$folder/lake" -c "select count(*) from incidents where state = 'resolved'" --format csv 2>/dev/null | tail -n 1 || true)
    [ "${decided:-0}" = 0 ] || [ "$(date +%s)" -lt $(( end + 30 )) ] || break
    kill -0 $ingest || { cat "$folder/ingest.log" >&2; exit 1; }
    kill -0 $watch || { cat "$folder/watch.log" >&2; exit 1; }
    sleep 2
done

kill $windows && wait $windows
windows=
say incidents --lake "$folder/lake" list
say compare --lake "$folder/lake" --reference "$(at $start)/$(at $broken)" \
    --problem "$(at $broken)/$(at $repaired)" --fail-on never --html "$folder/report.html"

printf '\nBroken at %s, repaired at %s. Open %s/report.html in a browser. What ingest and watch said is in %s/*.log.\n' \
    "$(at $broken)" "$(at $repaired)" "$folder" "$folder"
