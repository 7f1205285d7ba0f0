-- Names in a message: which of its words are names that the caller's rows know.

-- The runs of up to three words in a message, of its first hundred words: each may be a name.
create or replace function memoryd.word_runs(p_plain text) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select array_agg(r.run)
        from (select t.word, t.word || ' ' || lead(t.word) over w as two,
                     t.word || ' ' || lead(t.word) over w || ' ' || lead(t.word, 2) over w as three
              from string_to_table(regexp_replace(p_plain, '''s? ', ' ', 'g'), ' ')
                   with ordinality as t(word, place)
              where t.place <= 100 and t.word <> ''
              window w as (order by t.place)) w
        cross join lateral unnest(array[w.word, w.two, w.three]) as r(run)
        where length(w.word) > 1 and r.run is not null);
end
$$;

-- Names of agents (but for p_agent), clients, people and projects among these runs of words. Those that the
-- caller's organisation knows: for callers who name none, row-level security shows the names of all.
create or replace function memoryd.team_names(p_runs text[], p_agent text) returns text[]
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    return array(
        (select lower(a.agent_id) from public.agents a
         where lower(a.agent_id) = any(p_runs) and a.agent_id not in ('_shared', coalesce(p_agent, ''))
         limit 20)
        union
        (select n
         from (select k.tier, k.category, k.title, k.tags from public.shared_knowledge k
               where memoryd.names_of(k.tier, k.category, k.title, k.tags) && p_runs
                 and k.tier <> 'learning' and k.status <> 'archived'
                 and k.org_id is not distinct from memoryd.caller_org()
               limit 50) k
         cross join lateral unnest(memoryd.names_of(k.tier, k.category, k.title, k.tags)) n
         where n = any(p_runs)
         limit 20));
end
$$;

-- Names that a user has said before (memoryd.names) in a message: written as then; or of four letters and
-- more, where the message has no capital letters at all.
create or replace function memoryd.names_mentioned(p_message text, p_plain text, p_user uuid) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    if p_user is null or not exists (select from memoryd.names n where n.user_id = p_user) then
        return '{}';
    end if;
    return array(
        select distinct n.key
        from (select distinct r.run from unnest(memoryd.word_runs(p_plain)) r(run)) r
        join memoryd.names n on n.user_id = p_user and n.key = r.run
        where strpos(p_message, n.name) > 0
           or length(n.key) > 3 and left(p_message, 3000) = lower(left(p_message, 3000))
        limit 20);
end
$$;

-- Words of a message that are names in the rows that the caller may find: of speakers, what the user has
-- called by name, and what is called by name in two passages or more. The last only where the message itself
-- writes them as names, in the middle of a sentence. Counted in the scopes of the agent and of
-- the user; for an end user only in their own and those of their groups, all of which they may read.
create or replace function memoryd.known_names(p_message text, p_plain text, p_agent text, p_user uuid)
returns text[]
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    -- German writes every noun as others write names; so there is nothing to see in capital letters.
    capitals constant boolean := p_plain !~ ' (der|die|das|und|ist|nicht|ich|wir|ein|eine|dem|den|zu) ';
    whose constant uuid := case when caller.privileged then p_user else caller.user_id end;
    scopes bigint[];
    written text[];
    speakers text[];
begin
    if (not caller.privileged and caller.user_id is null)
       or memoryd.memory_is_off(coalesce(whose, caller.user_id)) then
        return '{}';
    end if;
    scopes := case when caller.privileged then array_remove(array[
                       case when p_user is not null then memoryd.scope_of(p_user, null) end,
                       case when p_agent is not null then memoryd.scope_of(null, p_agent) end,
                       memoryd.scope_of(null, '_shared'), 0], null)
                   else array_remove(memoryd.open_scopes(caller, null), 0) end;
    select array_agg(distinct w) into written
    from (select (regexp_matches(
              left(p_message, 3000), '[[:lower:][:digit:]),;:''’] ([[:upper:]][[:lower:]][[:alnum:]-]+)', 'g')
          )[1] as w
          limit 40) c
    where capitals and lower(w) not in (
        'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday', 'january', 'february',
        'march', 'april', 'may', 'june', 'july', 'august', 'september', 'october', 'november', 'december');
    speakers := (memoryd.name_lexemes(left(p_plain, 1000)))[1:60];
    return array(
        select distinct lower(s) from unnest(memoryd.speakers_named(speakers, scopes)) s
        where lower(s) not in ('user', 'agent', 'assistant', 'system', 'tool')
        union
        select n from unnest(memoryd.names_mentioned(p_message, p_plain, whose)) n
        union
        select w.name
        from (select lower(w) as name, memoryd.name_lexemes(w) as lexemes from unnest(written) w) w
        where cardinality(w.lexemes) = 1
          and (select sum(c.rows) from memoryd.count_lexeme_rows(caller, w.lexemes, scopes) c) > 1);
end
$$;
