#!/bin/sh
# The demo: a simulated storage service on two days. On the second, its metadata server writes to the data
# node (the papers' first case). Two files in, one lake, one comparison, one report to look at.
set -eu
flowdiff="${FLOWDIFF:-flowdiff}"
folder="${DEMO_FOLDER:-demo}"

rm -rf "$folder"
mkdir -p "$folder"

say() { printf '\n$ flowdiff %s\n' "$*"; "$flowdiff" "$@"; }

say simulate --workload postmark-large --requests 6000 --seed 1 --start 2026-11-18T09:00:00Z \
    --out "$folder/wednesday.ndjson.gz"
say simulate --workload postmark-large --requests 6000 --seed 2 --start 2026-11-19T09:00:00Z \
    --fault F1-mds-config --out "$folder/thursday.ndjson.gz"
say import "$folder/wednesday.ndjson.gz" "$folder/thursday.ndjson.gz" --lake "$folder/lake"
say windows --lake "$folder/lake"
# A change is what the demo is about, so finding one is no failure here.
# The report names the change, where it came from, and what tells the affected requests apart.
say compare --lake "$folder/lake" --reference 2026-11-18 --problem 2026-11-19 --fail-on never \
    --html "$folder/report.html"

printf '\nOpen %s/report.html in a browser. The lake is %s/lake:\n' "$folder" "$folder"
printf '  %s sql --lake %s/lake\n' "$flowdiff" "$folder"
