-- Carries a database that the seventeen files of the first edition made over to schema/ and functions/:
-- renamed columns, checks that are functions now, comments. Applied once, in the transaction of the upgrade
-- that then applies functions/. No row is rewritten, and no check is validated here (`not valid`), so that no
-- table stays locked while it is read: new rows are checked from now on, and the migrator validates the old
-- ones afterwards, while others write.

-- Drops what functions/ makes again: the policies, the triggers and the functions of schema memoryd that the
-- seventeen files made, each by its name. The functions that clients call stay, with the rights granted on
-- them; so do policies, triggers and functions of the user's own. What users built on one of these functions
-- stops the upgrade, and nothing is changed.
drop policy admin_read on public.agent_commands;
drop policy open_agents on public.agent_commands;
drop policy own_ask on public.agent_commands;
drop policy own_read on public.agent_commands;
drop policy service on public.agent_commands;
drop policy admin_read on public.agent_execution_logs;
drop policy own_read on public.agent_execution_logs;
drop policy service on public.agent_execution_logs;
drop policy admin_read on public.agent_memory;
drop policy own on public.agent_memory;
drop policy service on public.agent_memory;
drop policy admin_read on public.agent_sessions;
drop policy own_insert on public.agent_sessions;
drop policy own_read on public.agent_sessions;
drop policy own_update on public.agent_sessions;
drop policy service on public.agent_sessions;
drop policy admin_read on public.agents;
drop policy service on public.agents;
drop policy admin_read on public.chat_groups;
drop policy in_it_read on public.chat_groups;
drop policy service on public.chat_groups;
drop policy admin_read on public.conversation_messages;
drop policy own_delete on public.conversation_messages;
drop policy own_insert on public.conversation_messages;
drop policy own_read on public.conversation_messages;
drop policy own_update on public.conversation_messages;
drop policy service on public.conversation_messages;
drop policy shared_read on public.conversation_messages;
drop policy admin_read on public.conversation_sessions;
drop policy own on public.conversation_sessions;
drop policy service on public.conversation_sessions;
drop policy admin_read on public.documents;
drop policy own_delete on public.documents;
drop policy own_insert on public.documents;
drop policy own_read on public.documents;
drop policy own_update on public.documents;
drop policy service on public.documents;
drop policy admin_read on public.dream_insights;
drop policy own_read on public.dream_insights;
drop policy service on public.dream_insights;
drop policy admin_read on public.dream_sessions;
drop policy service on public.dream_sessions;
drop policy admin_read on public.memory_anchors;
drop policy own_read on public.memory_anchors;
drop policy service on public.memory_anchors;
drop policy admin_read on public.memory_associations;
drop policy both_ends_read on public.memory_associations;
drop policy service on public.memory_associations;
drop policy admin_read on public.memory_chunks;
drop policy own_delete on public.memory_chunks;
drop policy own_insert on public.memory_chunks;
drop policy own_read on public.memory_chunks;
drop policy own_update on public.memory_chunks;
drop policy service on public.memory_chunks;
drop policy shared_read on public.memory_chunks;
drop policy admin_read on public.memory_queries;
drop policy own on public.memory_queries;
drop policy service on public.memory_queries;
drop policy admin_read on public.memory_requests;
drop policy own_ask on public.memory_requests;
drop policy own_read on public.memory_requests;
drop policy service on public.memory_requests;
drop policy admin_read on public.memory_settings;
drop policy own on public.memory_settings;
drop policy service on public.memory_settings;
drop policy admin_read on public.shared_knowledge;
drop policy service on public.shared_knowledge;
drop policy admin_read on public.user_memory_access;
drop policy own_read on public.user_memory_access;
drop policy service on public.user_memory_access;

drop trigger request_died on memoryd.dead_jobs;
drop trigger drop_erased on memoryd.embeddings;
drop trigger check_login on memoryd.logins;
drop trigger commands_inserted on public.agent_commands;
drop trigger commands_updated on public.agent_commands;
drop trigger stamp_times on public.agent_commands;
drop trigger drop_when_off on public.agent_execution_logs;
drop trigger count_lexemes_deleted on public.agent_memory;
drop trigger count_lexemes_inserted on public.agent_memory;
drop trigger count_lexemes_updated on public.agent_memory;
drop trigger forget_index on public.agent_memory;
drop trigger memories_changed_delete on public.agent_memory;
drop trigger memories_changed_insert on public.agent_memory;
drop trigger memories_changed_update on public.agent_memory;
drop trigger memories_inserted on public.agent_memory;
drop trigger memories_updated on public.agent_memory;
drop trigger note_deleted on public.agent_memory;
drop trigger note_inserted on public.agent_memory;
drop trigger note_updated on public.agent_memory;
drop trigger rows_to_index_inserted on public.agent_memory;
drop trigger rows_to_index_updated on public.agent_memory;
drop trigger stamp_expiry_insert on public.agent_memory;
drop trigger stamp_expiry_update on public.agent_memory;
drop trigger stamp_memory on public.agent_memory;
drop trigger stamp_session on public.agent_sessions;
drop trigger agent_disabled on public.agents;
drop trigger turn_inserted on public.conversation_history;
drop trigger count_lexemes_deleted on public.conversation_messages;
drop trigger count_lexemes_inserted on public.conversation_messages;
drop trigger count_lexemes_updated on public.conversation_messages;
drop trigger drop_when_off on public.conversation_messages;
drop trigger forget_index on public.conversation_messages;
drop trigger messages_gone_deleted on public.conversation_messages;
drop trigger messages_gone_updated on public.conversation_messages;
drop trigger note_deleted on public.conversation_messages;
drop trigger note_inserted on public.conversation_messages;
drop trigger note_updated on public.conversation_messages;
drop trigger place_message on public.conversation_messages;
drop trigger rows_to_index_inserted on public.conversation_messages;
drop trigger rows_to_index_updated on public.conversation_messages;
drop trigger sessions_updated on public.conversation_sessions;
drop trigger documents_updated on public.documents;
drop trigger drop_when_off on public.documents;
drop trigger note_deleted on public.documents;
drop trigger note_inserted on public.documents;
drop trigger note_updated on public.documents;
drop trigger stamp_updated_at on public.documents;
drop trigger count_lexemes_deleted on public.dream_insights;
drop trigger count_lexemes_inserted on public.dream_insights;
drop trigger count_lexemes_updated on public.dream_insights;
drop trigger drop_dreamt on public.dream_insights;
drop trigger drop_when_off on public.dream_insights;
drop trigger forget_index on public.dream_insights;
drop trigger rows_to_index_inserted on public.dream_insights;
drop trigger rows_to_index_updated on public.dream_insights;
drop trigger count_lexemes_deleted on public.memory_chunks;
drop trigger count_lexemes_inserted on public.memory_chunks;
drop trigger count_lexemes_updated on public.memory_chunks;
drop trigger forget_index on public.memory_chunks;
drop trigger own_chunk on public.memory_chunks;
drop trigger rows_to_index_inserted on public.memory_chunks;
drop trigger rows_to_index_updated on public.memory_chunks;
drop trigger without_memory on public.memory_chunks;
drop trigger drop_when_off on public.memory_queries;
drop trigger answers_written_insert on public.memory_requests;
drop trigger answers_written_update on public.memory_requests;
drop trigger requests_inserted on public.memory_requests;
drop trigger requests_updated on public.memory_requests;
drop trigger settings_changed on public.memory_settings;
drop trigger settings_inserted on public.memory_settings;
drop trigger stamp_settings on public.memory_settings;
drop trigger count_lexemes_deleted on public.shared_knowledge;
drop trigger count_lexemes_inserted on public.shared_knowledge;
drop trigger count_lexemes_updated on public.shared_knowledge;
drop trigger forget_index on public.shared_knowledge;
drop trigger knowledge_deleted on public.shared_knowledge;
drop trigger rows_to_index_inserted on public.shared_knowledge;
drop trigger rows_to_index_updated on public.shared_knowledge;
drop trigger stamp_knowledge_insert on public.shared_knowledge;
drop trigger stamp_knowledge_update on public.shared_knowledge;
drop trigger stamp_updated_at on public.user_memory_access;

-- All at once: some use one another.
drop function
    memoryd.agent_disabled(),
    memoryd.agents_of(uuid),
    memoryd.all_user_rows(uuid),
    memoryd.announce(text, text),
    memoryd.announce_memories(jsonb, text),
    memoryd.answer(text, text, uuid, text, jsonb, vector, jsonb),
    memoryd.answer_as_user(text, text, uuid, text, jsonb, vector, jsonb),
    memoryd.answers_written(),
    memoryd.associate_again(uuid[]),
    memoryd.associate_lane(text, uuid),
    memoryd.audit_is_on(),
    memoryd.bm25(uuid[], text[], real[], real),
    memoryd.caller_access(),
    memoryd.caller_is_service(),
    memoryd.caller_role(),
    memoryd.caller_serves(),
    memoryd.candidates_conversation(bigint[], sparsevec, text[], bigint[], text[], bigint[],
        vector, integer),
    memoryd.candidates_document(bigint[], sparsevec, text[], bigint[], text[], bigint[], vector, integer),
    memoryd.candidates_insight(bigint[], sparsevec, text[], bigint[], text[], bigint[], vector, integer),
    memoryd.candidates_knowledge(bigint[], sparsevec, text[], bigint[], text[], bigint[], vector, integer),
    memoryd.candidates_memory(bigint[], sparsevec, text[], bigint[], text[], bigint[], vector, integer),
    memoryd.check_log_line(text),
    memoryd.check_login(),
    memoryd.check_match(vector, double precision, integer),
    memoryd.check_own(uuid, text),
    memoryd.check_pending(bigint),
    memoryd.claim_lanes(text, integer, integer, interval, integer, integer),
    memoryd.commands_inserted(),
    memoryd.commands_updated(),
    memoryd.company(integer, integer, integer),
    memoryd.compose_context(text, text, uuid, boolean, vector, uuid),
    memoryd.count_lexemes(),
    memoryd.documents_updated(),
    memoryd.drop_dreamt(),
    memoryd.drop_erased(),
    memoryd.drop_when_off(),
    memoryd.expire_conversations(integer, integer),
    memoryd.find_conversation(uuid[], sparsevec, vector, uuid, boolean, text, jsonb),
    memoryd.find_document(uuid[], sparsevec, vector, uuid, boolean, text, jsonb),
    memoryd.find_insight(uuid[], sparsevec, vector, uuid, boolean, text, jsonb),
    memoryd.find_knowledge(uuid[], sparsevec, vector, uuid, boolean, text, jsonb),
    memoryd.find_memory(uuid[], sparsevec, vector, uuid, boolean, text, jsonb),
    memoryd.fold_lexeme_changes(integer),
    memoryd.forget_agents(text[]),
    memoryd.forget_index(),
    memoryd.forget_words(text[]),
    memoryd.free_lanes(text, integer, integer),
    memoryd.grants_access(user_memory_access, integer, text[], jsonb),
    memoryd.has_shared(uuid),
    memoryd.hmac(bytea, text),
    memoryd.hold_off_erasures(),
    memoryd.import_rows(uuid, uuid, text, jsonb),
    memoryd.importing(),
    memoryd.is_busy(),
    memoryd.is_open(text),
    memoryd.jobs_of(uuid),
    memoryd.keys_of(text[], bigint[], bigint[]),
    memoryd.kind_weight(text),
    memoryd.knowledge_deleted(),
    memoryd.lanes_of(uuid),
    memoryd.learn_words(text[], uuid[]),
    memoryd.lists_to_probe(text, bigint[]),
    memoryd.lock(text),
    memoryd.lock_shared(text),
    memoryd.log_audit(jsonb),
    memoryd.may_notify(),
    memoryd.may_write_for(uuid),
    memoryd.memories_changed(),
    memoryd.memories_inserted(),
    memoryd.memories_updated(),
    memoryd.memory_is_off(uuid),
    memoryd.messages_gone(),
    memoryd.messages_of(uuid),
    memoryd.named_only_by(uuid, text[], text),
    memoryd.near_words(text[], vector[]),
    memoryd.next_turn(text, bigint),
    memoryd.note_admin_read(text, uuid),
    memoryd.note_admin_search(),
    memoryd.note_read(uuid, text, text, integer, integer),
    memoryd.note_write(),
    memoryd.one_line(text),
    memoryd.own_chunk(),
    memoryd.own_columns(text),
    memoryd.owners_of(uuid[]),
    memoryd.owns_session(uuid),
    memoryd.party_of(uuid),
    memoryd.place_message(),
    memoryd.prior_of(text, integer),
    memoryd.question(text, bigint[], integer, jsonb),
    memoryd.read_question(text, text, uuid),
    memoryd.recency(timestamp with time zone),
    memoryd.record_admin_read(text, uuid),
    memoryd.register_agents(text[], interval),
    memoryd.relevance(bigint, integer, double precision),
    memoryd.request_died(),
    memoryd.requests_inserted(),
    memoryd.requests_updated(),
    memoryd.ring(text),
    memoryd.rows_in(bigint[], text),
    memoryd.rows_shown(jsonb),
    memoryd.rows_to_index(),
    memoryd.says_when(text),
    memoryd.scopes_asked(text, uuid, boolean),
    memoryd.scopes_open(bigint[]),
    memoryd.score_memories(text[], uuid, boolean, text[], vector, integer, integer, uuid[]),
    memoryd.scrub_answers(uuid),
    memoryd.search(text, text, uuid, vector, integer, text[], jsonb, jsonb),
    memoryd.sessions_updated(),
    memoryd.setting_integer(text),
    memoryd.settings_changed(),
    memoryd.show_conversation(uuid[]),
    memoryd.show_document(uuid[]),
    memoryd.show_insight(uuid[]),
    memoryd.show_knowledge(uuid[]),
    memoryd.show_memory(uuid[]),
    memoryd.sign_log(text),
    memoryd.sparse_index(text),
    memoryd.speakers_named(text[], bigint[]),
    memoryd.stamp_expiry(),
    memoryd.stamp_knowledge(),
    memoryd.stamp_memory(),
    memoryd.stamp_session(),
    memoryd.stamp_settings(),
    memoryd.stamp_times(),
    memoryd.stamp_updated_at(),
    memoryd.sweep_audit(double precision),
    memoryd.take_jobs(uuid, text[]),
    memoryd.texts_of(uuid),
    memoryd.turn_inserted(),
    memoryd.turns_apart(),
    memoryd.unknown_words(text[]),
    memoryd.user_lock(uuid),
    memoryd.user_rows(uuid, text),
    memoryd.user_tables(),
    memoryd.weigh_messages(uuid[]),
    memoryd.weigh_text(text),
    memoryd.weigh_texts(uuid[], text[]),
    memoryd.windows(uuid[]);

-- These two have one more argument now. Beside a function of the old arguments, calls would be ambiguous.
drop function if exists
    public.match_memory(vector, double precision, integer, text, uuid),
    public.search_shared_knowledge(vector, double precision, integer, text, text, text[], boolean);

-- Names.
alter table memoryd.jobs rename column party to tenant;
alter table memoryd.jobs rename column turn to fair_at;
alter table memoryd.jobs rename column spared to snoozes;
alter table memoryd.jobs rename column alone to solo_attempts;
alter table memoryd.jobs rename column holder to claimed_by;
alter index memoryd.jobs_party rename to jobs_tenant;
alter table memoryd.lanes rename column holder to leased_by;
alter table memoryd.daemons rename column doorbell to wake_up;
alter table memoryd.dead_jobs rename to dead_letters;
alter index memoryd.dead_jobs_topic rename to dead_letters_topic;
alter table memoryd.dead_letters rename constraint dead_jobs_pkey to dead_letters_pkey;
alter table memoryd.answered_from rename column party to tenant;

-- Types, and the functions that tables are made with.
create type memoryd.caller as (
    user_id uuid,
    privileged boolean,
    is_service boolean
);
create type memoryd.question as (
    weights sparsevec,
    words text[],
    word_scopes bigint[],
    pairs text[],
    pair_scopes bigint[],
    speakers text[],
    ideal double precision,
    asks_when boolean
);
create or replace function memoryd.caller_id() returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    mapped uuid;
begin
    select l.user_id into mapped from memoryd.logins l where l.login = session_user;
    if found then
        return mapped;
    end if;
    return coalesce(
        nullif(current_setting('request.jwt.claim.sub', true), ''),
        nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
    )::uuid;
exception when others then
    return null;
end
$$;
create or replace function memoryd.refuse(p_message text, p_hint text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', p_message using errcode = 'check_violation', hint = p_hint;
end
$$;
create or replace function memoryd.unseen() returns text
language sql immutable parallel safe
return '[\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e'
       '\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb'
       '\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]';
create or replace function memoryd.is_plain(p_name text) returns boolean
language sql immutable parallel safe
return p_name !~ memoryd.unseen();
create or replace function memoryd.refuse_unseen(p_agent text) returns boolean
language plpgsql strict
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'agent_id has characters that are not seen' using errcode = 'check_violation',
        hint = 'Leave out line breaks and other controls, escape sequences, blanks without width, tags, '
               'and what turns the direction of writing.';
end
$$;
create or replace function memoryd.agent_id_fits(p_agent text, p_hint text, p_shared boolean default true)
returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_agent = '_shared' and not p_shared then
        return memoryd.refuse('agent_id is _shared', p_hint);
    elsif p_agent !~ '\S' or length(p_agent) > 200 then
        return memoryd.refuse('agent_id is blank or too long', p_hint);
    end if;
    return memoryd.is_plain(p_agent) or memoryd.refuse_unseen(p_agent);
end
$$;
create or replace function memoryd.time_fits(p_name text, p_time timestamptz) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return p_time between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse(p_name || ' is ' || p_time, 'Times from 1900 to 9999.');
end
$$;
create or replace function memoryd.text_fits(p_name text, p_text text, p_most integer) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Bytes first: their number is known without reading a long text.
    return octet_length(p_text) <= p_most or length(p_text) <= p_most
        or memoryd.refuse(
            p_name || ' has ' || length(p_text) || ' characters',
            'At most ' || to_char(p_most, 'FM999,999,999')
                || ' characters: give it in parts, or say where it is found.');
end
$$;
create or replace function memoryd.list_fits(p_name text, p_list anyarray) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
begin
    return cardinality(p_list) = 0 or (cardinality(p_list) <= 1000 and octet_length(p_list::text) <= 100000)
        or memoryd.refuse(
            p_name || ' has ' || cardinality(p_list) || ' entries, '
                || octet_length(p_list::text) || ' bytes',
            'At most 1,000 entries, and 100,000 bytes together.');
end
$$;
create or replace function memoryd.json_fits(p_name text, p_json jsonb) returns boolean
language plpgsql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$
declare
    fault text;
begin
    if p_json = '{}' then
        return true;
    end if;
    -- One test after another, the text as late as possible: the text of 1e9999 is a thousand times as long as
    -- its value. A text of up to 1,000 bytes contains no number that is too long.
    if jsonb_path_exists(p_json, 'strict $.**{65 to last}') then
        fault := ' is nested deeper than 64 levels';
    elsif pg_column_size(p_json) <= 2000 and octet_length(p_json::text) <= 1000 then
        return true;
    elsif exists (select from jsonb_path_query(p_json, 'strict $.** ? (@.type() == "number")') as n(value)
                  where abs(n.value::numeric) >= 1e1000 or scale(n.value::numeric) > 1000) then
        fault := ' holds a number of more than 1,000 digits';
    elsif octet_length(p_json::text) > 1048576 then
        fault := ' has ' || octet_length(p_json::text) || ' bytes as text';
    end if;
    return fault is null
        or memoryd.refuse(
            p_name || fault, 'At most 1,048,576 bytes of JSON, 64 levels deep, its numbers of 1,000 digits.');
end
$$;
create or replace function public.extract_keywords(body text) returns text[]
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(k.word order by k.place), '{}')
    from (
        select w.word, min(w.place) as place
        from string_to_table(
            regexp_replace(
                lower(left(body, 4000)),
                '[\x01-\x2f\x3a-\x60\x7b-\xbf\u2000-\u206f\u3000-\u303f]+', ' ', 'g'),
            ' '
        ) with ordinality as w(word, place)
        where length(w.word) between 3 and 60
          and w.word ~ '[^0-9]'
          and w.word <> all ('{
              about,after,again,all,also,and,any,are,because,been,before,being,between,both,but,can,could,did,
              does,doing,done,down,during,each,few,for,from,further,get,got,had,has,have,having,her,here,hers,
              him,his,how,into,its,itself,just,let,may,might,more,most,must,nor,not,now,off,once,only,other,
              our,ours,out,over,own,per,same,shall,she,should,some,such,than,that,the,their,theirs,them,then,
              there,these,they,this,those,through,too,under,until,upon,use,used,using,very,via,was,were,what,
              when,where,which,while,who,whom,why,will,with,would,you,your,yours,
              task,completed,failed,exit}'::text[])
        group by w.word
        order by 2
        limit 20
    ) k
$$;
create or replace function memoryd.scope_of(p_user uuid, p_agent text) returns bigint
language sql immutable parallel safe
return case when p_user is not null then hashtextextended('user ' || p_user::text, 0)
            when p_agent is not null then hashtextextended('agent ' || p_agent, 0)
            else 0 end;
create or replace function memoryd.lexemes_of(p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector('pg_catalog.english'::regconfig,
                   -- The last four characters, which are invisible, are deleted.
                   translate(left(p_text, 32768), E'/\\_.:@=#\u200b\u00ad\ufeff\u2060', '         '));
create or replace function memoryd.search_terms(p_scope bigint, p_lexemes tsvector) returns bigint[]
language sql immutable parallel safe strict
set search_path = pg_catalog, pg_temp
as $$ select array(select hashtextextended(l, p_scope) from unnest(tsvector_to_array(p_lexemes)) l) $$;
create or replace function memoryd.code_of(p_embedding vector) returns bit varying
language sql immutable parallel safe strict
return case
    when :dimensions not between 2 and 8000 then binary_quantize(p_embedding)
    else binary_quantize(p_embedding)
        || binary_quantize(
            subvector(l2_normalize(p_embedding), 1, :dimensions / 2)
            + subvector(l2_normalize(p_embedding), :dimensions - :dimensions / 2 + 1, :dimensions / 2))
        || binary_quantize(
            subvector(l2_normalize(p_embedding), 1, :dimensions / 2)
            - subvector(l2_normalize(p_embedding), :dimensions - :dimensions / 2 + 1, :dimensions / 2))
end;

-- Checks.
alter table public.agent_commands drop constraint agent_commands_agent_id_check;
alter table public.agent_commands add constraint agent_commands_agent_id_check
    check (memoryd.agent_id_fits(
        agent_id,
        'An agent_id has 1 to 200 characters. '
        '_shared is no agent: memories under that name are every agent''s.', p_shared => false)) not valid;
alter table public.agent_commands drop constraint agent_commands_agent_id_check1;
alter table public.agent_commands drop constraint agent_commands_created_at_check;
alter table public.agent_commands add constraint agent_commands_created_at_check
    check (memoryd.time_fits('created_at', created_at)) not valid;
alter table public.agent_commands drop constraint agent_commands_finished_at_check;
alter table public.agent_commands add constraint agent_commands_finished_at_check
    check (memoryd.time_fits('finished_at', finished_at)) not valid;
alter table public.agent_memory drop constraint agent_memory_agent_id_check;
alter table public.agent_memory add constraint agent_memory_agent_id_check
    check (memoryd.agent_id_fits(
        agent_id,
        'An agent_id has 1 to 200 characters; '
        '_shared is for every agent.')) not valid;
alter table public.agent_memory drop constraint agent_memory_agent_id_check1;
alter table public.agent_memory drop constraint agent_memory_created_at_check;
alter table public.agent_memory add constraint agent_memory_created_at_check
    check (memoryd.time_fits('created_at', created_at)) not valid;
alter table public.agent_memory drop constraint agent_memory_updated_at_check;
alter table public.agent_memory add constraint agent_memory_updated_at_check
    check (memoryd.time_fits('updated_at', updated_at)) not valid;
alter table public.agents drop constraint agents_agent_id_check;
alter table public.agents add constraint agents_agent_id_check
    check (memoryd.agent_id_fits(agent_id, 'An agent_id has 1 to 200 characters.')) not valid;
alter table public.agents drop constraint agents_agent_id_check1;
alter table public.conversation_messages drop constraint conversation_messages_agent_id_check;
alter table public.conversation_messages add constraint conversation_messages_agent_id_check
    check (memoryd.agent_id_fits(
        agent_id,
        'An agent_id has 1 to 200 characters; '
        'null where there is none.')) not valid;
alter table public.conversation_messages drop constraint conversation_messages_agent_id_check1;
alter table public.conversation_messages drop constraint conversation_messages_created_at_check;
alter table public.conversation_messages add constraint conversation_messages_created_at_check
    check (memoryd.time_fits('created_at', created_at)) not valid;
alter table public.conversation_sessions drop constraint conversation_sessions_agent_id_check;
alter table public.conversation_sessions add constraint conversation_sessions_agent_id_check
    check (memoryd.agent_id_fits(
        agent_id,
        'An agent_id has 1 to 200 characters; '
        'null where there is none.')) not valid;
alter table public.conversation_sessions drop constraint conversation_sessions_agent_id_check1;
alter table public.conversation_sessions drop constraint conversation_sessions_created_at_check;
alter table public.conversation_sessions add constraint conversation_sessions_created_at_check
    check (memoryd.time_fits('created_at', created_at)) not valid;
alter table public.documents drop constraint documents_created_at_check;
alter table public.documents add constraint documents_created_at_check
    check (memoryd.time_fits('created_at', created_at)) not valid;
alter table public.memory_chunks drop constraint memory_chunks_created_at_check;
alter table public.memory_chunks add constraint memory_chunks_created_at_check
    check (memoryd.time_fits('created_at', created_at)) not valid;
alter table public.shared_knowledge drop constraint shared_knowledge_created_at_check;
alter table public.shared_knowledge add constraint shared_knowledge_created_at_check
    check (memoryd.time_fits('created_at', created_at)) not valid;

-- Comments.
comment on schema memoryd is 'memoryd: the daemons'' own machinery. Users work with schema public.';
comment on table memoryd.settings is
    'Settings the triggers and functions read: embedding dimensions, default TTLs, notifications.';
comment on table memoryd.jobs is
    'Work that waits for a daemon, or is claimed by one. Completed jobs are deleted.';
comment on column memoryd.jobs.tenant is
    'The user whom the job is for, as a hash (memoryd.tenant_of); '
    'null where it is the agents'' own, or no turns are taken.';
comment on column memoryd.jobs.fair_at is 'Jobs without a lane are claimed by this time, then in order.';
comment on column memoryd.jobs.last_error is
    'The error of its last attempt that failed; null where none did.';
comment on table memoryd.lanes is
    'Leases on ordered streams of jobs. After a failure the whole stream waits until not_before.';
comment on table memoryd.dead_letters is
    'Dead letters: jobs that are not retried any more, with the error. `memoryd dead` lists them, '
    '`memoryd dead requeue` tries again.';
comment on table memoryd.daemons is 'One row for each running daemon, refreshed by its heartbeat.';
comment on column memoryd.daemons.wake_up is 'How it learns of new jobs: listen (notifications) or poll.';
comment on column memoryd.daemons.number is 'What its claims are marked with (claimed_by).';
comment on column memoryd.daemons.backend is
    'The server process of its listener: when that has ended, the daemon has. Null behind a transaction '
    'pooler.';
comment on table memoryd.ticks is 'Ticks of the schedule that some daemon has taken.';
comment on table memoryd.executions is
    'Commands that a daemon''s built-in executor runs now, with a lease that its heartbeat renews.';
comment on table memoryd.embeddings is
    'Answers of remote embedders by SHA-256 of the text, kept while they are used.';
comment on table memoryd.locks is 'Rows that are locked to exclude one another: see memoryd.lock().';
comment on table memoryd.logins is
    'Logins of single end users who connect without a gateway: each is that user, and claims are ignored.';
comment on function memoryd.caller_id is
    'The end user''s id: the login''s in memoryd.logins, '
    'else from request.jwt.claim.sub or request.jwt.claims.';
comment on table public.agents is 'Every agent that a service ever gave a command or a memory. '
    'Set enabled = false to have its commands cancelled.';
comment on column public.agents.identity is 'Who the agent is, in a line: it opens every context. Optional.';
comment on column public.agents.open_to_users is
    'Whether end users may give it commands. Its context contains what the agents know, and its output, '
    'which they read, may repeat it.';
comment on table public.agent_commands is
    'Tasks for agents. Insert one; its context is written, it is run, and its outcome is remembered.';
comment on column public.agent_commands.context is
    'What the agent should know before it starts; written by memoryd when the command becomes ready.';
comment on function public.extract_keywords is
    'The first 20 distinct keywords of a text: lower case, 3 letters and more, no stop words.';
comment on table public.agent_memory is
    'What agents remember. agent_id ''_shared'' is readable by every agent.';
comment on column public.agent_memory.ttl_hours is
    'Hours until it is forgotten, counted from when it is stored; null = permanent. Default by kind: '
    'outcome, error, observation 72; task_memory 2160; else permanent.';
comment on column public.agent_memory.command_id is
    'The command whose outcome this is; a command is remembered once.';
comment on column public.agent_memory.embedding is
    'Written by memoryd; null until indexed. Give your own only if it comes from the same model.';
comment on table public.memory_associations is 'Links from a memory to earlier ones; strength 0 to 1.';
comment on column public.memory_associations.automatic is
    'Made by memoryd from both memories'' words, at most five a memory; made again when those change. '
    'Others are deleted when those change.';
comment on table public.memory_queries is
    'Every retrieval: what was asked for and what came back. Judge it with mark_useful(id, true).';
comment on table public.dream_sessions is 'Every dream, with what it saw and wrote.';
comment on table public.dream_insights is
    'What dreams concluded. agent_id is null where the memories came from several agents.';
comment on column public.dream_insights.user_id is
    'The one user whose memories it was drawn from; null for the agents'' own. Users are never mixed.';
comment on table public.memory_requests is
    'Requests to memoryd: recall and context with the query''s embedding, a dream, an export, an erasure. '
    'LISTEN request_done, or poll status.';
comment on column public.memory_requests.user_id is
    'Who asks. The answer is made with that user''s rights: it contains nothing that they could not select '
    'themselves.';
comment on column public.memory_requests.result is
    'The answer. That of an export or an erasure is deleted an hour after finished_at, '
    'and status stays done.';
comment on table public.chat_groups is 'Group chats that messages come from.';
comment on column public.chat_groups.platform is 'Where the chat takes place, such as telegram or slack.';
comment on table public.conversation_sessions is
    'Conversations. A row is made with a session''s first message where there is none.';
comment on column public.conversation_sessions.user_id is
    'Whose conversation it is: every message in it is theirs. '
    'Null: of no user, or of several (a group chat).';
comment on column public.conversation_sessions.channel is
    'How the user and the agent talk, such as web or email.';
comment on table public.conversation_messages is
    'Messages of conversations, in order of message_index within a session.';
comment on column public.conversation_messages.user_id is
    'Whose message it is, whoever speaks. '
    'Left out: the end user who writes it, else the user of the session.';
comment on column public.conversation_messages.message_index is
    'The place within the session, from 0; left out: the next one.';
comment on column public.conversation_messages.speaker is
    'Who says it, by name, where a role is not enough. By it recall knows whom a question is about.';
comment on column public.conversation_messages.access_level is
    'Null: private to user_id. Else readable by users to whom user_memory_access grants that level, and the '
    'tags.';
comment on column public.conversation_messages.visibility_tags is
    'Of shared messages: readable by users who are allowed one of these tags; without tags, by all whom the '
    'level allows.';
comment on table public.documents is 'Documents. Their chunks are what is searched.';
comment on column public.documents.source is 'Where it came from, such as upload, email or an agent.';
comment on column public.documents.content_hash is 'SHA-256 of the content.';
comment on column public.documents.drop_path is 'Where in the drop folder it was found.';
comment on column public.documents.replica_path is 'Where its human-readable replica is.';
comment on column public.documents.last_modified_agent is 'When an agent, or memoryd, last changed it.';
comment on column public.documents.last_modified_human is 'When a human last changed its replica.';
comment on column public.documents.status is
    'processing: its chunks are not complete; conflict: an agent and a human changed it at the same time.';
comment on table public.memory_chunks is 'Chunks of documents, in order of chunk_index.';
comment on column public.memory_chunks.context is
    'What the chunk is about within its document: searched with it.';
comment on column public.memory_chunks.user_id is
    'The document''s user; taken from the document, whatever is written here.';
comment on column public.memory_chunks.visibility_tags is
    'Of shared chunks: readable by users who are allowed one of these tags; without tags, by all whom the '
    'level allows.';
comment on column public.memory_chunks.access_level is
    'Null: readable by the document''s user alone. Else by users to whom user_memory_access grants that '
    'level, and the tags.';
comment on table public.user_memory_access is
    'What shared chunks and messages a user may read. Without a row here: their own alone.';
comment on column public.user_memory_access.access_level is
    'Reads shared rows up to this level. A user_role of admin reads every level and tag.';
comment on column public.user_memory_access.allowed_tags is 'Of tagged rows, those that carry one of these.';
comment on column public.user_memory_access.visibility_scope is
    'own: nothing shared; tags: what is untagged or carries an allowed tag; all: whatever the tags.';
comment on column public.user_memory_access.allowed_contexts is
    'Of rows whose metadata name a context, only these; null: any.';
comment on table public.shared_knowledge is
    'What the team knows: share knowledge, not identity. Agents alone read and write it.';
comment on column public.shared_knowledge.tier is
    'core: always kept; working: of a project or thread; learning: decisions, corrections, insights, '
    'outcomes.';
comment on column public.shared_knowledge.source is 'Who or what it was learned from.';
comment on column public.shared_knowledge.surprise_score is '0 (expected) to 1; null for core and working.';
comment on column public.shared_knowledge.related_ids is
    'Entries that belong to it; one that is deleted is removed from here too.';
comment on column public.shared_knowledge.decision_context is
    'Of a decision: reasoning, alternatives, assumptions, kill_criteria.';
comment on column public.shared_knowledge.outcome is 'Of a decision: result, scored_at, success, notes.';
comment on column public.shared_knowledge.accessed_count is 'How often it was used; touch_knowledge counts.';
comment on column public.shared_knowledge.created_by is
    'The agent that wrote it, by agent_id; a uuid as text is allowed too.';
comment on column public.shared_knowledge.expires_at is
    'Of learning entries of low confidence: after 7 days unless given; null: never. Those that are unused '
    'by then are archived.';
comment on table public.agent_sessions is 'Runs of agents for a user, with their progress.';
comment on column public.agent_sessions.current_step is 'What is being done now, in words to show.';
comment on column public.agent_sessions.session_data is 'Whatever the run keeps for itself.';
comment on column public.agent_sessions.completed_at is
    'When it ended: completed, error or cancelled; null again once it is taken up again.';
comment on table public.agent_execution_logs is
    'What agents did, step by step; also the audit trail of who read and wrote a user''s memory.';
comment on column public.agent_execution_logs.session_id is
    'The run that the step belongs to; null for reads and writes outside of runs.';
comment on column public.agent_execution_logs.user_id is
    'Whose data it is about; a user reads the rows about them.';
comment on table public.memory_anchors is
    'Anchors of memories whose change must not go unnoticed: the anchors of an agent are a chain of hashes.';
comment on column public.memory_anchors.cid is 'Where the payload was pinned; null until then.';
comment on column public.memory_anchors.previous_hash is
    'content_hash of the agent''s anchor before; null for its first.';
comment on column public.memory_anchors.chain_tx is
    'The transaction that contains the hash, where there is a chain; null elsewhere.';
comment on column public.conversation_messages.embedding is
    'Of the message with those around it in its session; written by memoryd.';
comment on column public.memory_chunks.dense_embedding is
    'Of the chunk with its context; written by memoryd.';
comment on column public.shared_knowledge.embedding is 'Of title, content and tags; written by memoryd.';
do $$
declare
    searchable text;
    described text[];
begin
    foreach searchable in array array[
        'agent_memory', 'conversation_messages', 'memory_chunks', 'shared_knowledge', 'dream_insights'
    ] loop
        foreach described slice 1 in array array[
            ['sparse_embedding',
             'BM25 weights by lexeme, written by memoryd: the score of a question is their inner product.'],
            ['lexemes', 'The row''s own lexemes, written by memoryd; null until indexed.'],
            ['scope',
             'The body of text it is searched in: its user''s, else its agent''s, else 0, which is shared.'],
            ['code',
             'Signs of the embedding and of its halves'' sums and differences, two bits a dimension: '
             'what dense search looks through first.'],
            ['prior', 'How likely the text is to answer any question; written by memoryd.'],
            ['says_when', 'Whether it names a time; written by memoryd.']
        ] loop
            execute format('comment on column public.%I.%I is %L', searchable, described[1], described[2]);
        end loop;
    end loop;
end
$$;
comment on table memoryd.lexeme_statistics is
    'In how many rows of a scope a lexeme occurs; ''#memory'': how many memories it has; '
    '''@carolin Caroline'': rows that Caroline said.';
comment on table memoryd.lexeme_changes is
    'What statements added to and took from the statistics, not yet counted in: '
    'so no writer waits for another that writes the same words.';
comment on table memoryd.lexicon is
    'Words of the texts, by lexeme; embedding null until their neighbours are known.';
comment on table memoryd.lexeme_neighbours is
    'Lexemes whose words are near in meaning, by cosine similarity.';
comment on table memoryd.dense_indexes is
    'The IVFFlat indexes that exist, and how many rows each had when it was built.';
comment on table public.memory_settings is
    'What users decide about their memory; without a row, or where it says null, the daemon''s settings '
    'apply.';
comment on column public.memory_settings.memory_enabled is
    'False: nothing of this user is remembered, and nothing that was is found, until it is true again. '
    'erase_user_memory deletes.';
comment on column public.memory_settings.memory_ttl_hours is
    'Hours until a memory is forgotten: the default and the maximum; for all but task_memory.';
comment on column public.memory_settings.task_memory_ttl_hours is
    'The same for memories of type task_memory.';
comment on table memoryd.erased_texts is
    'SHA-256 of texts erased within the last hour: their embeddings, which a daemon may still be asking '
    'for, are not kept.';
comment on table memoryd.answered_from is
    'The users (hashed, see memoryd.tenant_of) whose rows are in the answer to a request of somebody else; '
    '0: it is not known any more whose.';
