"""The SQL: numbered files of tables (schema/), and files of functions."""
