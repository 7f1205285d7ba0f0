-- A dream draws a conclusion from tasks that failed in the same way. Without a request one comes when the fleet is idle.
-- Run: psql "$DATABASE_URL" -qAtXf examples/dream.sql

insert into agent_memory (agent_id, kind, content)
values ('miller', 'error', 'Task: build the mill → failed (exit 1) the millstone cracked'),
       ('miller', 'error', 'Task: build the mill again → failed (exit 1) the millstone cracked');
select wait_until_idle();

insert into memory_requests (kind) values ('dream');
select wait_until_idle();

select category, confidence, insight from dream_insights where insight like '%millstone%';

-- Output:
-- t
-- t
-- correction|0.6|2 failures around build, mill, millstone, cracked (latest: ... the millstone cracked)
