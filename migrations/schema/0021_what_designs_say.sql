-- What designs say of documents and of runs.

-- A document that says that it is processing is not found until it says otherwise. So "no status was given"
-- must be told from "processing": the trigger stamp_document gives the status.
alter table public.documents alter column status drop default;

-- End users say when their runs ended.
alter table public.agent_sessions add constraint agent_sessions_completed_at_check
    check (memoryd.time_fits('completed_at', completed_at)) not valid;
