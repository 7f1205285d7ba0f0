"""The memory trail, and who else keeps what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, Field, SecretStr

from daemon.settings.values import known_ledgers


class Trail(BaseModel):
    heading: ClassVar = "Memory trail"

    trail_key: SecretStr | None = Field(
        None,
        description="Private key (PEM, Ed25519) that signs the checkpoints of the trail. Empty: that of "
        "MEMORYD_TRAIL_KEY_FILE. docs/trail.md",
    )
    trail_key_file: Path | None = Field(
        None,
        description="File of that key, which nobody else may read. memoryd anchors new-key FILE makes one. Empty: with the "
        "embedded Postgres trail.key in the data folder, made by itself; else no checkpoint is signed.",
    )
    trail_checkpoint_leaves: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        256, description="Number of new anchors after which a checkpoint is signed."
    )
    trail_checkpoint_minutes: Annotated[float, Field(gt=0, le=525_600)] = Field(
        5.0,
        description="Minutes between two checkpoints where fewer anchors are new. Without new ones none is signed.",
    )
    trail_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        15.0, description="Pause between two looks for new anchors, and for what ledgers are to keep."
    )
    trail_payloads: bool = Field(
        False,
        description="Whether ledgers get what was anchored, and not only its hash: ipfs then keeps memories too, for everybody "
        "to read. What was published cannot be erased.",
    )
    anchor_incidents: str = Field(
        "incident, outage, breach, exploit, exploited, vulnerability, compromised, data loss, rollback, rolled back, downtime, "
        "postmortem",
        description="Words, separated by commas, of outcomes that are anchored as incidents. The word none: no outcome is.",
    )
    anchor_decisions: str = Field(
        "decided, decision, chose, agreed to, approved, rejected",
        description="The same for decisions.",
    )
    anchor_milestones: str = Field(
        "milestone, launched, released, deployed, shipped, went live",
        description="The same for milestones.",
    )


class Ledgers(BaseModel):
    heading: ClassVar = "Ledgers"

    ledgers: Annotated[str, AfterValidator(known_ledgers)] = Field(
        "",
        description="Who else keeps what the trail says, separated by commas: witness, rfc3161, ipfs, evm. Empty: nobody. "
        "docs/ledgers.md",
    )
    witness_url: str | None = Field(None, description="Address of a witness of C2SP tlog-witness.")
    witness_key: str | None = Field(
        None, description="Public key of the witness (a vkey): name, id and key with a plus between."
    )
    tsa_url: str | None = Field(None, description="Address of an authority for time stamps of RFC 3161.")
    tsa_certificate: Path | None = Field(
        None,
        description="Certificates (PEM) of that authority: its root, and those between that its answers do not have.",
    )
    ipfs_url: str | None = Field(
        None, description="Address of the RPC of a Kubo node, such as http://127.0.0.1:5001."
    )
    ipfs_token: SecretStr | None = Field(None, description="Token for that RPC, where it wants one.")
    ipfs_token_file: Path | None = Field(
        None, description="File with that token, instead of it. Its mode must be 0600."
    )
    pinata_jwt: SecretStr | None = Field(
        None, description="Key (JWT) of Pinata, to pin there instead of on a Kubo node."
    )
    pinata_jwt_file: Path | None = Field(
        None, description="File with that key, instead of it. Its mode must be 0600."
    )
    pinata_url: str | None = Field(
        None, description="Address of a server that speaks Pinata's protocol. Empty: Pinata's own."
    )
    evm_rpc_url: SecretStr | None = Field(None, description="Address of the JSON-RPC of a node of the chain.")
    evm_chain_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(
        None, description="Number of the chain, such as 8453 for Base. Nothing is sent to another one."
    )
    evm_contract: str | None = Field(None, description="Address of the contract AgentMemoryAnchor.")
    evm_agent_id: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        None, description="As which agent memoryd writes there, such as the agent's ERC-8004 id."
    )
    evm_key: SecretStr | None = Field(None, description="Private key that pays for the transactions, in hex.")
    evm_key_file: Path | None = Field(
        None, description="File with that key, instead of it. Its mode must be 0600."
    )
    evm_confirmations: Annotated[int, Field(ge=1, le=100)] = Field(
        12, description="Blocks until an anchor is final, counted from its own."
    )
    evm_max_fee_gwei: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        2.0, description="Maximum price of a unit of gas. While it costs more, nothing is sent."
    )
