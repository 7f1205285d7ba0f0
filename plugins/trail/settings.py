"""The settings of the memory trail, and of who else keeps what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, Field, SecretStr
from pydantic_core import PydanticCustomError

from daemon.settings.values import split_list

LEDGERS = ("rfc3161", "ipfs", "evm")
GONE_LEDGERS = {"witness": "memoryd asks no witnesses any more; time stamps (rfc3161) stand in their place"}
"""Those of earlier versions: what they kept stays listed, and they are left out with this reason."""


def known_ledgers(text: str) -> str:
    """Passes names of ledgers, separated by commas."""
    if any(name not in LEDGERS and name not in GONE_LEDGERS for name in split_list(text)):
        raise PydanticCustomError("ledgers", f"names separated by commas, of these: {', '.join(LEDGERS)}")
    return text


class Trail(BaseModel):
    heading: ClassVar = "Memory trail"

    trail_key: SecretStr | None = Field(
        None,
        description="Private key (PEM, Ed25519) that signs the checkpoints of the trail, or file: and the path of one of mode "
        "0600, which memoryd anchors new-key FILE makes. Empty: with the embedded Postgres trail.key in the data folder, made "
        "by itself; else no checkpoint is signed. docs/trail.md",
    )
    trail_checkpoint_minutes: Annotated[float, Field(gt=0, le=525_600)] = Field(
        5.0,
        description="Minutes between two checkpoints where fewer than 256 anchors are new. Without new ones none is signed.",
    )
    trail_payloads: bool = Field(
        False,
        description="Whether ledgers get what was anchored, and not only its hash: ipfs then keeps memories too, for everybody "
        "to read. What was published cannot be erased.",
    )


class Ledgers(BaseModel):
    heading: ClassVar = "Ledgers"

    ledgers: Annotated[str, AfterValidator(known_ledgers)] = Field(
        "",
        description="Who else keeps what the trail says, separated by commas: rfc3161, ipfs, evm. Empty: nobody. "
        "docs/ledgers.md",
    )
    tsa_url: str | None = Field(None, description="Address of an authority for time stamps of RFC 3161.")
    tsa_certificate: Path | None = Field(
        None,
        description="Certificates (PEM) of that authority: its root, and those between that its answers do not have.",
    )
    ipfs_url: str | None = Field(
        None, description="Address of the RPC of a Kubo node, such as http://127.0.0.1:5001."
    )
    ipfs_token: SecretStr | None = Field(
        None,
        description="Token for that RPC, where it wants one, or file: and the path of a file with it, of mode 0600.",
    )
    pinata_jwt: SecretStr | None = Field(
        None,
        description="Key (JWT) of Pinata, to pin there instead of on a Kubo node, or file: and the path of a file with it, of "
        "mode 0600.",
    )
    evm_rpc_url: SecretStr | None = Field(None, description="Address of the JSON-RPC of a node of the chain.")
    evm_chain_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(
        None, description="Number of the chain, such as 8453 for Base. Nothing is sent to another one."
    )
    evm_contract: str | None = Field(None, description="Address of the contract AgentMemoryAnchor.")
    evm_agent_id: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        None, description="As which agent memoryd writes there, such as the agent's ERC-8004 id."
    )
    evm_key: SecretStr | None = Field(
        None,
        description="Private key that pays for the transactions, in hex, or file: and the path of a file with it, of mode "
        "0600.",
    )
    evm_max_fee_gwei: Annotated[float, Field(gt=0, le=1_000_000)] = Field(
        2.0, description="Maximum price of a unit of gas. While it costs more, nothing is sent."
    )
