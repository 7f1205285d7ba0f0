"""Those who keep what the trail says outside of the database: witnesses, time stamps, IPFS, a chain."""
