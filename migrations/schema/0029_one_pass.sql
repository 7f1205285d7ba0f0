-- The replica looks at all files in each pass, and lists a folder in Google Drive again after a start.

alter table memoryd.replica drop column page_token_of, drop column page_token, drop column compared_at;
drop index memoryd.replica_files_path;
