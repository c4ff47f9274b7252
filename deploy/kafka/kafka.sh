#!/usr/bin/env bash
# An Apache Kafka (KRaft, no containers) for tests and trials. Needs java 17 or newer, mvn, python3; openssl for TLS.
#
#   kafka.sh install LIBS               fetch the broker's jars into LIBS, and archive its classes; nothing to do
#                                       when they are there
#   kafka.sh start  LIBS DIR [--secure] one node, broker and controller
#   kafka.sh start3 LIBS DIR [--secure] brokers 1, 2, 3 and controller 9, a process each
#   kafka.sh up     LIBS DIR NODE       start a node again that was stopped or killed: same ports, same log
#   kafka.sh stop   DIR [NODE]          SIGTERM, a clean end (all nodes without NODE)
#   kafka.sh kill   DIR [NODE]          SIGKILL
#   kafka.sh pause  DIR [NODE]          SIGSTOP: connections stay open, nothing answers; `resume` is SIGCONT
#   kafka.sh env    DIR                 BOOTSTRAP=..., and with --secure the other listeners and their files
#   kafka.sh pids   DIR                 NODE PID of every process that was started for DIR and runs
#
# All state is in DIR; it is formatted at the first start. start, start3 and up return when the nodes take
# requests, and print what `env` prints. --secure adds three listeners: SASL_SSL (SCRAM-SHA-256, SCRAM-SHA-512,
# PLAIN, OAUTHBEARER with unsigned tokens), SSL that asks for a client certificate, and SASL_PLAINTEXT.
# From the environment: KAFKA_HEAP (256m), KAFKA_PROPERTIES (a file, added to every node's properties at the
# first start), KAFKA_WAIT (seconds to wait for a node: 120).
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
USER_NAME=tester
USER_PASSWORD=tester-secret

die() { echo "kafka.sh: $*" >&2; exit 2; }

need() {
    local tool missing=
    for tool in "$@"; do command -v "$tool" > /dev/null || missing="$missing $tool"; done
    [ -z "$missing" ] || die "missing:$missing. On Debian: apt-get install default-jre-headless maven openssl python3"
}

install() {
    local libs=$1 stamp
    stamp="$libs/$(sha256sum "$HERE/pom.xml" | cut -c1-16).stamp"
    [ ! -e "$stamp" ] || return 0
    need java mvn
    mkdir -p "$libs"
    rm -rf "$libs"/*.jar "$libs"/*.stamp "$libs"/__cluster_metadata-0
    mvn --quiet --batch-mode --file "$HERE/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        "-DoutputDirectory=$libs" >&2 || die "the broker's jars could not be fetched"
    archive "$libs"
    touch "$stamp"
}

# archive LIBS: let one node run, whose parsed classes Java keeps; with them a node starts in half of the time
archive() {
    local libs=$1 dir
    dir=$(mktemp -d)
    rm -f "$libs/classes.jsa"
    SHARED="-XX:ArchiveClassesAtExit=$libs/classes.jsa" start "$libs" "$dir" yes 1 1:broker,controller > /dev/null
    signal "$dir" 1 TERM
    rm -rf "$dir"
}

# Not from the ephemeral range: a client that dials a dead broker's ephemeral port over loopback can connect to
# itself, and the broker then cannot bind.
free_ports() {
    python3 - "$1" <<'PY'
import random, socket, sys
with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
    low, high = map(int, file.read().split())
candidates = [port for port in range(15000, 65000) if not low <= port <= high]
held = []
while len(held) < int(sys.argv[1]):
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", random.choice(candidates)))
        held.append(listener)
    except OSError:
        listener.close()
print(*(listener.getsockname()[1] for listener in held))
PY
}

# sign DIR NAME SUBJECT [EXTENSION]: a key and a certificate of the CA in DIR
sign() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$3" \
        -keyout "$1/$2.key" -out "$1/$2.csr" 2> /dev/null
    openssl x509 -req -in "$1/$2.csr" -CA "$1/ca.pem" -CAkey "$1/ca.key" -CAcreateserial -days 3650 \
        ${4:+-extfile <(echo "$4")} -out "$1/$2.crt" 2> /dev/null
}

certificates() {
    local dir=$1 ca
    need openssl
    mkdir -p "$dir"
    for ca in ca other-ca; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=test $ca" \
            -keyout "$dir/$ca.key" -out "$dir/$ca.pem" 2> /dev/null
    done
    sign "$dir" server localhost "subjectAltName=DNS:localhost,IP:127.0.0.1"
    sign "$dir" client "$USER_NAME"
    # Java wants PKCS #8, which `openssl req` writes.
    cat "$dir/server.key" "$dir/server.crt" "$dir/ca.pem" > "$dir/server.pem"
}

# node_properties DIR NODE ROLES "PLAIN SASL_SSL SSL SASL_PLAIN" CONTROLLER REPLICAS
node_properties() {
    local dir=$1 node=$2 roles=$3 controller=$5 replicas=$6 listeners= ports
    read -r -a ports <<< "$4"
    case $roles in *broker*)
        listeners="PLAINTEXT://127.0.0.1:${ports[0]}"
        if [ "${#ports[@]}" -gt 1 ]; then
            listeners="$listeners,SASL_SSL://127.0.0.1:${ports[1]},SSL://127.0.0.1:${ports[2]}"
            listeners="$listeners,SASL_PLAINTEXT://127.0.0.1:${ports[3]}"
        fi ;;
    esac
    case $roles in *controller*)
        listeners="${listeners:+$listeners,}CONTROLLER://127.0.0.1:${controller##*:}" ;;
    esac
    cat <<PROPERTIES
process.roles=$roles
node.id=$node
controller.quorum.voters=$controller
controller.listener.names=CONTROLLER
# written out: the default for CONTROLLER goes away with the first other listener
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners=$listeners
log.dirs=$dir/$node/data
# internal topics small enough for one machine
offsets.topic.num.partitions=1
offsets.topic.replication.factor=$replicas
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=1
auto.create.topics.enable=false
# tests do not wait
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
# nothing is written where nothing happens: a fifth of what an idle node takes
metadata.max.idle.interval.ms=20000
# retention is seen within a second
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=500
log.cleaner.backoff.ms=500
# little memory
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
log.cleaner.dedupe.buffer.size=2097152
PROPERTIES
    if [ "${#ports[@]}" -gt 1 ]; then
        local jaas=org.apache.kafka.common.security listener
        echo "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"
        for listener in sasl_ssl sasl_plaintext; do
            cat <<PROPERTIES
listener.name.$listener.scram-sha-256.sasl.jaas.config=$jaas.scram.ScramLoginModule required;
listener.name.$listener.scram-sha-512.sasl.jaas.config=$jaas.scram.ScramLoginModule required;
listener.name.$listener.plain.sasl.jaas.config=$jaas.plain.PlainLoginModule required user_$USER_NAME="$USER_PASSWORD";
listener.name.$listener.oauthbearer.sasl.jaas.config=$jaas.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
listener.name.$listener.oauthbearer.sasl.server.callback.handler.class=$jaas.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler
PROPERTIES
        done
        cat <<PROPERTIES
# whoever is not named by an ACL of a resource may do everything; tests add some
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
ssl.keystore.type=PEM
ssl.keystore.location=$dir/tls/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/tls/ca.pem
listener.name.ssl.ssl.client.auth=required
PROPERTIES
    fi
    if [ -n "${KAFKA_PROPERTIES:-}" ]; then cat "$KAFKA_PROPERTIES"; fi
}

joined() { local IFS=,; echo "$*"; }

# 16 bytes in base64; the first is small so that it does not begin with a dash, as an option does
random_id() {
    python3 -c 'import base64, os; print(base64.urlsafe_b64encode(b"k" + os.urandom(15)).decode().rstrip("="))'
}

# create DIR SECURE REPLICAS NODE:ROLES...
create() {
    local dir=$1 secure=$2 replicas=$3 spec node roles ports of_node controller cluster i=0
    local plain=() sasl_ssl=() ssl=() sasl_plain=()
    shift 3
    read -r -a ports <<< "$(free_ports $(( 4 * $# + 1 )))"
    for spec in "$@"; do
        case $spec in *controller*) controller="${spec%%:*}@127.0.0.1:${ports[-1]}" ;; esac
    done
    cluster=$(random_id)
    [ -z "$secure" ] || certificates "$dir/tls"
    for spec in "$@"; do
        node=${spec%%:*} roles=${spec#*:}
        mkdir -p "$dir/$node"
        of_node="${ports[i]}"
        [ -z "$secure" ] || of_node="${ports[*]:i:4}"
        node_properties "$dir" "$node" "$roles" "$of_node" "$controller" "$replicas" > "$dir/$node/server.properties"
        case $roles in *broker*)
            plain+=("127.0.0.1:${ports[i]}") sasl_ssl+=("127.0.0.1:${ports[i+1]}")
            ssl+=("127.0.0.1:${ports[i+2]}") sasl_plain+=("127.0.0.1:${ports[i+3]}") ;;
        esac
        echo "$cluster" > "$dir/$node/cluster"
        i=$(( i + 4 ))
    done
    {
        echo "BOOTSTRAP=$(joined "${plain[@]}")"
        if [ -n "$secure" ]; then
            echo "SASL_SSL=$(joined "${sasl_ssl[@]}")"
            echo "SSL=$(joined "${ssl[@]}")"
            echo "SASL_PLAINTEXT=$(joined "${sasl_plain[@]}")"
            echo "USERNAME=$USER_NAME"
            echo "PASSWORD=$USER_PASSWORD"
            echo "TLS=$dir/tls"
        fi
    } > "$dir/env"
}

is_ours() { [ -r "/proc/$1/cmdline" ] && tr '\0' ' ' < "/proc/$1/cmdline" | grep -qF "$2/server.properties"; }

# format LIBS HOME JAVA...: make a node's folder. What a controller begins with, the users among it, is kept in
# LIBS: Java takes a CPU second to make it.
format() {
    local libs=$1 home=$2 user scram=() metadata=__cluster_metadata-0 kept=
    shift 2
    if grep -q '^process.roles=.*controller' "$home/server.properties"; then kept="$libs/$metadata"; fi
    if [ -z "${KAFKA_PROPERTIES:-}" ] && { [ -z "$kept" ] || [ -e "$kept" ]; }; then
        mkdir -p "$home/data"
        [ -z "$kept" ] || cp -r "$kept" "$home/data"
        cat > "$home/data/meta.properties" <<PROPERTIES
version=1
cluster.id=$(cat "$home/cluster")
node.id=$(basename "$home")
directory.id=$(random_id)
PROPERTIES
        return 0
    fi
    for user in SCRAM-SHA-512 SCRAM-SHA-256; do
        scram+=(--add-scram "$user=[name=$USER_NAME,password=$USER_PASSWORD]")
    done
    "$@" -cp "$libs/*" kafka.tools.StorageTool format --cluster-id "$(cat "$home/cluster")" \
        --config "$home/server.properties" "${scram[@]}" > "$home/format.log" 2>&1 \
        || { cat "$home/format.log" >&2; die "formatting $home failed"; }
    if [ -z "${KAFKA_PROPERTIES:-}" ]; then
        cp -r "$home/data/$metadata" "$home"
        mv --no-target-directory "$home/$metadata" "$kept" 2> /dev/null || rm -r "$home/$metadata"
    fi
}

# launch LIBS DIR NODE: start the process and do not wait; nothing to do for one that runs
launch() {
    local libs=$1 home="$2/$3" java
    need java python3
    if [ -e "$home/pid" ] && is_ours "$(cat "$home/pid")" "$home"; then return 0; fi
    java=(java -Xms64m "-Xmx${KAFKA_HEAP:-256m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto
        "${SHARED:--XX:SharedArchiveFile=$libs/classes.jsa}"
        -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true
        -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info)
    if [ ! -e "$home/data/meta.properties" ]; then format "$libs" "$home" "${java[@]}"; fi
    : > "$home/log"
    # A session of its own: a Ctrl-C at the terminal is for the test runner, not for the broker.
    setsid "${java[@]}" -cp "$libs/*" kafka.Kafka "$home/server.properties" >> "$home/log" 2>&1 < /dev/null &
    echo $! > "$home/pid"
}

# Not is_ours, which is false until the child has its new command line.
alive() { [ -r "/proc/$1/status" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; } 2> /dev/null

await() {
    local home="$1/$2" deadline=$(( SECONDS + ${KAFKA_WAIT:-120} ))
    # The port alone is open earlier.
    until grep -q "Kafka Server started" "$home/log"; do
        alive "$(cat "$home/pid")" || { tail -30 "$home/log" >&2; die "node $2 ended while it started"; }
        [ $SECONDS -lt $deadline ] || { tail -30 "$home/log" >&2; die "node $2 did not start in time"; }
        sleep 0.1
    done
}

nodes() { local file; for file in "$1"/*/server.properties; do file=${file%/server.properties}; echo "${file##*/}"; done; }

start() {
    local libs=$1 dir=$2 node starting=(); shift 2
    [ -e "$dir/env" ] || create "$dir" "$@"
    # The controller first: brokers that find none spin, 15 CPU seconds of it on a busy machine.
    for node in $(nodes "$dir" | sort -rn); do launch "$libs" "$dir" "$node" & starting+=($!); done
    for node in "${starting[@]}"; do wait "$node"; done
    for node in $(nodes "$dir"); do await "$dir" "$node"; done
    cat "$dir/env"
}

# signal DIR NODE SIGNAL: to a process of ours or to none; waits until it is gone after TERM and KILL
signal() {
    local home="$1/$2" pid
    [ -e "$home/pid" ] || return 0
    pid=$(cat "$home/pid")
    is_ours "$pid" "$home" || return 0
    kill "-$3" "$pid"
    case $3 in TERM | KILL) ;; *) return 0 ;; esac
    for _ in $(seq 300); do is_ours "$pid" "$home" || return 0; sleep 0.1; done
    [ "$3" = KILL ] || signal "$1" "$2" KILL
}

absolute() { mkdir -p "$1"; (cd "$1" && pwd); }

command=${1:-}
case $command in
    install) install "$(absolute "$2")" ;;
    start | start3)
        secure=; [ "${4:-}" != --secure ] || secure=yes
        libs=$(absolute "$2") dir=$(absolute "$3")
        install "$libs"
        if [ "$command" = start ]; then start "$libs" "$dir" "$secure" 1 1:broker,controller
        else start "$libs" "$dir" "$secure" 3 1:broker 2:broker 3:broker 9:controller; fi ;;
    up) dir=$(absolute "$3"); launch "$(absolute "$2")" "$dir" "$4"; await "$dir" "$4"; cat "$dir/env" ;;
    stop | kill | pause | resume)
        dir=$(absolute "$2")
        case $command in stop) sign=TERM ;; kill) sign=KILL ;; pause) sign=STOP ;; resume) sign=CONT ;; esac
        # brokers first: one without its controller waits long before it ends
        for node in ${3:-$(nodes "$dir")}; do signal "$dir" "$node" "$sign"; done ;;
    env) cat "$2/env" ;;
    pids)
        dir=$(absolute "$2")
        for node in $(nodes "$dir"); do
            pid=$(cat "$dir/$node/pid" 2> /dev/null || true)
            if [ -n "$pid" ] && is_ours "$pid" "$dir/$node"; then echo "$node $pid"; fi
        done ;;
    *) sed -n '2,21s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
