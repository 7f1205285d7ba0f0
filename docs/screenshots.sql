-- What the screenshots of docs/web.md show: a small shop for kitchens, its three agents and three customers. All of it is made up.

create function pg_temp.person(name text) returns uuid immutable return md5('screenshots ' || name)::uuid;

insert into agents (agent_id, identity, open_to_users) values
    ('support', 'the voice of Fjord Kitchens to its customers', true),
    ('planner', 'the planner of Fjord Kitchens: of kitchens, deliveries and installations', false),
    ('ops', 'who keeps the website and the stock of Fjord Kitchens running', false);

insert into agent_memory (agent_id, user_id, kind, content, metadata, source, created_at)
select agent, case when who is not null then pg_temp.person(who) end, kind, content, jsonb_build_object('tags', tags), source,
       now() - make_interval(hours => hours)
from (values
    ('support', 'mia', 'fact', 'Mia Berg lives in Bergen, third floor, and the lift is too small for worktops.', '{delivery}'::text[], 'chat', 700),
    ('support', 'mia', 'fact', 'Mia wants oak fronts without handles, and no gloss.', '{kitchen,taste}', 'chat', 650),
    ('support', 'mia', 'observation', 'Mia asked twice whether the oak comes from certified forests.', '{kitchen}', 'chat', 610),
    ('support', 'mia', 'goal', 'Mia wants the kitchen installed before her parents visit on 20 December.', '{delivery}', 'chat', 320),
    ('support', 'jonas', 'fact', 'Jonas Lind is allergic to the glue in chipboard: solid wood only.', '{health}', 'mail', 500),
    ('support', 'jonas', 'fact', 'Jonas prefers to be called after 17:00.', '{contact}', 'mail', 480),
    ('support', 'jonas', 'error', 'The first delivery for Jonas came with two left doors.', '{delivery}', 'ticket', 90),
    ('support', 'jonas', 'outcome', 'The right door for Jonas was sent by express and fitted the next day.', '{delivery}', 'ticket', 60),
    ('support', 'priya', 'fact', 'Priya Nair runs a cafe and needs a counter of 4.2 metres.', '{kitchen}', 'chat', 400),
    ('support', 'priya', 'fact', 'Priya pays by invoice with 30 days, to the company, not to her.', '{payment}', 'chat', 390),
    ('planner', null, 'observation', 'Worktops above 3 metres need two people and a crane above the second floor.', '{delivery}', null, 800),
    ('planner', null, 'outcome', 'The crane in Bergen was booked with Vest Lift: 3,200 kr for half a day.', '{delivery,crane}', null, 300),
    ('planner', null, 'error', 'Deliveries to Bergen on Mondays were late three times: the ferry is full.', '{delivery}', null, 280),
    ('planner', null, 'outcome', 'Deliveries to Bergen go on Tuesdays now, and the last four came in time.', '{delivery}', null, 120),
    ('planner', null, 'observation', 'Oak fronts take six weeks from the supplier, birch three.', '{supplier,oak}', null, 260),
    ('planner', null, 'observation', 'Oak fronts took seven weeks in November.', '{supplier,oak}', null, 70),
    ('ops', null, 'error', 'The stock import failed: the supplier sent prices with a comma.', '{stock}', null, 200),
    ('ops', null, 'outcome', 'The stock import takes commas and points in prices, tested with the last ten files.', '{stock}', null, 190),
    ('ops', null, 'error', 'The stock import failed again: a file without a header.', '{stock}', null, 30),
    ('ops', null, 'goal', 'The website shows the stock of the morning at nine, every day.', '{stock}', null, 210)
) as m(agent, who, kind, content, tags, source, hours);

select supersede_memory(id, 'Jonas prefers to be called after 18:30, since he has a new job.')
from agent_memory where content like 'Jonas prefers%';

insert into conversation_sessions (id, user_id, agent_id, title, channel)
values (pg_temp.person('chat'), pg_temp.person('mia'), 'support', 'When does my kitchen come?', 'web');
insert into conversation_messages (session_id, user_id, role, speaker, content, created_at)
select pg_temp.person('chat'), pg_temp.person('mia'), role, case role when 'user' then 'Mia Berg' end, content, now() - make_interval(mins => 30 - n)
from (values
    (1, 'user', 'Hello! My name is Mia and I live in Bergen. When does my kitchen come?'),
    (2, 'assistant', 'Hello Mia. The oak fronts arrive in the second week of December; installation is planned for the 16th.'),
    (3, 'user', 'Good. I work at the hospital in the mornings, so please come after 13:00.'),
    (4, 'assistant', 'The fitters come at 13:30. The crane for the worktop is booked.'),
    (5, 'user', 'My brother Erik will open the door, he lives in Oslo and stays with me.'),
    (6, 'assistant', 'I have noted that Erik opens the door.')
) as m(n, role, content) order by n;
insert into conversation_sessions (id, user_id, agent_id, channel)
select pg_temp.person(who || ' mail'), pg_temp.person(who), 'support', 'mail' from unnest(array['jonas', 'priya']) as w(who);
insert into conversation_messages (session_id, user_id, role, speaker, content, created_at)
select pg_temp.person(who || ' mail'), pg_temp.person(who), 'user', speaker, content, now() - make_interval(hours => hours)
from (values
    ('jonas', 'Jonas Lind', 'One of the two doors is for the other side. Can you send the right one?', 90),
    ('priya', 'Priya Nair', 'Please send the invoice to Nair Cafe AS, 30 days as always.', 390)
) as m(who, speaker, content, hours);

insert into documents (title, source, document_type, content, user_id, access_level) values
    ('Care of oiled oak', 'handbook/oak.md', 'text/markdown', e'# Care of oiled oak\n\nWipe with a damp cloth, never with a wet one. '
     || e'Spills of wine or vinegar are wiped off within a minute.\n\n## Oil\n\nOil the worktop twice a year, in the first year four '
     || e'times. Let it dry for a night.\n\n## Scratches\n\nSand along the grain with paper of 240, then oil.', null, 0),
    ('Installation above the second floor', 'handbook/crane.md', 'text/markdown', e'# Installation above the second floor\n\nMeasure '
     || e'the lift and the stairs. A worktop above 3 metres comes by crane: book it a week before.\n\n## Permits\n\nThe city wants '
     || e'two days'' notice for a crane on the street.', null, 0);

select note_knowledge(category => c, title => t, content => b, created_by => 'planner', tier => 'core')
from (values
    ('procedure', 'Crane in Bergen', 'Vest Lift, a week before; the city wants to know two days before.'),
    ('decision', 'Deliveries to Bergen on Tuesdays', 'Because the ferry of Monday is full. Reviewed after ten deliveries.'),
    ('client', 'Nair Cafe', 'Invoices go to Nair Cafe AS, 30 days.'),
    ('principle', 'No chipboard for allergies', 'Ask each customer, and note it before the plan is drawn.')
) as k(c, t, b);

insert into agent_commands (agent_id, message, output, exit_code, status, created_at, started_at, finished_at)
select agent, message, output, code, case code when 0 then 'completed' else 'failed' end, at, at, at + interval '40 seconds'
from (values
    ('ops', 'import the stock file of this morning', 'Imported 1,204 rows.', 0, 50),
    ('ops', 'import the stock file of this morning', 'line 1: no header', 1, 30),
    ('ops', 'import the stock file with the header of yesterday', 'Imported 1,198 rows.', 0, 29),
    ('planner', 'book the crane for the installation in Bergen', 'Booked for the 16th, 12:00 to 16:00.', 0, 26),
    ('planner', 'check the date of the oak fronts with the supplier', 'Week 50.', 0, 20)
) as c(agent, message, output, code, hours)
cross join lateral (select now() - make_interval(hours => hours) as at) t;
insert into agent_commands (agent_id, message) values ('planner', 'plan the delivery of the oak kitchen to Bergen');

-- A day of work, which the page Now draws.
insert into memoryd.activity (writer, number, began_at, topic, done, failed, waiting)
select md5('screenshots writer')::uuid, n, date_trunc('minute', now()) - make_interval(mins => n), t.topic,
       (6 + 5 * sin(n / 180.0) + n % 7)::integer, (n % 211 = 0)::integer, (4 + 4 * sin(n / 90.0) + n % 3)::integer
from generate_series(1, 1440) n, unnest(array['capture', 'index', 'context']) as t(topic);
