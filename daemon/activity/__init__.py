"""What the daemons did, as history in the database: written each minute, rolled up by the sweep, read for plots."""
