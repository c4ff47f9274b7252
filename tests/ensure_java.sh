#!/bin/sh
# The tests of live ingestion run a real Kafka, from its published jars. Install Debian's Java and Maven where there
# are none.
set -eu
missing=""
for tool in java mvn openssl; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "The tests need$missing: install Java 17 or newer, Maven and OpenSSL, and put them on PATH." >&2
        exit 1
    fi
    sudo=""
    if [ "$(id -u)" -ne 0 ]; then sudo="sudo -n"; fi
    echo "Installing Java and Maven for the tests with a real Kafka ..."
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless maven openssl >/dev/null
fi
exec deploy/kafka/kafka.sh install .cache/kafka
