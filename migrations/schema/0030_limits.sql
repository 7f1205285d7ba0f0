-- Who replaces a memory locks memories of the same user, and who notes a text locks that text: the 64 locks
-- that all shared are gone.

delete from memoryd.lanes where topic = 'lock' and lane ~ '^(superseding|knowledge) ';

-- Whether a text has nothing that is seen: white space in every script, and characters without width or ink.
-- By a list, since what is white space for \s depends on the locale of the database.
create function memoryd.is_blank(p_text text) returns boolean
language sql immutable parallel safe
return p_text !~ ('[^ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000' || substr(memoryd.unseen(), 2));

comment on table memoryd.erased_texts is
    'SHA-256 of texts and ids erased within the last hour. The embeddings of these texts, which a daemon may '
    'still be asking for, are not kept, nor are the ids, which somebody may still be writing.';
