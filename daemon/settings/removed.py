"""Settings that memoryd had, and has no more: each with what holds now.

Promise: a name that is gone stops nothing. It counts for nothing, and each start says so, once for each name.
"""

from __future__ import annotations

REMOVED = {
    "ANCHOR_DECISIONS": "the words are in docs/trail.md; anchor other memories with memoryd.anchor()",
    "ANCHOR_INCIDENTS": "the words are in docs/trail.md; anchor other memories with memoryd.anchor()",
    "ANCHOR_MILESTONES": "the words are in docs/trail.md; anchor other memories with memoryd.anchor()",
    "AUDIT": "reads and writes are logged, but with MEMORYD_AUDIT_DAYS=0",
    "CLAIM_SECONDS": "30 seconds",
    "CLEANUP_SECONDS": "300 seconds",
    "DATABASES_AT_ONCE": "8 databases",
    "DREAM_EVERY_HOURS": "6 hours",
    "DROP_SCAN_SECONDS": "30 seconds",
    "DROP_SETTLE_SECONDS": "2 seconds",
    "EMBEDDER_CORES": "half of the machine's cores, two at least",
    "EVM_CONFIRMATIONS": "12 blocks",
    "EXECUTOR_OUTPUT_BYTES": "16 MB",
    "HEARTBEAT_SECONDS": "30 seconds",
    "MAX_ATTEMPTS": "15 attempts",
    "PENDING_PER_USER": "100 requests and commands",
    "PINATA_URL": "Pinata's own address",
    "PREVIOUS_EMBEDDINGS_DAYS": "30 days",
    "PUBLIC_NOTIFICATIONS": "they are sent",
    "READY_LAG_SECONDS": "60 seconds",
    "REPLICA_SCAN_SECONDS": "60 seconds",
    "REST_DISCONNECTED": "MEMORYD_SUSPEND_MINUTES says for how long there is no connection",
    "REST_MINUTES": "60 minutes; without a connection MEMORYD_SUSPEND_MINUTES",
    "REST_SECONDS": "60 seconds",
    "RETRY_MAX_SECONDS": "300 seconds",
    "SUMMARY_SECONDS": "60 seconds",
    "TRAIL_CHECKPOINT_LEAVES": "256 anchors",
    "TRAIL_SECONDS": "a twentieth of MEMORYD_TRAIL_CHECKPOINT_MINUTES",
    "WITNESS_KEY": "time stamps (rfc3161) stand in the place of witnesses",
    "WITNESS_URL": "time stamps (rfc3161) stand in the place of witnesses",
}
"""By name without the prefix."""
