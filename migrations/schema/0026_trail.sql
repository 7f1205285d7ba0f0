-- Witnesses are gone. What they signed stays listed; what waits for them would wait for ever.

delete from memoryd.trail_receipts where ledger = 'witness' and not final;

-- A checkpoint names the whole public key of who signed it, so the table of keys is not needed.

alter table memoryd.trail_checkpoints add column verifier text;
update memoryd.trail_checkpoints c set verifier = k.verifier
from memoryd.trail_keys k where k.key_id = c.key_id;
alter table memoryd.trail_checkpoints alter column verifier set not null, drop column key_id;
drop table memoryd.trail_keys;
comment on table memoryd.trail_checkpoints is
    'Signed checkpoints: how many leaves the log had, the root of their tree, and the public key.';
