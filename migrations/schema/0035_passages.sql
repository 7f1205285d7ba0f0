-- A context may leave out rows by their ids, and rows that do not name the current project but for memories.

alter type memoryd.conditions add attribute project_only boolean;
alter type memoryd.conditions add attribute exclude text[];

-- What ranking reads of a passage: of its entry, or of a row that has none yet. A type of its own: the table
-- of entries is another one after the embedding model has changed.
create type memoryd.passage as (
    tid tid,
    scope bigint,
    source text,
    id uuid,
    embedding halfvec,
    weights sparsevec,
    length integer,
    row_length integer,
    times datemultirange,
    asks boolean,
    owner_id uuid,
    agent_id text,
    grants_metadata jsonb,
    is_current boolean,
    expires_at timestamptz,
    session_id uuid,
    position integer,
    speaker text,
    role text,
    created_at timestamptz,
    weight real);
