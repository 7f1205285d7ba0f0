"""Spans for OpenTelemetry: from the insert of a row that names its trace until what follows from it is committed.

A row names its trace by `traceparent` (W3C Trace Context) in its metadata; a request in its column. An optional room: nothing
of it is loaded unless the environment names a collector.
"""
