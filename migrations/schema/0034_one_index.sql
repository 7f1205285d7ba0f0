-- Each count of a lexeme is looked up by lexeme and scope. A second index, with the scope first, was never
-- read and cost a third of what counting writes.
drop index memoryd.lexeme_statistics_lexeme;
alter table memoryd.lexeme_statistics
    drop constraint lexeme_statistics_pkey,
    add primary key (lexeme, scope);
