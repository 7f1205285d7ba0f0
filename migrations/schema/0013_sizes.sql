-- How large a value may be, in every column that users and agents write. Whoever reads a row, exports it or
-- parses its JSON can rely on it. The functions are in 0003_checks.sql.

alter table public.agents add constraint agents_identity_size
    check (memoryd.text_fits('identity', identity, 10000));
alter table public.agents add constraint agents_disabled_reason_size
    check (memoryd.text_fits('disabled_reason', disabled_reason, 10000));
alter table public.agent_commands add constraint agent_commands_message_size
    check (memoryd.text_fits('message', message, 10000000));
-- More than the executor's limit (MEMORYD_EXECUTOR_OUTPUT_BYTES), less than a value of type jsonb can have.
alter table public.agent_commands add constraint agent_commands_output_size
    check (memoryd.text_fits('output', output, 250000000));
alter table public.agent_memory add constraint agent_memory_content_size
    check (memoryd.text_fits('content', content, 10000000));
alter table public.agent_memory add constraint agent_memory_source_size
    check (memoryd.text_fits('source', source, 10000));
alter table public.memory_queries add constraint memory_queries_agent_id_size
    check (memoryd.text_fits('agent_id', agent_id, 200));
alter table public.memory_requests add constraint memory_requests_query_size
    check (memoryd.text_fits('query', query, 10000000));
alter table public.memory_requests add constraint memory_requests_agent_id_size
    check (memoryd.text_fits('agent_id', agent_id, 200));
alter table public.chat_groups add constraint chat_groups_platform_size
    check (memoryd.text_fits('platform', platform, 10000));
alter table public.chat_groups add constraint chat_groups_group_name_size
    check (memoryd.text_fits('group_name', group_name, 10000));
alter table public.conversation_sessions add constraint conversation_sessions_title_size
    check (memoryd.text_fits('title', title, 10000));
alter table public.conversation_sessions add constraint conversation_sessions_channel_size
    check (memoryd.text_fits('channel', channel, 10000));
alter table public.conversation_messages add constraint conversation_messages_content_size
    check (memoryd.text_fits('content', content, 10000000));
alter table public.documents add constraint documents_content_size
    check (memoryd.text_fits('content', content, 10000000));
alter table public.documents add constraint documents_title_size
    check (memoryd.text_fits('title', title, 10000));
alter table public.documents add constraint documents_source_size
    check (memoryd.text_fits('source', source, 10000));
alter table public.documents add constraint documents_document_type_size
    check (memoryd.text_fits('document_type', document_type, 10000));
alter table public.documents add constraint documents_drop_path_size
    check (memoryd.text_fits('drop_path', drop_path, 10000));
alter table public.documents add constraint documents_replica_path_size
    check (memoryd.text_fits('replica_path', replica_path, 10000));
alter table public.memory_chunks add constraint memory_chunks_chunk_text_size
    check (memoryd.text_fits('chunk_text', chunk_text, 10000000));
alter table public.memory_chunks add constraint memory_chunks_context_size
    check (memoryd.text_fits('context', context, 10000000));
alter table public.shared_knowledge add constraint shared_knowledge_content_size
    check (memoryd.text_fits('content', content, 10000000));
alter table public.shared_knowledge add constraint shared_knowledge_category_size
    check (memoryd.text_fits('category', category, 10000));
alter table public.shared_knowledge add constraint shared_knowledge_title_size
    check (memoryd.text_fits('title', title, 10000));
alter table public.shared_knowledge add constraint shared_knowledge_created_by_size
    check (memoryd.text_fits('created_by', created_by, 10000));
alter table public.shared_knowledge add constraint shared_knowledge_created_by_name_size
    check (memoryd.text_fits('created_by_name', created_by_name, 10000));
alter table public.shared_knowledge add constraint shared_knowledge_source_size
    check (memoryd.text_fits('source', source, 10000));
alter table public.agent_sessions add constraint agent_sessions_agent_id_size
    check (memoryd.text_fits('agent_id', agent_id, 200));
alter table public.agent_sessions add constraint agent_sessions_current_step_size
    check (memoryd.text_fits('current_step', current_step, 10000));
alter table public.agent_sessions add constraint agent_sessions_error_message_size
    check (memoryd.text_fits('error_message', error_message, 10000));
alter table public.agent_execution_logs add constraint agent_execution_logs_agent_id_size
    check (memoryd.text_fits('agent_id', agent_id, 200));
alter table public.agent_execution_logs add constraint agent_execution_logs_step_name_size
    check (memoryd.text_fits('step_name', step_name, 10000));
alter table public.agent_execution_logs add constraint agent_execution_logs_tool_name_size
    check (memoryd.text_fits('tool_name', tool_name, 10000));
alter table public.agent_execution_logs add constraint agent_execution_logs_reasoning_size
    check (memoryd.text_fits('reasoning', reasoning, 1000000));
alter table public.agent_execution_logs add constraint agent_execution_logs_error_message_size
    check (memoryd.text_fits('error_message', error_message, 1000000));
alter table public.memory_anchors add constraint memory_anchors_agent_id_size
    check (memoryd.text_fits('agent_id', agent_id, 200));
alter table public.memory_anchors add constraint memory_anchors_cid_size
    check (memoryd.text_fits('cid', cid, 10000));
alter table public.memory_anchors add constraint memory_anchors_chain_tx_size
    check (memoryd.text_fits('chain_tx', chain_tx, 10000));
alter table public.agent_commands add constraint agent_commands_metadata_size
    check (memoryd.json_fits('metadata', metadata));
alter table public.agent_memory add constraint agent_memory_metadata_size
    check (memoryd.json_fits('metadata', metadata));
alter table public.memory_requests add constraint memory_requests_options_size
    check (memoryd.json_fits('options', options));
alter table public.chat_groups add constraint chat_groups_group_metadata_size
    check (memoryd.json_fits('group_metadata', group_metadata));
alter table public.conversation_messages add constraint conversation_messages_metadata_size
    check (memoryd.json_fits('metadata', metadata));
alter table public.documents add constraint documents_metadata_size
    check (memoryd.json_fits('metadata', metadata));
alter table public.memory_chunks add constraint memory_chunks_metadata_size
    check (memoryd.json_fits('metadata', metadata));
alter table public.shared_knowledge add constraint shared_knowledge_decision_context_size
    check (memoryd.json_fits('decision_context', decision_context));
alter table public.shared_knowledge add constraint shared_knowledge_outcome_size
    check (memoryd.json_fits('outcome', outcome));
alter table public.agent_sessions add constraint agent_sessions_session_data_size
    check (memoryd.json_fits('session_data', session_data));
alter table public.agent_execution_logs add constraint agent_execution_logs_input_data_size
    check (memoryd.json_fits('input_data', input_data));
alter table public.agent_execution_logs add constraint agent_execution_logs_output_data_size
    check (memoryd.json_fits('output_data', output_data));
alter table public.memory_anchors add constraint memory_anchors_payload_size
    check (memoryd.json_fits('payload', payload));
alter table public.memory_queries add constraint memory_queries_task_keywords_size
    check (memoryd.list_fits('task_keywords', task_keywords));
alter table public.memory_queries add constraint memory_queries_retrieved_memory_ids_size
    check (memoryd.list_fits('retrieved_memory_ids', retrieved_memory_ids));
alter table public.memory_queries add constraint memory_queries_relevance_scores_size
    check (memoryd.list_fits('relevance_scores', relevance_scores));
alter table public.conversation_messages add constraint conversation_messages_visibility_tags_size
    check (memoryd.list_fits('visibility_tags', visibility_tags));
alter table public.memory_chunks add constraint memory_chunks_visibility_tags_size
    check (memoryd.list_fits('visibility_tags', visibility_tags));
alter table public.user_memory_access add constraint user_memory_access_allowed_contexts_size
    check (memoryd.list_fits('allowed_contexts', allowed_contexts));
alter table public.user_memory_access add constraint user_memory_access_allowed_tags_size
    check (memoryd.list_fits('allowed_tags', allowed_tags));
alter table public.shared_knowledge add constraint shared_knowledge_tags_size
    check (memoryd.list_fits('tags', tags));
alter table public.shared_knowledge add constraint shared_knowledge_related_ids_size
    check (memoryd.list_fits('related_ids', related_ids));
alter table public.agent_sessions add constraint agent_sessions_completed_steps_size
    check (memoryd.list_fits('completed_steps', completed_steps));
