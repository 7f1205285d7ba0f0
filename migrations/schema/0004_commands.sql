-- Agents, and the commands that they are given. A command goes from pending to ready, running, and completed.

create table public.agents (
    agent_id text primary key check (memoryd.agent_id_fits(agent_id, 'An agent_id has 1 to 200 characters.')),
    enabled boolean not null default true,
    disabled_reason text,
    identity text,
    open_to_users boolean not null default false,
    created_at timestamptz not null default now(),
    named_for uuid,
    constraint agents_identity_size check (memoryd.text_fits('identity', identity, 10000)),
    constraint agents_disabled_reason_size
        check (memoryd.text_fits('disabled_reason', disabled_reason, 10000))
);
comment on table public.agents is
    'Every agent that a service ever gave a command or a memory. '
    'Set enabled = false to have its commands cancelled.';
comment on column public.agents.identity is
    'Who the agent is, in a line: it opens every context. Optional.';
comment on column public.agents.open_to_users is
    'Whether end users may give it commands. Its context contains what the agents know, and its output, '
    'which they read, may repeat it.';
comment on column public.agents.named_for is
    'The user of the first command or memory by which a service named it: the nil UUID for no user, or '
    'several; null before the first.';
create index agents_name on public.agents (lower(agent_id));

create table public.agent_commands (
    id uuid primary key default gen_random_uuid(),
    agent_id text not null check (
        memoryd.agent_id_fits(
            agent_id,
            'An agent_id has 1 to 200 characters. '
            '_shared is no agent: memories under that name are every agent''s.',
            p_shared => false)),
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
    created_at timestamptz not null default now() check (memoryd.time_fits('created_at', created_at)),
    ready_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz check (memoryd.time_fits('finished_at', finished_at)),
    constraint agent_commands_message_size check (memoryd.text_fits('message', message, 10000000)),
    -- More than the executor's limit (MEMORYD_EXECUTOR_OUTPUT_BYTES), less than a value of type jsonb can
    -- have.
    constraint agent_commands_output_size check (memoryd.text_fits('output', output, 250000000)),
    constraint agent_commands_metadata_size check (memoryd.json_fits('metadata', metadata))
);
comment on table public.agent_commands is
    'Tasks for agents. Insert one; its context is written, it is run, and its outcome is remembered.';
comment on column public.agent_commands.context is
    'What the agent should know before it starts; written by memoryd when the command becomes ready.';
create index agent_commands_ready on public.agent_commands (agent_id, created_at, id) where status = 'ready';
create index agent_commands_running on public.agent_commands (started_at) where status = 'running';
create index agent_commands_created on public.agent_commands (created_at);
create index agent_commands_user on public.agent_commands (user_id) where user_id is not null;
