-- Words with marks (accents) are found as they are written, too. Rows in languages that have such words are
-- indexed again, in turns with what is written meanwhile; until then they are found by words without marks.
insert into memoryd.jobs (topic, ref, payload, fair_at)
select 'index', e.id, jsonb_build_object('source', e.source, 'again', true),
       clock_timestamp() + interval '4 milliseconds' * row_number() over ()
from (select distinct s.scope from memoryd.scope_statistics s
      where s.language <> all ('{english,arabic,armenian,hindi,nepali,tamil,yiddish}')) s
join memoryd.entries e on e.scope = s.scope
where e.passage = 0 and e.language <> all ('{english,arabic,armenian,hindi,nepali,tamil,yiddish}')
  and e.scope is distinct from e.group_scope;
