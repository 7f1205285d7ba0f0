"""The trail: anchors as a Merkle log that proves what was remembered. Pure: hashes, notes, proofs and what they show."""
