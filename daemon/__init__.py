"""The process: command line, settings, queue, workers, schedule."""

import os

# Before numpy is first imported, which is when it asks: its threads would take the cores from Postgres, for products too small
# to gain by them. The user's word wins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
