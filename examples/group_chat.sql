-- A group chat: its members find what is said in it, and nobody else; who leaves keeps only what they said themselves.
-- Run: psql "$DATABASE_URL" -qAtXf examples/group_chat.sql

insert into chat_groups (id, platform, group_name) values ('00000000-0000-0000-0000-000000006a4d', 'telegram', 'garden');

insert into chat_group_members (chat_id, user_id)
values ('00000000-0000-0000-0000-000000006a4d', '00000000-0000-0000-0000-00000000a11c'),
       ('00000000-0000-0000-0000-000000006a4d', '00000000-0000-0000-0000-000000000b0b');

insert into conversation_messages (session_id, chat_id, user_id, role, content)
select '00000000-0000-0000-0000-0000005e5510', '00000000-0000-0000-0000-000000006a4d', m.user_id, m.role, m.content
from (values ('00000000-0000-0000-0000-00000000a11c'::uuid, 'user', 'The wheelbarrow stands behind the shed'),
             ('00000000-0000-0000-0000-000000000b0b'::uuid, 'user', 'I need the wheelbarrow on Sunday'),
             (null, 'assistant', 'Noted: the wheelbarrow is yours on Sunday')) as m(user_id, role, content);

begin;

set local role memoryd_user;
set local request.jwt.claims = '{"sub": "00000000-0000-0000-0000-000000000b0b"}';

-- finds I need the wheelbarrow on Sunday; Noted: the wheelbarrow is yours on Sunday; The wheelbarrow stands behind the shed
select content from recall('wheelbarrow') order by 1;

reset role;

commit;

delete from chat_group_members where user_id = '00000000-0000-0000-0000-000000000b0b';

begin;

set local role memoryd_user;
set local request.jwt.claims = '{"sub": "00000000-0000-0000-0000-000000000b0b"}';

-- finds I need the wheelbarrow on Sunday
select content from recall('wheelbarrow') order by 1;

reset role;

commit;

-- Output:
-- I need the wheelbarrow on Sunday
-- Noted: the wheelbarrow is yours on Sunday
-- The wheelbarrow stands behind the shed
-- I need the wheelbarrow on Sunday
