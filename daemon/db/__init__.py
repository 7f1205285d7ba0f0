"""The way to the database: the pool, the migrator, and the indexes that are built aside."""
