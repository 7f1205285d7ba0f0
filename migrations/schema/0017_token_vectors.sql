-- The tokens of the local embedder and their vectors, from which memoryd.embed() makes the vector of a text.
-- `memoryd migrate` and `memoryd run` fill the table from the package wordllama, where the database has the
-- local embedder.

-- token   The characters of a token. A token for one byte is a space and two hexadecimal digits, a control
--         token a space and its name: no other token has a space.
-- rank, head   A token of two characters or more is made by one merge: of its first `head` characters and
--         the others. Merges take place in the order of their ranks.
-- vector  All 256 numbers, also where the database's embeddings have fewer.
create table memoryd.tokens (
    token text collate "C" primary key,
    rank integer,
    head integer,
    vector halfvec(256) not null
);
comment on table memoryd.tokens is
    'The local embedder''s tokens, from the package wordllama: empty with any other embedder.';
