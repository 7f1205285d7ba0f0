-- The index of codes contains the key of the passage too: the search reads codes and keys from the index
-- alone, and of the table only the nearest passages. (A ctid cannot be read from an index alone.)
drop index memoryd.entries_codes;
create index entries_codes on memoryd.entries (scope) include (source, id, passage, code)
    where code is not null;
drop index memoryd.spare_entries_codes;
create index spare_entries_codes on memoryd.spare_entries (scope) include (source, id, passage, code)
    where code is not null;
