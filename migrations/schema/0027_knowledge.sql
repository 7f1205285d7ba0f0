-- What the team knows is kept apart by organisation, scored when it is written, and its decisions have
-- shapes.

alter table public.shared_knowledge add column said_again integer not null default 0;
comment on column public.shared_knowledge.said_again is
    'How often note_knowledge() was given what this entry says already, and strengthened it instead of '
    'storing it again.';
comment on column public.shared_knowledge.org_id is
    'The organisation that it belongs to; null: the one of all who name none.';
comment on column public.shared_knowledge.surprise_score is
    '0 (known already) to 1 (new): how little of it was known when it was written. Computed unless given.';
comment on column public.shared_knowledge.related_ids is
    'Entries that belong to it; of a correction those that it corrects, of an outcome its decision. One that '
    'is deleted is removed from here too.';
comment on column public.shared_knowledge.decision_context is
    'Of a decision: reasoning, alternatives, assumptions, kill_criteria, review_by.';
comment on column public.shared_knowledge.outcome is
    'Of a decision or an outcome: result, scored_at, success, notes; of a decision also scored_by, the id of '
    'the outcome.';

-- Entries that say the very same, in one organisation.
create index shared_knowledge_text on public.shared_knowledge (
    hashtextextended(title || E'\n' || content, 0));
-- The newest decisions.
create index shared_knowledge_decisions on public.shared_knowledge (created_at desc)
    where category = 'decision';

-- Locks of note_knowledge(), so that the same text given twice at once is stored once.
insert into memoryd.locks (name) select 'knowledge ' || n from generate_series(0, 63) n;

-- The organisation of the caller: the setting memoryd.org_id, else org_id in the claims of their token.
-- Null: they name none ('all' says so too, whatever the claims say). What is no UUID is an error, so that a
-- typing error does not open what others know.
create function memoryd.caller_org() returns uuid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return nullif(coalesce(
        nullif(current_setting('memoryd.org_id', true), ''),
        nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'org_id'), 'all')::uuid;
exception when invalid_text_representation then
    raise exception 'the caller''s organisation is no UUID'
        using errcode = 'invalid_parameter_value',
              hint = 'Set memoryd.org_id to a UUID, or leave it and the claim org_id out.';
end
$$;
comment on function memoryd.caller_org is
    'The caller''s organisation: the setting memoryd.org_id, else org_id in request.jwt.claims; null: none.';
alter table public.shared_knowledge alter column org_id set default memoryd.caller_org();

-- The scope in which the knowledge of an organisation (null: of all who name none) is searched.
create function memoryd.org_scope(p_org uuid) returns bigint
language sql immutable parallel safe
return hashtextextended('knowledge of ' || coalesce(p_org::text, 'no organisation'), 0);

-- Knowledge gets a scope for each organisation. The views are made again by functions/tables/views.sql.
drop view if exists memoryd.source_knowledge cascade;
alter table public.shared_knowledge drop column scope;
alter table public.shared_knowledge
    add column scope bigint not null generated always as (memoryd.org_scope(org_id)) stored;
comment on column public.shared_knowledge.scope is 'The body of text that it is searched in.';

-- Its entries are made again there, in the background.
delete from memoryd.entries where source = 'knowledge';
delete from memoryd.spare_entries where source = 'knowledge';
delete from memoryd.unindexed where source = 'knowledge';
insert into memoryd.unindexed (scope, source, id)
select k.scope, 'knowledge', k.id from public.shared_knowledge k;
insert into memoryd.jobs (topic, ref, payload)
select 'index', k.id, '{"source": "knowledge"}'
from public.shared_knowledge k
where not exists (select from memoryd.jobs j where j.topic = 'index' and j.ref = k.id);
