"""The contract of the ledger `evm`: its source, its compiler, and putting it on a chain."""
