-- A memory may have a key: the name under which its agent keeps it. To write the key again replaces the
-- memory. And a search may be limited to rows that are known already (memoryd.search_request).

alter table public.agent_memory add column key text collate "C";
-- 1,500 bytes: with the longest agent_id they still fit into a page of an index.
alter table public.agent_memory add constraint agent_memory_key_check check (
    (octet_length(key) between 1 and 1500 and key !~ '[\x01-\x1f\x7f]')
    or memoryd.refuse('key has ' || octet_length(key) || ' bytes, or a control character',
                      'A key has 1 to 1500 bytes, and no line breaks or other control characters.'))
    not valid;
comment on column public.agent_memory.key is
    'The name under which its agent keeps it: within a scope an agent has each key once. Null: it has none.';

-- In a table that has rows the index is built once this is committed, while others write
-- (daemon/db/key_index.py).
do $$
begin
    if not exists (select from public.agent_memory) then
        create unique index agent_memory_key on public.agent_memory (scope, agent_id, key)
            where key is not null;
    end if;
end
$$;

alter type memoryd.search_request add attribute ids uuid[];
