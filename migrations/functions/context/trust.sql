-- Where what is remembered came from, as a trust class, and how a line of it is quoted in a context.
--
-- Computed from who may write a row and from what the row says of its source: so there is nothing that an end
-- user could set. What a row says can only lower its class. From the most to the least trusted:
--   own       the agent's own: outcomes of its commands, what it noted, knowledge that it wrote
--   agent     another agent's, or of all agents
--   person    what a person said or may have written: every row of a user, turns of people
--   document  a passage of a document
--   web       a passage of a web page

-- The class that a row's source claims: 'person', 'document' or 'web'; null where it claims none of these.
-- One pattern for all that a source may say, since Postgres keeps 32 compiled ones.
create or replace function memoryd.claimed_trust(p_source text, p_metadata jsonb) returns text
language sql immutable parallel safe
return (
    select case
        when s.said in ('htt', 'web', 'url') or c.claimed = 'web' or p_metadata ->> 'url' is not null
            then 'web'
        when s.said in ('doc', 'fil', 'pdf', 'dri', 'upl') or c.claimed = 'document' then 'document'
        when s.said in ('use', 'hum', 'per', 'cus', 'cli') or c.claimed = 'person' then 'person'
        when c.claimed = 'agent' then 'agent' end
    from left(lower(substring(
        p_source, '(?i)^\s*(https?://|(?:web|url|document|file|pdf|drive|upload|user|human|person|customer'
                  '|client)\M)')), 3) as s(said)
    cross join (select p_metadata ->> 'trust' as claimed) c);

-- The least trusted of these classes; nulls are left out. Null: there is none.
create or replace function memoryd.least_trusted(variadic p_classes text[]) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select c from unnest(p_classes) c where c is not null
    order by array_position(array['own', 'agent', 'person', 'document', 'web'], c) desc nulls first limit 1
$$;

-- The trust class of a memory. One of a user may have been written, or changed, by that user.
create or replace function memoryd.trust_of_memory(
    p_user uuid, p_agent text, p_source text, p_metadata jsonb, p_reader text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.least_trusted(
        case when p_user is not null then 'person'
             when p_agent = p_reader then 'own' else 'agent' end,
        memoryd.claimed_trust(p_source, p_metadata))
$$;

-- The trust class of an insight: the least of the memories that it was drawn from. Where all of these are
-- gone nobody knows. p_of_tasks: it quotes what happened alone, so what all agents share does not count.
create or replace function memoryd.trust_of_insight(
    p_user uuid, p_agent text, p_memories uuid[], p_reader text, p_of_tasks boolean default false)
returns text
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
begin
    return (
        select memoryd.least_trusted(variadic array_agg(memoryd.trust_of_memory(
                   m.user_id, m.agent_id, m.source, m.metadata, p_reader)) filter (
                   where not p_of_tasks or m.agent_id <> '_shared'
                      or memoryd.kin_of('memory', m.kind) = 'happened')
               || case when p_user is not null or (cardinality(p_memories) > 0 and count(*) = 0) then 'person'
                       when coalesce(p_agent, '_shared') <> p_reader and p_agent is not null then 'agent'
                       else 'own' end)
        from public.agent_memory m
        where m.id = any(p_memories));
end
$$;

-- The trust class of an entry of knowledge. `source` may name an agent, or how it came (auto, a2a); any other
-- name is a person's.
create or replace function memoryd.trust_of_knowledge(
    p_created_by text, p_created_by_name text, p_source text, p_reader text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select memoryd.least_trusted(
        case when p_created_by = p_reader then 'own' else 'agent' end,
        memoryd.claimed_trust(p_source, null),
        case when p_source is not null and lower(btrim(p_source)) not in (
                 'auto', 'a2a', 'agent', 'memoryd', '', lower(p_created_by),
                 lower(coalesce(p_created_by_name, p_created_by))) then 'person' end)
$$;

-- What stands before a quoted text: where it came from. Nothing before what the reader knows itself. p_whose:
-- the agent that said or noted it (null: one that has no name).
create or replace function memoryd.origin_mark(p_trust text, p_whose text, p_reader text) returns text
language sql immutable parallel safe
return case p_trust when 'own' then ''
                    when 'agent' then case p_whose when '_shared' then '(from what all agents share) '
                                                   when p_reader then '(said by you) '
                                                   else '(from another agent) ' end
                    when 'person' then '(from a person) ' when 'document' then '(from a document) '
                    when 'web' then '(from the web) ' else '(from a person) ' end;

-- A text in which nothing works but words: no link or image of Markdown or HTML (whose address could carry
-- data away), no tag or token that models take for the beginning of somebody's turn, no mark of code.
create or replace function memoryd.disarmed(p_text text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    flat text := p_text;
    packed text;
    names_role boolean;
    roles constant text := '\s*[/|!_]?\s*(system|developer|user|assistant|tool|inst|sys|im_start|im_end)\M';
    -- All that open something, but for those of sentences.
    brackets constant text := '<{\[\u00ab\u2039\u2045\u207d\u208d\u2308\u230a\u2329\u2768-\u2774\u27e6-\u27ee'
        '\u2983-\u2997\u29d8\u29da\u29fc\u2e02-\u2e28\u3008-\u3010\u3014-\u301a\ufe35-\ufe47\ufe59-\ufe5d';
begin
    if octet_length(flat) > length(flat)
       and memoryd.looks_like(flat) ~* ('[' || brackets || ']' || roles) then
        flat := memoryd.looks_like(flat);
    end if;
    -- Nearly all texts have none of these. Postgres keeps 32 compiled patterns, fewer than a context has: so
    -- each is applied only where a text has what it is for.
    if flat ~ ('[]`|' || brackets || ']') then
        packed := replace(flat, ' ', '');
        names_role := lower(flat) like any (
            '{%developer%,%user%,%assistant%,%tool%,%inst%,%sys%,%im_start%,%im_end%}'::text[]);
        if names_role then
            flat := regexp_replace(flat, '([' || brackets || '])(?=' || roles || ')', '\1 ', 'gi');
        end if;
        if packed like any ('{"%](%","%][%","%]:%"}'::text[]) then
            flat := regexp_replace(flat, '\]\s*([(\[:])', '] \1', 'g');
        end if;
        if strpos(packed, '![') > 0 then
            flat := regexp_replace(flat, '!\s*\[', '! [', 'g');
        end if;
        if strpos(packed, '<') > 0 then
            flat := regexp_replace(flat, '<(?=[/|!<_[:alpha:]])', '< ', 'g');
        end if;
        if strpos(packed, '|>') > 0 then
            flat := regexp_replace(flat, '\|\s*>', '| >', 'g');
        end if;
        if names_role then
            flat := regexp_replace(
                flat, '\[\s*(/?)\s*(INST|SYS|SYSTEM|USER|ASSISTANT|TOOL)\s*\]', '(\1\2)', 'gi');
        end if;
        if strpos(flat, '```') > 0 then
            flat := regexp_replace(flat, '`{3,}', '''''''', 'g');
        end if;
        if flat ~ '{{|}}' then
            flat := regexp_replace(regexp_replace(flat, '{(?={)', '{ ', 'g'), '}(?=})', '} ', 'g');
        end if;
    end if;
    return flat;
end
$$;

-- A text as a context quotes it: one clean line of at most p_length characters, disarmed. A word of more than
-- 80 characters is cut.
create or replace function memoryd.quoted(p_text text, p_length integer) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    flat text := memoryd.disarmed(memoryd.one_line(left(p_text, 2000)));
begin
    if length(flat) > 80 and flat ~ '\S{81}' then
        flat := regexp_replace(flat, '(\S{40})\S{41,}', '\1…', 'g');
    end if;
    return case when length(flat) > p_length then left(flat, p_length - 1) || '…' else flat end;
end
$$;

-- The part of a text that says most of these words (memoryd.lexemes_in), in p_most characters or so: the
-- sentences from the one on that has the rarest of them, or rows of a table, the best first, below the names
-- of its columns. If there is no room for one row, it has its first column, then those that say most of these
-- words. A short text, or one that says none of them, is whole. Null words: none were asked for.
create or replace function memoryd.excerpt(p_text text, p_words text[], p_most integer) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    parts text[] := '{}';
    -- Of each part the header of its table.
    heads text[] := '{}';
    head text;
    line text;
    best integer[];
    scores double precision[];
    rows text[];
    first integer;
begin
    if p_words is null or length(p_text) <= p_most then
        return p_text;
    end if;
    foreach line in array regexp_split_to_array(btrim(left(p_text, 8192)), '\s*\n\s*') loop
        if line ~ '^[|: -]*-[|: -]*$' and strpos(line, '|') > 0 and cardinality(parts) > 0 then
            head := parts[cardinality(parts)];
            heads[cardinality(heads)] := head;
            continue;
        end if;
        head := case when strpos(line, '|') > 0 then head end;
        parts := parts || case
            when head is null then regexp_split_to_array(line, '(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])')
            else array[line] end;
        heads := heads || array_fill(head, array[cardinality(parts) - cardinality(heads)]);
    end loop;
    select array_agg(s.nth order by s.score desc, s.nth), array_agg(s.score order by s.score desc, s.nth)
    into best, scores
    from (select w.nth, sum(w.weight) as score
          from (select p.nth, 1.0 / count(*) over (partition by w.word) as weight
                from unnest(parts, heads) with ordinality as p(part, head, nth)
                cross join lateral unnest(tsvector_to_array(memoryd.lexemes_in(p.part, 'english'))) as w(word)
                where w.word = any(p_words) and p.part is distinct from p.head) w
          group by w.nth) s;
    if best is null then
        return p_text;
    elsif heads[best[1]] is not null then
        head := heads[best[1]];
        rows := array(
            select parts[b.nth]
            from unnest(best, scores) as b(nth, score)
            where heads[b.nth] = head and b.score >= 0.7 * scores[1]
            order by b.score desc, b.nth);
        if length(head) + length(rows[1]) + 3 <= p_most then
            return (
                select head || string_agg(' / ' || r.line, '' order by r.nth)
                from (select u.line, u.nth, sum(length(u.line) + 3) over (order by u.nth) as used
                      from unnest(rows) with ordinality as u(line, nth)) r
                where length(head) + r.used <= p_most);
        end if;
        return (
            select '| ' || string_agg(c.name, ' | ' order by c.nth) || ' | / | '
                   || string_agg(c.cell, ' | ' order by c.nth) || ' |'
            from (select a.*, sum(length(a.name) + length(a.cell) + 6)
                                  over (order by a.nth = 1 desc, a.asked desc, a.nth) as used
                  from (select left(u.name, 100) as name, left(coalesce(u.cell, ''), p_most / 2) as cell,
                               u.nth,
                               (select count(*)
                                from unnest(tsvector_to_array(memoryd.lexemes_in(
                                    concat_ws(' ', u.name, u.cell), 'english'))) as w(word)
                                where w.word = any(p_words)) as asked
                        from unnest(regexp_split_to_array(btrim(head, '| '), '\s*(?<!\\)\|\s*'),
                                    regexp_split_to_array(btrim(rows[1], '| '), '\s*(?<!\\)\|\s*'))
                             with ordinality as u(name, cell, nth)) a) c
            where c.used <= p_most - 8);
    end if;
    first := case when length(array_to_string(parts[:best[1]], ' ')) <= p_most then 1 else best[1] end;
    while first > 1 and length(array_to_string(parts[first - 1:], ' ')) <= p_most loop
        first := first - 1;
    end loop;
    return case when first > 1 then '… ' else '' end || array_to_string(parts[first:], ' ');
end
$$;
