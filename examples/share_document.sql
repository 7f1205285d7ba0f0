-- Documents shared with a role: each of four users finds what their row in user_memory_access allows.
-- Run: psql "$DATABASE_URL" -qAtXf examples/share_document.sql

insert into user_memory_access (user_id, user_role, access_level, allowed_contexts)
values ('00000000-0000-0000-0000-0000000c11e7', 'client', 0, '{}'),
       ('00000000-0000-0000-0000-00000e4910ee', 'employee', 1, '{}'),
       ('00000000-0000-0000-0000-00000000b0a4', 'employee', 1, '{board}'),
       ('00000000-0000-0000-0000-0000000ad419', 'admin', 0, null);

insert into documents (title, content, access_level, visibility_tags, metadata)
values ('Opening hours', 'The nursery opens at nine.', 0, '{}', '{}'),
       ('Delivery', 'The nursery delivers to clients on Fridays.', 0, '{client}', '{}'),
       ('Shifts', 'The nursery needs two people on Fridays.', 1, '{employee}', '{}'),
       ('Minutes', 'The nursery is to be sold.', 1, '{employee}', '{"project": "board"}'),
       ('Wages', 'The nursery pays on the last day of the month.', 2, '{board}', '{}'),
       ('Draft', 'The nursery may open a second house.', null, '{}', '{}');

insert into documents (title, content, user_id)
values ('My order', 'My order of the nursery: forty saplings.', '00000000-0000-0000-0000-0000000c11e7');

select wait_until_idle();

begin;

set local role memoryd_user;

set local request.jwt.claims = '{"sub": "00000000-0000-0000-0000-0000000c11e7"}';
-- the client finds Delivery; My order; Opening hours
select metadata->>'title' from recall('nursery') order by 1;

set local request.jwt.claims = '{"sub": "00000000-0000-0000-0000-00000e4910ee"}';
-- the employee finds Opening hours; Shifts
select metadata->>'title' from recall('nursery') order by 1;

set local request.jwt.claims = '{"sub": "00000000-0000-0000-0000-00000000b0a4"}';
-- the director finds Minutes; Opening hours; Shifts
select metadata->>'title' from recall('nursery') order by 1;

set local request.jwt.claims = '{"sub": "00000000-0000-0000-0000-0000000ad419"}';
-- the admin finds Delivery; Minutes; Opening hours; Shifts; Wages
select metadata->>'title' from recall('nursery') order by 1;

reset role;

commit;

-- Output:
-- t
-- Delivery
-- My order
-- Opening hours
-- Opening hours
-- Shifts
-- Minutes
-- Opening hours
-- Shifts
-- Delivery
-- Minutes
-- Opening hours
-- Shifts
-- Wages
