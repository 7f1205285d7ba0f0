-- What pages list, in their order: dreams by when they began; the dead letters of a row, for its state. Both
-- tables have few rows, so the indexes are built at once.
create index if not exists dream_sessions_started on public.dream_sessions (started_at, id);
create index if not exists dead_letters_ref on memoryd.dead_letters (ref, died_at) where ref is not null;
