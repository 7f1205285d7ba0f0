-- Accounts that were deleted (auth.users) and whose memory is not erased yet.

create table memoryd.deleted_accounts (
    user_id uuid primary key,
    deleted_at timestamptz not null default now()
);
comment on table memoryd.deleted_accounts is
    'Users whose account was deleted, until their memory is erased: nearly always in the same transaction.';
