-- A user among those who take turns.
create or replace function memoryd.party_of(p_user uuid) returns bigint
language sql immutable parallel safe strict
return hashtextextended('user ' || p_user::text, 0);

-- When it is a party's turn next, as far as others wait: now, or a second after the last of what it has pending. Jobs are claimed in the
-- order of their turns, so who asks for one thing overtakes what another, who asked for hundreds, has not got yet. With nobody
-- else waiting nothing waits for its turn; and nobody waits for ever: whoever comes after a turn has passed stands behind it.
create or replace function memoryd.next_turn(p_topic text, p_party bigint) returns timestamptz
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select greatest(clock_timestamp(), (select j.turn + interval '1 second' from memoryd.jobs j
                                        where j.party = p_party and j.topic = p_topic
                                        order by j.turn desc
                                        limit 1))
$$;

-- Ends a statement by which an end user would have more pending than MEMORYD_PENDING_PER_USER; agents have no such limit. Called with
-- how many the statement adds, whose jobs are not queued yet. Statements at the same time do not see one another's.
create or replace function memoryd.check_pending(p_added bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    most integer;
    pending bigint;
begin
    if memoryd.caller_is_service() then
        return;
    end if;
    most := memoryd.setting_integer('pending_per_user');
    select count(*) into pending
    from (select from memoryd.jobs j where j.party = memoryd.party_of(memoryd.caller_id()) limit most) counted;
    if pending + p_added > most then
        raise exception 'at most % requests and commands of a user may be pending, and this would make %', most, pending + p_added
            using errcode = 'configuration_limit_exceeded',
                  hint = 'Nothing of this statement was taken. Wait for answers to those that are pending, then ask for fewer at once.';
    end if;
end
$$;
