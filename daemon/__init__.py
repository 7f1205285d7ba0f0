"""The process: command line, settings, queue, workers, schedule and the Postgres that memoryd brings along."""
