-- Runs of agents (agent_sessions), and the trail of what was done and of who read whose memory
-- (agent_execution_logs).

create table public.agent_sessions (
    id uuid primary key default gen_random_uuid(),
    user_id uuid,
    agent_id text check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    status text not null default 'initializing' check (
        status in ('initializing', 'analyzing_brand', 'researching_competitors', 'analyzing_trends',
                   'generating_concepts', 'generating_scripts', 'awaiting_approval', 'generating_videos',
                   'updating_memory', 'completed', 'error', 'cancelled')
        or memoryd.refuse('unknown status ' || quote_literal(status),
                          'Statuses: initializing, analyzing_brand, researching_competitors, '
                          'analyzing_trends, generating_concepts, generating_scripts, awaiting_approval, '
                          'generating_videos, updating_memory, completed, error, cancelled.')),
    current_step text,
    progress_percentage integer not null default 0 check (
        progress_percentage between 0 and 100
        or memoryd.refuse('progress_percentage is ' || progress_percentage, 'From 0 to 100.')),
    total_steps integer not null default 8 check (
        total_steps >= 0 or memoryd.refuse('total_steps is ' || total_steps, '0 or more.')),
    completed_steps text[] not null default '{}',
    error_message text,
    session_data jsonb not null default '{}',
    started_at timestamptz not null default now(),
    completed_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint agent_sessions_agent_id_size check (memoryd.text_fits('agent_id', agent_id, 200)),
    constraint agent_sessions_current_step_size
        check (memoryd.text_fits('current_step', current_step, 10000)),
    constraint agent_sessions_error_message_size
        check (memoryd.text_fits('error_message', error_message, 10000)),
    constraint agent_sessions_session_data_size check (memoryd.json_fits('session_data', session_data)),
    constraint agent_sessions_completed_steps_size
        check (memoryd.list_fits('completed_steps', completed_steps))
);
comment on table public.agent_sessions is 'Runs of agents for a user, with their progress.';
comment on column public.agent_sessions.current_step is 'What is being done now, in words to show.';
comment on column public.agent_sessions.session_data is 'Whatever the run keeps for itself.';
comment on column public.agent_sessions.completed_at is
    'When it ended: completed, error or cancelled; null again once it is taken up again.';
create index agent_sessions_status on public.agent_sessions (user_id, status);
create index agent_sessions_created on public.agent_sessions (user_id, created_at desc);

create table public.agent_execution_logs (
    id uuid primary key default gen_random_uuid(),
    session_id uuid references public.agent_sessions (id) on delete cascade,
    user_id uuid,
    agent_id text check (memoryd.is_plain(agent_id) or memoryd.refuse_unseen(agent_id)),
    step_name text not null check (
        step_name ~ '\S' or memoryd.refuse('step_name is blank', 'Say which step it was.')),
    tool_name text,
    action_type text not null check (
        action_type in ('tool_call', 'memory_read', 'memory_write', 'reasoning', 'user_interaction', 'error',
                        'decision', 'admin_read')
        or memoryd.refuse('unknown action_type ' || quote_literal(action_type),
                          'Types: tool_call, memory_read, memory_write, reasoning, user_interaction, error, '
                          'decision, admin_read.')),
    input_data jsonb,
    output_data jsonb,
    reasoning text,
    confidence_score numeric(3, 2) check (
        confidence_score between 0 and 1
        or memoryd.refuse('confidence_score is ' || confidence_score, 'From 0 to 1.')),
    execution_time_ms integer check (
        execution_time_ms >= 0
        or memoryd.refuse('execution_time_ms is ' || execution_time_ms, 'Milliseconds, 0 or more.')),
    status text not null default 'success' check (
        status in ('pending', 'running', 'success', 'error')
        or memoryd.refuse('unknown status ' || quote_literal(status),
                          'Statuses: pending, running, success, error.')),
    error_message text,
    created_at timestamptz not null default now(),
    constraint agent_execution_logs_agent_id_size check (memoryd.text_fits('agent_id', agent_id, 200)),
    constraint agent_execution_logs_step_name_size check (memoryd.text_fits('step_name', step_name, 10000)),
    constraint agent_execution_logs_tool_name_size check (memoryd.text_fits('tool_name', tool_name, 10000)),
    constraint agent_execution_logs_reasoning_size
        check (memoryd.text_fits('reasoning', reasoning, 1000000)),
    constraint agent_execution_logs_error_message_size
        check (memoryd.text_fits('error_message', error_message, 1000000)),
    constraint agent_execution_logs_input_data_size check (memoryd.json_fits('input_data', input_data)),
    constraint agent_execution_logs_output_data_size check (memoryd.json_fits('output_data', output_data))
);
comment on table public.agent_execution_logs is
    'What agents did, step by step; also the audit trail of who read and wrote a user''s memory.';
comment on column public.agent_execution_logs.session_id is
    'The run that the step belongs to; null for reads and writes outside of runs.';
comment on column public.agent_execution_logs.user_id is
    'Whose data it is about; a user reads the rows about them.';
create index agent_execution_logs_session on public.agent_execution_logs (session_id, created_at)
    where session_id is not null;
create index agent_execution_logs_user on public.agent_execution_logs (user_id, created_at desc)
    where user_id is not null;
create index agent_execution_logs_created on public.agent_execution_logs (created_at);

-- Support's reads: a second read of the same user's table within a transaction is not logged again.
create index agent_execution_logs_admin on public.agent_execution_logs
    ((input_data ->> 'transaction'), (input_data ->> 'table'), user_id) where action_type = 'admin_read';
