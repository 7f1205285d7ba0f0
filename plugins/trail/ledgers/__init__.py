"""Those who keep what the trail says outside of the database: time stamps, IPFS, a chain."""
