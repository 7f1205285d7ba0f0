// Claims the commands of an agent, has a handler do them, and writes the outcomes. For a client with the service's key.

import { answer, type Supabase } from "./supabase.js";
import type { Command } from "./types.js";

/** The output, or the output and the exit code; 0 is success. What it throws is a failure, with the error's name and words. */
export type Outcome = string | null | undefined | void | readonly [output: string | null, exitCode: number];
export type Handler = (context: string, message: string, command: Command) => Outcome | Promise<Outcome>;

export interface ExecutorOptions {
  /** How many commands run at once here; 1 unless given. */
  parallel?: number;
  /** How often it looks for commands; 1 second unless given. */
  pollSeconds?: number;
  /** Told of calls that failed and are made again; console.warn unless given. */
  onError?: (error: Error) => void;
}

export interface Executor {
  /** Works until stop(), or an error that no waiting mends, which is thrown. */
  run(): Promise<void>;
  /** Claims no more; `run` ends when the commands that run are done. */
  stop(): void;
}

const FIRST_PAUSE = 0.05;
const LONGEST_PAUSE = 5;

/** Runs an agent's commands. A process that is killed leaves its commands running: the database fails them after a day. */
export function executor(
  supabase: Supabase, agent: string, handler: Handler,
  { parallel = 1, pollSeconds = 1, onError = (error) => console.warn(error.message) }: ExecutorOptions = {},
): Executor {
  let stopped = false;
  let wake = () => {};

  const rest = (seconds: number) =>
    new Promise<void>((done) => {
      const timer = setTimeout(done, seconds * 1000);
      wake = () => {
        clearTimeout(timer);
        done();
      };
      if (stopped) wake();
    });

  async function claim(): Promise<Command | null> {
    try {
      const [row] = (await answer(supabase.rpc("claim_command", { agent_id: agent }))) as Command[];
      return row ?? null;
    } catch (error) {
      if ((error as { code?: string }).code === "22023") return null; // it is known from its first command on
      throw error;
    }
  }

  /** The work is done: it is tried until the row says so, or is gone. */
  async function complete(command: Command, output: string, exitCode: number): Promise<void> {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(LONGEST_PAUSE, 2 * pause)) {
      try {
        await answer(
          supabase.rpc("complete_command", { command_id: command.id, output: output.replaceAll("\0", "\ufffd"), exit_code: exitCode }),
        );
        return;
      } catch (error) {
        onError(error as Error);
        if (!isAway(error)) return; // deleted, completed by a call whose answer was lost, or it ran for too long
      }
      await new Promise((done) => setTimeout(done, pause * 1000));
    }
  }

  async function work(command: Command): Promise<void> {
    let outcome: readonly [string, number];
    try {
      outcome = outcomeOf(await handler(command.context ?? "", command.message, command));
    } catch (error) {
      outcome = [error instanceof Error ? `${error.name}: ${error.message}` : String(error), 1];
    }
    await complete(command, ...outcome);
  }

  async function worker(): Promise<void> {
    for (let pause = FIRST_PAUSE; !stopped; ) {
      try {
        const command = await claim();
        pause = FIRST_PAUSE;
        if (command) await work(command);
        else await rest(pollSeconds);
      } catch (error) {
        if (!isAway(error)) {
          stopped = true;
          throw error;
        }
        onError(error as Error);
        await rest(pause);
        pause = Math.min(LONGEST_PAUSE, 2 * pause);
      }
    }
  }

  return {
    async run() {
      stopped = false;
      const ended = await Promise.allSettled(Array.from({ length: parallel }, worker));
      for (const one of ended) if (one.status === "rejected") throw one.reason;
    },
    stop() {
      stopped = true;
      wake();
    },
  };
}

function outcomeOf(returned: Outcome): readonly [string, number] {
  const [output, exitCode] = Array.isArray(returned) ? returned : [returned ?? "", 0];
  if (typeof (output ?? "") === "string" && Number.isInteger(exitCode)) return [output ?? "", exitCode];
  return [`TypeError: the handler returned ${typeof returned}, not a text or [text, exit code]`, 1];
}

/** Whether the call may be made again: nothing answered, or a gateway or a database that is away. */
function isAway(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? "";
  return code === "" || /^(08|57P0|53|40)/.test(code) || /^PGRST00[0-3]$/.test(code);
}
