-- Whether the links of a memory wait to be made (memoryd.associate_again), however many jobs there are.
create index if not exists jobs_associate on memoryd.jobs (ref) where topic = 'associate';
