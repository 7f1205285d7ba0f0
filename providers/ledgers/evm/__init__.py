"""Anchors in the contract AgentMemoryAnchor on an EVM chain."""
