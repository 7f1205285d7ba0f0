-- Words of a question that are looked for together are two or three now, no longer pairs.

alter type memoryd.question rename attribute pairs to combinations;
alter type memoryd.question rename attribute pair_scopes to combination_scopes;
