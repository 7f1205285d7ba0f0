-- The embedding of a text that a caller has not embedded.

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
    return memoryd.vector_of_question(p_query);
end
$$;
