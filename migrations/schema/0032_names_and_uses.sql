-- Names of people, projects and things that users mention in messages; insights that contexts and recalls
-- brought; and an index of the links that may fade.

-- What memoryd reads in messages beside facts. Computed from the message, and deleted with it; memoryd's own:
-- nobody is granted anything. names_said() shows users their own.
create table memoryd.names (
    message_id uuid not null references public.conversation_messages (id) on delete cascade,
    user_id uuid not null,
    key text not null,
    name text not null,
    kind text,
    found_by text not null,
    primary key (message_id, key)
);
comment on table memoryd.names is
    'Names in what users said: of a person, an animal, an organisation, a project, a place or another thing.';
comment on column memoryd.names.user_id is 'Who said it.';
comment on column memoryd.names.key is 'The name in lower case, by which it is looked up.';
comment on column memoryd.names.name is 'As it stands in the message.';
comment on column memoryd.names.kind is
    'person, animal, organisation, project, place or thing; null: not known.';
comment on column memoryd.names.found_by is 'rule, or the language model that found it.';
create index names_key on memoryd.names (user_id, key);

alter table public.memory_queries add column insight_ids uuid[] not null default '{}';
alter table public.memory_queries add constraint memory_queries_insight_ids_size
    check (memoryd.list_fits('insight_ids', insight_ids)) not valid;
comment on column public.memory_queries.insight_ids is 'Of a context or a recall: the insights in it.';
comment on column public.memory_queries.knowledge_counted is
    'Whether the uses in knowledge_ids and insight_ids are in accessed_count already.';
alter table public.dream_insights add column accessed_count integer not null default 0;
alter table public.dream_insights add column last_accessed_at timestamptz;
comment on column public.dream_insights.accessed_count is
    'How many contexts and recalls of its user (of none, where it has none) brought it; counted in batches.';
comment on column public.dream_insights.last_accessed_at is 'When one last did.';
drop index public.memory_queries_uncounted;
create index memory_queries_uncounted on public.memory_queries (query_time)
    where (knowledge_ids <> '{}' or insight_ids <> '{}') and not knowledge_counted;

-- A dream looks for links that nothing has used for a week: few of them, in a big table.
create index memory_associations_resting on public.memory_associations (rested_at) where automatic;

-- What internal tables say of themselves nowhere else.
comment on column memoryd.fact_sources.message_id is 'Stays when the message expires.';
comment on column memoryd.fact_sources.memory_id is 'The fact.';
comment on column memoryd.fact_sources.said_at is 'When the message was written.';
comment on column memoryd.memory_uses.uses is
    'Sum over retrievals of 1 / place, three times as much where it was judged useful, as of used_at.';
comment on column memoryd.memory_uses.used_at is 'When it was last retrieved.';
comment on column memoryd.model_calls.hour is 'The hour, in UTC, in which the calls were made.';
comment on column memoryd.model_calls.calls is
    'Calls, counted before they are made: also those of killed daemons.';
comment on column memoryd.model_calls.tokens is 'What the replies cost, as the server says or as estimated.';

-- Functions that have got an argument more or less: without this the old ones would remain beside the new.
do $$
declare
    each regprocedure;
begin
    for each in
        select p.oid from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'memoryd' and p.proname in ('log_recall', 'surprise_of', 'read_passages')
    loop
        execute 'drop function ' || each;
    end loop;
end
$$;
