-- Names in messages are those that a language model found: rules look for none any more.

delete from memoryd.jobs where topic = 'names';
delete from memoryd.dead_letters where topic = 'names';
delete from memoryd.names where found_by = 'rule';
comment on column memoryd.names.found_by is 'The language model that found it.';
