-- Of a question recall knows which of its words hardly any row has.

alter type memoryd.question add attribute rare sparsevec;
