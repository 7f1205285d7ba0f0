-- Parts of a daemon that fail and are started again, for status and doctor.

alter table memoryd.daemons add column failing jsonb not null default '{}';
comment on column memoryd.daemons.failing is
    'Parts that deal with the outside, have failed, and are started again: each with its error.';
