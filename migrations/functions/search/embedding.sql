-- The embedding of a question that a caller has not embedded.

-- The embedding of a question to recall(); null where memoryd.embed() has none.
create or replace function memoryd.embed_question(p_query text, p_agent text, p_user uuid) returns vector
language plpgsql stable security definer
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
declare
    caller constant memoryd.caller := memoryd.current_caller();
    asked bigint[];
begin
    -- An end user without an id finds nothing. Nothing is read of a user who has switched memory off.
    if (not caller.privileged and caller.user_id is null)
       or memoryd.memory_is_off(coalesce(p_user, caller.user_id)) or memoryd.embed('') is null then
        return null;
    end if;
    asked := memoryd.open_scopes(caller, (memoryd.scopes_asked(caller, p_agent, p_user)).scopes);
    return memoryd.embed(memoryd.without_speakers(p_query, memoryd.counted_scopes(caller, asked)));
end
$$;

-- The embedding to compare with: the one given, or that of the text given. Exactly one of the two. Null where
-- the database cannot embed the text: then it is searched by words (memoryd.matches).
create or replace function memoryd.embedding_to_match(p_embedding vector, p_query text) returns vector
language plpgsql stable
set search_path = pg_catalog, public, :vector_schema, pg_temp
as $$
begin
    if p_query is null then
        return p_embedding;
    end if;
    if p_embedding is not null then
        raise exception 'both query and query_embedding are given'
            using errcode = 'invalid_parameter_value', hint = 'Give one of them, the other is null.';
    end if;
    return memoryd.embed(p_query);
end
$$;
