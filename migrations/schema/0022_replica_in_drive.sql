-- The replica may be a folder in Google Drive. Drive tells of changes since a page token, which survives a
-- restart.
alter table memoryd.replica add column page_token_of text, add column page_token text;
comment on column memoryd.replica.page_token_of is
    'The folder in Google Drive that the page token is of.';
comment on column memoryd.replica.page_token is
    'From which change on Google Drive is asked after a start. Null: the replica is elsewhere.';
