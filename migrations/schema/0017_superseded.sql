-- Which memory was replaced by this one: the history of a memory is found from either end (memoryd web).

-- In a table that has rows the index is built once this is committed, while others write
-- (daemon/db/key_index.py).
do $$
begin
    if not exists (select from public.agent_memory) then
        create index if not exists agent_memory_superseded on public.agent_memory (superseded_by)
            where superseded_by is not null;
    end if;
end
$$;
