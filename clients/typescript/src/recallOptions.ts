// The options of recall and of contexts. Written from migrations/functions/search/options.sql by `python -m docs.write_options`.

export interface RecallConditions {
  /** Where it is asked (project, channel, group chat): nothing of another one. */
  project?: string;
  /** Leave out what fits worse, 0 to 1; 0.35 cuts most of what does not belong. */
  minScore?: number;
  /** Leave out what does not belong to the question: then there may be nothing. */
  relevantOnly?: boolean;
  /** Leave out this conversation, such as the one that is going on. */
  excludeSession?: string;
  /** Of the conversation that is left out only this many of the newest messages. */
  excludeLast?: number;
  /** Only what was written since this time. */
  since?: Date | string;
  /** Only what was written before this time. */
  until?: Date | string;
  /** What stood at this time, also if it was replaced since. */
  asOf?: Date | string;
  /** When it is asked: "last week" is the week before. Now, unless given. */
  askedAt?: Date | string;
  /** Of conversations only messages of these roles. */
  roles?: ("user" | "assistant" | "system" | "tool")[];
  /** Of conversations only messages of these speakers. */
  speakers?: string[];
  /** Show messages with this many of those before and after them, 0 to 10. */
  around?: number;
  /** First what is known of the user, newest first, in at most this many words: facts and preferences. */
  profile?: number;
}

export interface ContextConditions {
  /** Where it is asked (project, channel, group chat): nothing of another one. */
  project?: string;
  /** Leave out this conversation, such as the one that is going on. */
  excludeSession?: string;
  /** Of the conversation that is left out only this many of the newest messages. */
  excludeLast?: number;
  /** When it is asked: "last week" is the week before. Now, unless given. */
  askedAt?: Date | string;
  /** How many words at most, 100 to 10,000; 500, unless memoryd is set otherwise. */
  words?: number;
  /** First what is known of the user, newest first, in at most this many words: facts and preferences. */
  profile?: number;
}

/** What `prompt` asks with, unless it is told otherwise. */
export const PROMPT: RecallConditions = { relevantOnly: true, around: 2 };
