-- Why a memory is found: what its words and its meaning gave, and why another one would be left out of a context.
-- Run: psql "$DATABASE_URL" -qAtXf examples/explain_recall.sql

select what from remember('The spare key hangs behind the boiler', 'janitor');
select what from remember('The boiler was cleaned in May', 'janitor');
select wait_until_idle();

select content, lexical > 0 as by_words, dense > 0 as by_meaning, left_out
from explain_recall('where is the spare key?', 'janitor');

-- Output:
-- stored
-- stored
-- t
-- The spare key hangs behind the boiler|t|t|
-- The boiler was cleaned in May|f|f|linked too loosely
