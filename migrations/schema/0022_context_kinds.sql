-- The search for a context compares what happened with what happened, and what is known with what is known
-- (memoryd.fit_passages): an outcome repeats the task that it is of, and fits the next such task perfectly.

alter type memoryd.search_request add attribute by_kind boolean;
