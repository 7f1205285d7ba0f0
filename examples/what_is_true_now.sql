-- What was true and is not any more: recall finds what holds now, and the past can be asked for.
-- Run: psql "$DATABASE_URL" -qAtXf examples/what_is_true_now.sql

insert into agent_memory (agent_id, user_id, kind, content, valid_from) values
    ('guide', '00000000-0000-0000-0000-000000000a22', 'fact', 'Lena lives in Leipzig', now() - interval '60 days');
select wait_until_idle();

select supersede_memory(id, 'Lena lives in Lisbon') is not null from agent_memory where content = 'Lena lives in Leipzig';

select content from recall('Where does Lena live?', user_id => '00000000-0000-0000-0000-000000000a22');

select content, valid_to is null as still
from memory_as_of(now() - interval '30 days', user_id => '00000000-0000-0000-0000-000000000a22');

-- Output:
-- t
-- t
-- Lena lives in Lisbon
-- Lena lives in Leipzig|f
