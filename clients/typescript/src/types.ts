// Memories by type, and the results of the functions. Rows have the names of their columns in SQL.

/** Brand voice, messaging, guidelines. */
export interface BrandMemoryMetadata {
  brand_name?: string;
  industry?: string;
  target_audience?: string;
  tone?: string[];
  keywords?: string[];
  competitors?: string[];
  source?: "user_input" | "agent_inferred" | "uploaded_doc";
}

/** Preferred formats, actors, music, tone. */
export interface UserPreferencesMetadata {
  preference_type: "video_format" | "actor" | "music" | "tone" | "platform";
  /** How certain the preference is. */
  confidence_score: number;
  last_updated: string;
  source?: "explicit_choice" | "inferred_from_usage";
}

/** What competitors do, and what works for them. */
export interface CompetitiveMemoryMetadata {
  competitor_name?: string;
  platform?: "meta" | "tiktok" | "youtube";
  ad_id?: string;
  performance_metrics?: { engagement_rate?: number; view_count?: number; share_count?: number };
  date_captured?: string;
  hook_type?: string;
  cta_type?: string;
}

/** Past runs of agents, decisions, outcomes. Kept for 90 days, unless settings say otherwise. */
export interface TaskMemoryMetadata {
  session_id: string;
  task_type: "full_agent_run" | "research_only" | "script_generation" | "video_generation";
  outcome: "success" | "partial_success" | "failure";
  user_feedback?: "positive" | "neutral" | "negative";
  decisions_made?: string[];
  tools_used?: string[];
}

/** How videos did, and what tests showed. */
export interface PerformanceMemoryMetadata {
  video_id: string;
  platform?: string;
  metrics?: { views?: number; engagement_rate?: number; conversion_rate?: number; ctr?: number };
  campaign_context?: string;
  what_worked?: string;
  what_didnt_work?: string;
}

/** The metadata of each type of memory. An application may add fields: `declare module "memoryd-client"`. */
export interface MetadataByType {
  brand_memory: BrandMemoryMetadata;
  user_preferences: UserPreferencesMetadata;
  competitive_memory: CompetitiveMemoryMetadata;
  task_memory: TaskMemoryMetadata;
  performance_memory: PerformanceMemoryMetadata;
}

export type MemoryType = keyof MetadataByType;

/** A memory that was found. Times are ISO 8601. */
export interface MemoryResult<T extends MemoryType = MemoryType> {
  id: string;
  content: string;
  /** -1 to 1. */
  similarity: number;
  /** As it was written. Other programs may write null or other shapes. */
  metadata: Partial<MetadataByType[T]>;
  created_at: string;
}

/** A memory that was written. Times are ISO 8601. */
export interface Memory<T extends MemoryType = MemoryType> {
  id: string;
  user_id: string;
  memory_type: T;
  content: string;
  metadata: Partial<MetadataByType[T]>;
  created_at: string;
  updated_at: string;
  /** Null: it does not expire. */
  expires_at: string | null;
}

/** A row of any source that recall() found. */
export interface Recalled {
  source: "memory" | "conversation" | "document" | "knowledge" | "insight";
  id: string;
  content: string;
  score: number;
  similarity: number | null;
  metadata: Record<string, unknown> | null;
  created_at: string;
}

/** A memory that was stored. `known`: the agent had this memory before, so it was strengthened. */
export interface Remembered {
  id: string;
  expires_at: string | null;
  known: boolean;
}

/** Whether recall finds a row. `words`: by its words, while its embedding waits; `failed`: its job was discarded, for this `reason`. */
export interface IndexState {
  source: Recalled["source"];
  id: string;
  state: "indexed" | "words" | "waiting" | "empty" | "failed";
  reason: string | null;
  since: string;
}

export type Role = "user" | "assistant" | "system" | "tool";

/** A message for a language model. */
export interface PromptMessage {
  role: "user" | "assistant" | "system";
  content: string;
}

/** A message to add. If a turn only calls a tool, its content may be null; its metadata have the call. */
export interface NewMessage {
  role: Role;
  content: string | null;
  speaker?: string;
  metadata?: Record<string, unknown>;
}

/** A message of a conversation; `message_index` counts from 0 within its session. */
export interface Message {
  id: string;
  role: Role;
  speaker: string | null;
  content: string;
  message_index: number;
  created_at: string;
  metadata: Record<string, unknown>;
}

/** What a user has said of themselves; the metadata name the messages. */
export interface Fact {
  id: string;
  content: string;
  metadata: Record<string, unknown>;
  created_at: string;
}

/** What was true of a user at a time. `valid_to` has its end, `superseded_by` the memory that replaced it, if there is one. */
export interface MemoryVersion {
  id: string;
  kind: string;
  memory_type: MemoryType | null;
  content: string;
  metadata: Record<string, unknown>;
  valid_from: string;
  valid_to: string | null;
  superseded_by: string | null;
}

/** A command that an executor has claimed. */
export interface Command {
  id: string;
  agent_id: string;
  message: string;
  context: string | null;
  user_id: string | null;
  session_id: string | null;
  metadata: Record<string, unknown>;
  created_at: string;
  /** The time of this claim, which identifies it among the command's claims. */
  started_at: string;
}

/** The sources of which forget() deletes rows. */
export type ForgetSource = "memory" | "message" | "session" | "document" | "chunk";

/** A user's settings; null: the service's setting applies. */
export interface MemorySettings {
  /** False: nothing is stored, and nothing is found. */
  memoryEnabled: boolean;
  memoryTtlHours: number | null;
  taskMemoryTtlHours: number | null;
  conversationRetentionMinutes: number | null;
}

/** Everything about a user, in the format of `memoryd import`. */
export interface MemoryExport {
  format: "memoryd-export";
  version: number;
  user_id: string;
  exported_at: string;
  tables: Record<string, Record<string, unknown>[]>;
}

/** Memories changed: read again what you show. */
export interface MemoryUpdate {
  /** Null: the memory has no type. */
  memory_type: MemoryType | null;
  operation: "INSERT" | "UPDATE" | "DELETE";
  user_id?: string;
}
