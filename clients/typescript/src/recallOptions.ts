// The options of recall and of contexts. Written from migrations/functions/search/options.sql by `python -m docs.write_options`.

export interface RecallConditions {
  /** The current project, channel or group chat; rows of other ones are left out. */
  project?: string;
  /** Leave out results with a lower score, 0 to 1; 0.35 removes most that do not belong. */
  minScore?: number;
  /** Leave out results that do not belong to the question, so there may be none. */
  relevantOnly?: boolean;
  /** Leave out this conversation, such as the current one. */
  excludeSession?: string;
  /** Leave out only this number of the newest messages of that conversation. */
  excludeLast?: number;
  /** Only what was written since this time. */
  since?: Date | string;
  /** Only what was written before this time. */
  until?: Date | string;
  /** What was true at this time, also if it was replaced since. */
  asOf?: Date | string;
  /** The time of the question, to which "last week" refers; now unless given. */
  askedAt?: Date | string;
  /** From conversations only messages of these roles. */
  roles?: ("user" | "assistant" | "system" | "tool")[];
  /** From conversations only messages of these speakers. */
  speakers?: string[];
  /** Show each message with this number of messages before and after it, 0 to 10. */
  around?: number;
  /** Begin with facts and preferences of the user, newest first, in at most this number of words. */
  profile?: number;
}

export interface ContextConditions {
  /** The current project, channel or group chat; rows of other ones are left out. */
  project?: string;
  /** Of other sources than memories only rows that name the current project. */
  projectOnly?: boolean;
  /** Leave out the rows with these ids, such as those that were shown before. */
  exclude?: string[];
  /** Leave out this conversation, such as the current one. */
  excludeSession?: string;
  /** Leave out only this number of the newest messages of that conversation. */
  excludeLast?: number;
  /** The time of the question, to which "last week" refers; now unless given. */
  askedAt?: Date | string;
  /** How many words at most, 100 to 10,000; 500, unless memoryd is set otherwise. */
  words?: number;
  /** Begin with facts and preferences of the user, newest first, in at most this number of words. */
  profile?: number;
}

/** The options of `prompt` unless given. */
export const PROMPT: RecallConditions = { relevantOnly: true, around: 2, profile: 60 };
