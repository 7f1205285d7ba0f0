#!/bin/sh
# Tells you when a job has waited too long, which means that no daemon keeps up: for cron, where you have no Prometheus.
# Run: sh examples/queue_alert.sh
set -eu

alert_above() {
    lag=$(memoryd status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["lag_seconds"] or 0)')
    if [ "${lag%.*}" -gt "$1" ]; then
        echo "memoryd: a job has waited for ${lag%.*} seconds. See: memoryd doctor" # | mail -s memoryd you@example.org
    else
        echo "no job has waited for more than $1 seconds"
    fi
}

alert_above 60
alert_above -1 # shows what you would be sent

# Output:
# no job has waited for more than 60 seconds
# memoryd: a job has waited for ... seconds. See: memoryd doctor
