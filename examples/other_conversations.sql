-- What a user said in one conversation is found in another, by words and by meaning.
-- Run: psql "$DATABASE_URL" -qAtXf examples/other_conversations.sql

insert into conversation_messages (session_id, user_id, role, content) values
    ('00000000-0000-0000-0000-00000000c0de', '00000000-0000-0000-0000-00000000a11c', 'user', 'My sister Dora plays the tuba'),
    ('00000000-0000-0000-0000-00000000c0de', '00000000-0000-0000-0000-00000000a11c', 'assistant', 'How long has she played?');

-- A week later, in another conversation:
insert into conversation_messages (session_id, user_id, role, content) values
    ('00000000-0000-0000-0000-00000000cafe', '00000000-0000-0000-0000-00000000a11c', 'user', 'Which instrument does Dora play?');

select content from recall(
    'Which instrument does Dora play?', user_id => '00000000-0000-0000-0000-00000000a11c',
    options => '{"exclude_session": "00000000-0000-0000-0000-00000000cafe", "roles": ["user"]}');

-- Output:
-- My sister Dora plays the tuba
