"""Files of others: found, watched, decoded, and read in a confined process."""
