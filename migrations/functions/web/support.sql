-- What support does through memoryd web, put on record.

-- Puts on record what somebody in support does through memoryd itself (memoryd web), which acts as the
-- service for it: a read (p_verb select) of rows that support's policies do not guard, or a change. p_user
-- null: these are an agent's rows, and nobody's to be told of. For the owner only.
create or replace function memoryd.log_support(p_table text, p_user uuid, p_verb text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform memoryd.log_admin_read(p_table, p_user, p_verb) where p_user is not null;
end
$$;

-- Puts on record that somebody in support was shown names of users, to choose among them: one row about many
-- in a transaction, so that who types a name fills nobody's trail; the line in the server's log has the ids.
create or replace function memoryd.audit_admin_names(p_users uuid[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(p_users) > 0 then
        perform memoryd.log_admin_read('names', null);
        perform memoryd.log_audit(jsonb_build_object(
            'action', 'admin_read', 'table', 'names',
            'users', array(select distinct u from unnest(p_users) u limit 100),
            'admin', coalesce(memoryd.caller_id()::text, session_user::text)));
    end if;
end
$$;
