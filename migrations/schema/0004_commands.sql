-- Agents and their commands: a task's way from pending to completed.
create table public.agents (
    agent_id text primary key check (
        (agent_id ~ '\S' and length(agent_id) <= 200)
        or memoryd.refuse('agent_id is blank or too long', 'An agent_id has 1 to 200 characters.'))
        check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    enabled boolean not null default true,
    disabled_reason text,
    identity text,
    open_to_users boolean not null default false,
    created_at timestamptz not null default now()
);
comment on table public.agents is 'Every agent that a service ever gave a command or a memory. '
    'Set enabled = false to have its commands cancelled.';
comment on column public.agents.identity is 'Who the agent is, in a line: it opens every context. Optional.';
comment on column public.agents.open_to_users is
    'Whether end users may give it commands. Its context holds what the agents know, and its output, '
    'which they read, may repeat it.';

create table public.agent_commands (
    id uuid primary key default gen_random_uuid(),
    agent_id text not null check (
        (agent_id ~ '\S' and length(agent_id) <= 200 and agent_id <> '_shared')
        or memoryd.refuse(
            case agent_id when '_shared' then 'agent_id is _shared' else 'agent_id is blank or too long' end,
            'An agent_id has 1 to 200 characters. _shared is no agent: memories under that name are every agent''s.'))
        check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    user_id uuid,
    session_id uuid,
    message text not null check (
        message ~ '\S' or memoryd.refuse('message is blank', 'Say what the agent is to do.')),
    metadata jsonb not null default '{}',
    context text,
    status text not null default 'pending' check (
        status in ('pending', 'ready', 'running', 'completed', 'failed', 'cancelled')
        or memoryd.refuse('unknown status ' || quote_literal(status),
                          'Statuses: pending, ready, running, completed, failed, cancelled.')),
    output text,
    exit_code integer,
    error text,
    created_at timestamptz not null default now() check (
        created_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('created_at is ' || created_at, 'Times from 1900 to 9999.')),
    ready_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz check (
        finished_at between '1900-01-01 00:00+00' and '9999-12-30 00:00+00'
        or memoryd.refuse('finished_at is ' || finished_at, 'Times from 1900 to 9999.'))
);
comment on table public.agent_commands is 'Tasks for agents. Insert one; its context is written, it is run, and its outcome is remembered.';
comment on column public.agent_commands.context is 'What the agent should know before it starts; written by memoryd when the command becomes ready.';
create index agent_commands_ready on public.agent_commands (agent_id, created_at, id) where status = 'ready';
create index agent_commands_running on public.agent_commands (started_at) where status = 'running';
create index agent_commands_created on public.agent_commands (created_at);
