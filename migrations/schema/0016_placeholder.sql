-- Holds the number until the file that has it is merged, and is replaced by it.
select 1;
