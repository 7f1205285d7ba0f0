-- The machinery: what the daemons share among themselves. Nobody but them is granted anything here.

create schema if not exists memoryd;
comment on schema memoryd is 'memoryd: the daemons'' own machinery. Users work with schema public.';

-- Settings that the database itself must know (its triggers read them), written by `memoryd migrate` and `memoryd run`.
create table memoryd.settings (
    key text primary key,
    value jsonb not null,
    updated_at timestamptz not null default now()
);
comment on table memoryd.settings is 'Settings the triggers and functions read: embedding dimensions, default TTLs, notifications.';

insert into memoryd.settings (key, value) values
    ('public_notifications', 'true'),
    ('notification_user_ids', 'false'),
    ('pending_per_user', '100'),
    ('ttl_hours.outcome', '72'),
    ('ttl_hours.error', '72'),
    ('ttl_hours.observation', '72'),
    ('ttl_hours.task_memory', '2160');

-- A job is a unit of the daemons' own work. There is no status column: claiming raises `attempt` and moves `visible_at`
-- into the future, so that the claim of a worker that died simply runs out. (id, attempt) is the fencing token.
-- `spared` counts the attempts that were handed back through no fault of the job (a provider was down, the daemon was
-- stopping): a job with attempt > spared has been claimed and never come back, or has failed, and runs with no fresh job from
-- then on. `alone` counts how often it was begun with no other and did not come back: a job is buried for its worker's death
-- only after that, never for the company it was in. `holder` is the number of the daemon that has claimed it.
-- What users ask for is done in turns, a second between two of one user: see memoryd.next_turn.
create table memoryd.jobs (
    id bigint generated always as identity primary key,
    topic text not null,
    lane text,
    ref uuid,
    payload jsonb,
    party bigint,
    turn timestamptz not null default '-infinity',
    attempt integer not null default 0,
    spared integer not null default 0,
    alone integer not null default 0,
    holder integer,
    visible_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    last_error text
) with (
    -- Rows live for milliseconds: room for the claim's update on the same page, and vacuum before the dead pile up.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.0,
    autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
comment on column memoryd.jobs.last_error is 'Why its last attempt failed that came back at all: null where none did.';
comment on table memoryd.jobs is 'Work that waits for a daemon, or is claimed by one. Settled jobs are deleted.';
comment on column memoryd.jobs.party is 'The user whom the job is for, as a hash (memoryd.party_of); null where it is the agents'' own, or no turns are taken.';
comment on column memoryd.jobs.turn is 'Jobs without a lane are claimed by turn, then in order.';

-- No index holds visible_at, so that a claim stays a HOT update: the jobs in flight are few, and a scan steps over them.
create index jobs_unlaned on memoryd.jobs (topic, turn, id) where lane is null;
create index jobs_laned on memoryd.jobs (topic, lane, id) where lane is not null;
-- What a user has pending, and the last turn of it.
create index jobs_party on memoryd.jobs (party, topic, turn) where party is not null;

-- A lane is an ordered stream of jobs of one topic (one agent's memories): held by one worker at a time.
create table memoryd.lanes (
    topic text not null,
    lane text not null,
    leased_until timestamptz not null default '-infinity',
    not_before timestamptz not null default '-infinity',
    token bigint not null default 0,
    holder integer,
    primary key (topic, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
comment on table memoryd.lanes is 'Leases on ordered streams of jobs; backoff of an ordered stream sits here (not_before).';

create table memoryd.dead_jobs (
    id bigint primary key,
    topic text not null,
    lane text,
    ref uuid,
    payload jsonb,
    attempts integer not null,
    error text not null,
    created_at timestamptz not null,
    died_at timestamptz not null default now()
);
comment on table memoryd.dead_jobs is 'Jobs that were given up, with the error. `memoryd dead` lists them, `memoryd dead requeue` tries again.';
create index dead_jobs_topic on memoryd.dead_jobs (topic, died_at);

create table memoryd.daemons (
    id uuid primary key,
    host text not null,
    pid integer not null,
    version text not null,
    doorbell text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    number integer,
    backend integer
);
comment on table memoryd.daemons is 'One row for each running daemon, refreshed by its heartbeat.';
comment on column memoryd.daemons.number is 'What its claims are marked with (holder).';
comment on column memoryd.daemons.backend is 'The server process that it listens on: gone, the daemon is. Null behind a transaction pooler.';

-- A tick of the schedule is a row: whichever daemon inserts it runs it, so no leader is needed.
create table memoryd.ticks (
    name text not null,
    scheduled_at timestamptz not null,
    daemon_id uuid not null,
    primary key (name, scheduled_at)
);
comment on table memoryd.ticks is 'Ticks of the schedule that some daemon has taken.';

-- Which daemon's built-in executor runs a command, and until when it may be believed.
create table memoryd.executions (
    command_id uuid primary key,
    daemon_id uuid not null,
    tries integer not null default 1,
    lease_until timestamptz not null
);
comment on table memoryd.executions is 'Commands that a daemon''s built-in executor runs now, with a lease that its heartbeat renews.';

-- Embeddings that were paid for, by content: a call repeated after a crash costs nothing.
create table memoryd.embeddings (
    embedder text not null,
    content_hash bytea not null,
    embedding vector(:dimensions) not null,
    used_at timestamptz not null default now(),
    primary key (embedder, content_hash)
);
comment on table memoryd.embeddings is 'Answers of remote embedders by SHA-256 of the text, kept while they are used.';

create function memoryd.setting_integer(p_key text) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select (value #>> '{}')::integer from memoryd.settings where key = p_key $$;

-- Whether so much work waits that what has time should leave it the processor: dreams of an idle fleet, builds of big indexes.
create function memoryd.is_busy() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select count(*) = 1000 from (select from memoryd.jobs where visible_at <= now() limit 1000) waiting $$;

-- A user among those who take turns.
create function memoryd.party_of(p_user uuid) returns bigint
language sql immutable parallel safe strict
return hashtextextended('user ' || p_user::text, 0);

-- When it is a party's turn next, as far as others wait: now, or a second after the last of what it has pending. Jobs are claimed in the
-- order of their turns, so who asks for one thing overtakes what another, who asked for hundreds, has not got yet. With nobody
-- else waiting nothing waits for its turn; and nobody waits for ever: whoever comes after a turn has passed stands behind it.
create function memoryd.next_turn(p_topic text, p_party bigint) returns timestamptz
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select greatest(clock_timestamp(), (select j.turn + interval '1 second' from memoryd.jobs j
                                        where j.party = p_party and j.topic = p_topic
                                        order by j.turn desc
                                        limit 1))
$$;

-- Ends a statement by which an end user would have more pending than MEMORYD_PENDING_PER_USER; agents have no such limit. Called with
-- how many the statement adds, whose jobs are not queued yet. Statements at the same time do not see one another's.
create function memoryd.check_pending(p_added bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    most integer;
    pending bigint;
begin
    if memoryd.caller_is_service() then
        return;
    end if;
    most := memoryd.setting_integer('pending_per_user');
    select count(*) into pending
    from (select from memoryd.jobs j where j.party = memoryd.party_of(memoryd.caller_id()) limit most) counted;
    if pending + p_added > most then
        raise exception 'at most % requests and commands of a user may be pending, and this would make %', most, pending + p_added
            using errcode = 'configuration_limit_exceeded',
                  hint = 'Nothing of this statement was taken. Wait for answers to those that are pending, then ask for fewer at once.';
    end if;
end
$$;

-- Ends a check constraint that failed with words that help: `check (<allowed> or memoryd.refuse(what, hint))`.
-- Strict, so that null, which a check lets pass, is let pass here too.
create function memoryd.refuse(p_message text, p_hint text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', p_message using errcode = 'check_violation', hint = p_hint;
end
$$;

-- Characters that nobody sees, or that move what is seen: controls, escape sequences, those that turn the
-- direction of writing, tags and variation selectors, blanks without width, separators of lines.
create function memoryd.unseen() returns text
language sql immutable parallel safe
return '[\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f'
       '\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]';

-- Whether a name is all seen: else two names could look the same, or a name could write lines of its own.
create function memoryd.is_plain(p_name text) returns boolean
language sql immutable parallel safe
return p_name !~ memoryd.unseen();

-- The rest of that check: `check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id))`.
create function memoryd.refuse_unseen(p_agent text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'agent_id has characters that are not seen' using errcode = 'check_violation',
        hint = 'Leave out line breaks and other controls, escape sequences, blanks without width, tags, and what '
               'turns the direction of writing.';
end
$$;

-- A text as one line for an agent's eyes: what memory.text.one_line() does of a terminal's text, and what
-- looks like the marker of a context is shown not to be one.
create function memoryd.one_line(p_text text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    flat text := p_text;
begin
    -- Nearly all texts have none of it.
    if flat ~ memoryd.unseen() then
        flat := regexp_replace(
            flat,
            '\x1b(\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?|[ -/]*[0-~]?)'
                '|\x9b[0-?]*[ -/]*[@-~]?|\x9d[^\x07\x1b\x9c\n]*(\x07|\x1b\\|\x9c)?',
            '', 'g');
        flat := regexp_replace(flat, '[\x09-\x0d\x85\u2028\u2029]', ' ', 'g');
        flat := regexp_replace(flat, memoryd.unseen(), '', 'g');
    end if;
    flat := btrim(regexp_replace(flat, '\s+', ' ', 'g'));
    if flat ~* '(--|- -|[\u2010-\u2015\u2212\u2500-\u257f\u2e3a\u2e3b\ufe58\ufe63\uff0d_=~*#]).*context' then
        flat := regexp_replace(
            flat,
            '([-\u2010-\u2012\u2212_=~*#\ufe63\uff0d] ?){2,}[^[:alnum:]]{0,5}((begin |end )?(of )?context)\M'
                '|[\u2013-\u2015\u2500-\u257f\u2e3a\u2e3b\ufe58]+[^[:alnum:]]{0,5}((begin |end )?(of )?context)\M',
            '[no marker] \2\5', 'gi');
    end if;
    return flat;
end
$$;

-- HMAC-SHA256 in hex, of a key of up to 64 bytes.
create function memoryd.hmac(p_key bytea, p_text text) returns text
language plpgsql immutable strict
set search_path = pg_catalog, pg_temp
as $$
declare
    inner_key bytea := decode(repeat('36', 64), 'hex');
    outer_key bytea := decode(repeat('5c', 64), 'hex');
begin
    for place in 0 .. length(p_key) - 1 loop
        inner_key := set_byte(inner_key, place, get_byte(inner_key, place) # get_byte(p_key, place));
        outer_key := set_byte(outer_key, place, get_byte(outer_key, place) # get_byte(p_key, place));
    end loop;
    return encode(sha256(outer_key || sha256(inner_key || convert_to(p_text, 'UTF8'))), 'hex');
end
$$;

-- With this key memoryd signs what it writes into the server's log, where everybody may write lines.
insert into memoryd.settings (key, value)
select 'log_key', to_jsonb(string_agg(replace(gen_random_uuid()::text, '-', ''), ''))
from generate_series(1, 3);

create function memoryd.sign_log(p_what text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.hmac(decode(value #>> '{}', 'hex'), p_what) from memoryd.settings where key = 'log_key'
$$;

-- Puts something on record where no transaction can take it back, and where a read-only one may write: in the
-- server's log. p_what holds ids and counts. Time, process and transaction are said, so that a line that was
-- copied is known for a copy. No client hears it. Beside a line of level LOG most servers write the statement too, and
-- with it the words of a question: there it is a warning, which a server that writes no statements may leave out.
create function memoryd.log_audit(p_what jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $$
declare
    said constant text := p_what || jsonb_build_object(
        'login', session_user, 'at', clock_timestamp(), 'pid', pg_backend_pid(),
        'transaction', coalesce(pg_current_xact_id_if_assigned()::text, 'none'), 'began', now());
begin
    if current_setting('log_min_error_statement') in ('fatal', 'panic') then
        raise log 'memoryd: audit % mac=%', said, memoryd.sign_log(said);
    else
        raise warning 'memoryd: audit % mac=%', said, memoryd.sign_log(said);
    end if;
end
$$;

create function memoryd.check_log_line(p_line text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce((
        select memoryd.sign_log(m.found[1]) = m.found[2]
        from regexp_match(p_line, 'memoryd: audit (\{.*\}) mac=([0-9a-f]{64})\s*$') as m(found)), false)
$$;
comment on function memoryd.check_log_line is
    'Whether a line of the server''s log, from "memoryd: audit" to its end, is memoryd''s own.';

-- Locks that only the machinery can take: rows of a closed table. An advisory lock with a known key can be held by any login.
-- Whose names would tell of a user or of a session share 256 rows, so that nothing of them is stored and no row is ever added.
create table memoryd.locks (
    name text primary key
);
comment on table memoryd.locks is 'Rows that are locked to exclude one another: see memoryd.lock().';

insert into memoryd.locks (name)
select unnest(array['executor', 'dream_sessions', 'lexeme_statistics'])
union all
select kind || n from unnest(array['user ', 'window ']) kind, generate_series(0, 255) n;

-- Held until the transaction ends. What comes after it is a statement of its own and sees what the last holder committed.
create function memoryd.lock(p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from memoryd.locks l where l.name = p_name for update;
    if not found then
        raise exception 'no lock %', p_name using errcode = 'undefined_object', hint = 'Names: select name from memoryd.locks.';
    end if;
end
$$;
comment on function memoryd.lock is 'Waits until nobody else holds the lock of this name, and holds it to the end of the transaction.';

create function memoryd.lock_shared(p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from memoryd.locks l where l.name = p_name for share;
    if not found then
        raise exception 'no lock %', p_name using errcode = 'undefined_object', hint = 'Names: select name from memoryd.locks.';
    end if;
end
$$;
comment on function memoryd.lock_shared is 'As memoryd.lock(), but any number may hold it so at once.';

-- Whether notifications are to be sent. A queue that is full fails the transaction that notifies: a listener that stands idle in
-- a transaction lets it grow, and any login can fill it. From half full on nothing is sent, and the daemons' poll does the work.
create function memoryd.may_notify() returns boolean
language sql volatile
return pg_notification_queue_usage() < 0.5;

-- The checks of how big a value may be: `check (memoryd.text_fits('content', content, 10000000))`. Calls, and no expressions of many
-- parts, since every statement prepares the checks of its table anew. Each is true, or ends the statement with words that help.
create function memoryd.text_fits(p_name text, p_text text, p_most integer) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    -- In bytes first: how many those are is known without reading a long text.
    return octet_length(p_text) <= p_most or length(p_text) <= p_most
        or memoryd.refuse(p_name || ' has ' || length(p_text) || ' characters',
                          'At most ' || to_char(p_most, 'FM999,999,999') || ' characters: give it in parts, or say where it is found.');
end
$$;

create function memoryd.list_fits(p_name text, p_list anyarray) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return cardinality(p_list) = 0 or (cardinality(p_list) <= 1000 and octet_length(p_list::text) <= 100000)
        or memoryd.refuse(p_name || ' has ' || cardinality(p_list) || ' entries, ' || octet_length(p_list::text) || ' bytes',
                          'At most 1,000 entries, and 100,000 bytes together.');
end
$$;

-- Deep values and long numbers break the parsers of who reads them (Python's take 4,300 digits of an integer).
create function memoryd.json_fits(p_name text, p_json jsonb) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
declare
    fault text;
begin
    if p_json = '{}' then
        return true;
    end if;
    -- Statement by statement: the text comes last, since of 1e9999 it is ten thousand times as long. Few characters hold no long number.
    if jsonb_path_exists(p_json, 'strict $.**{65 to last}') then
        fault := ' is nested deeper than 64 levels';
    elsif pg_column_size(p_json) <= 2000 and octet_length(p_json::text) <= 1000 then
        return true;
    elsif exists (select from jsonb_path_query(p_json, 'strict $.** ? (@.type() == "number")') as n(value)
                  where abs(n.value::numeric) >= 1e1000 or scale(n.value::numeric) > 1000) then
        fault := ' holds a number of more than 1,000 digits';
    elsif octet_length(p_json::text) > 1048576 then
        fault := ' has ' || octet_length(p_json::text) || ' bytes as text';
    end if;
    return fault is null
        or memoryd.refuse(p_name || fault, 'At most 1,048,576 bytes of JSON, 64 levels deep, its numbers of 1,000 digits.');
end
$$;

-- One constant payload for each topic: identical notifications collapse within a transaction.
create function memoryd.ring(p_topic text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select pg_notify('memoryd', p_topic) where memoryd.may_notify() $$;

-- Notifications for clients, with the switch to turn them off: NOTIFY takes a lock on the whole cluster at commit.
create function memoryd.announce(p_channel text, p_payload text) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select pg_notify(p_channel, p_payload)
    where (select value from memoryd.settings where key = 'public_notifications') = 'true'::jsonb
      and memoryd.may_notify()
$$;

-- How many jobs that were in a dead worker's hands are tried together, after so many deaths: first half a batch, then an eighth,
-- at last each alone. So a worker that was only killed costs a few claims, and one that a job kills finds that job.
create function memoryd.company(p_deaths integer, p_jobs integer, p_most_attempts integer) returns integer
language sql immutable parallel safe
return case when p_deaths = 1 and p_most_attempts > 2 then greatest(1, p_jobs / 2)
            when p_deaths = 2 and p_most_attempts > 3 then greatest(1, p_jobs / 8)
            else 1 end;

-- Lanes that have work and may be leased, the one with the oldest job first: up to p_lanes whose first job is fresh, and of those
-- whose first job was in a dead worker's hands as many again after one death, but a single one after more.
create function memoryd.free_lanes(p_topic text, p_lanes integer, p_most_attempts integer) returns text[]
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    -- One step of the index a lane, each at the lane's oldest job.
    with recursive pending(lane, oldest, deaths) as (
        (select j.lane, j.id, j.attempt - j.spared from memoryd.jobs j
         where j.topic = p_topic and j.lane is not null
         order by j.lane, j.id limit 1)
        union all
        select n.lane, n.id, n.deaths
        from pending p
        cross join lateral (
            select j.lane, j.id, j.attempt - j.spared as deaths from memoryd.jobs j
            where j.topic = p_topic and j.lane > p.lane
            order by j.lane, j.id limit 1
        ) n
    ), free as (
        select p.lane, p.oldest, p.deaths, p.deaths > 1 or p_most_attempts <= 2 as apart
        from pending p
        left join memoryd.lanes l on l.topic = p_topic and l.lane = p.lane
        where l.lane is null or (l.leased_until <= clock_timestamp() and l.not_before <= clock_timestamp())
    ), fresh as (
        select f.lane from free f where f.deaths = 0 order by f.oldest limit p_lanes
    ), suspects as (
        select f.lane, f.oldest, f.deaths, f.apart, bool_and(f.apart) over () as all_apart
        from free f where f.deaths > 0
        order by f.deaths, f.oldest
        limit p_lanes
    )
    select array_agg(c.lane)
    from (
        select lane from fresh
        union all
        select lane from suspects where not apart
        union all
        (select lane from suspects where all_apart order by deaths, oldest limit 1)
    ) c
$$;

-- Leases lanes that have work and reads their first jobs, an equal share of p_jobs each.
-- Three statements in one volatile function: the jobs are read with a snapshot younger than the lease, so a
-- previous holder's last commit is always seen. Jobs that did not come back are read with their like: see memoryd.company().
create function memoryd.claim_lanes(
    p_topic text, p_lanes integer, p_jobs integer, p_lease interval, p_most_attempts integer default 5,
    p_holder integer default null)
returns table (id bigint, lane text, ref uuid, payload jsonb, attempt integer, spared integer, alone integer,
               created_at timestamptz, token bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    candidates constant text[] := memoryd.free_lanes(p_topic, p_lanes, p_most_attempts);
    leased text[];
    share integer;
begin
    if candidates is null then
        return;
    end if;

    insert into memoryd.lanes (topic, lane)
    select p_topic, c from unnest(candidates) c
    where not exists (select from memoryd.lanes l where l.topic = p_topic and l.lane = c)
    on conflict do nothing;

    with chosen as materialized (
        select l.lane from memoryd.lanes l
        where l.topic = p_topic
          and l.lane = any(candidates)
          and l.leased_until <= clock_timestamp()
          and l.not_before <= clock_timestamp()
        for update skip locked
    ), held as (
        update memoryd.lanes l
        set leased_until = clock_timestamp() + p_lease, token = l.token + 1, holder = p_holder
        from chosen c
        where l.topic = p_topic and l.lane = c.lane
        returning l.lane
    )
    select array_agg(h.lane) into leased from held h;
    if leased is null then
        return;
    end if;
    share := greatest(1, p_jobs / cardinality(leased));

    return query
    with head as materialized (
        select h.id
        from unnest(leased) as l(lane)
        cross join lateral (
            select w.id, w.deaths,
                   row_number() over (order by w.id) as place,
                   first_value(w.deaths) over (order by w.id) as first,
                   min(w.deaths) over (order by w.id) as fewest,
                   max(w.deaths) over (order by w.id) as most
            from (
                select j.id, j.attempt - j.spared as deaths from memoryd.jobs j
                where j.topic = p_topic and j.lane = l.lane
                order by j.id
                limit share
            ) w
        ) h
        where h.fewest = h.first and h.most = h.first
          and (h.first = 0 or h.place <= memoryd.company(h.first, share, p_most_attempts))
    )
    update memoryd.jobs j
    set attempt = j.attempt + 1
    from head, memoryd.lanes l
    where j.id = head.id and l.topic = p_topic and l.lane = j.lane
    returning j.id, j.lane, j.ref, j.payload, j.attempt, j.spared, j.alone, j.created_at, l.token;
    if not found then
        update memoryd.lanes l set leased_until = '-infinity'
        where l.topic = p_topic and l.lane = any(leased);
    end if;
end
$$;
comment on function memoryd.claim_lanes is 'Leases lanes that have work and claims their first jobs, in order.';

revoke all on schema memoryd from public;
revoke all on all tables in schema memoryd from public;
revoke all on all functions in schema memoryd from public;
