// Claims the commands of an agent, calls a handler for each, and writes the outcomes. The client needs the service's key.

import { clientOf, type Client } from "./postgres.js";
import { answer } from "./supabase.js";
import type { Command } from "./types.js";

/** The output, or the output and the exit code; 0 is success. */
export type Outcome = string | null | undefined | void | readonly [output: string | null, exitCode: number];
/** Does a command. If it throws, the command fails with the error's words. An aborted `signal`: its result will not be written. */
export type Handler = (context: string, message: string, command: Command, signal: AbortSignal) => Outcome | Promise<Outcome>;

export interface ExecutorOptions {
  /** How many commands run here at the same time; 1 unless given. */
  parallel?: number;
  /** The pause between two queries for commands; 1 second unless given. */
  pollSeconds?: number;
  /**
   * How many seconds after the death of this process its commands are run again, 1 to 86,400; 60 unless given. Null: they are
   * not run again, and fail after a day.
   */
  leaseSeconds?: number | null;
  /** Called with the error of each call that failed and is repeated; console.warn unless given. */
  onError?: (error: Error) => void;
}

export interface Executor {
  /** Runs commands until stop(). Throws an error that a later call would meet again. */
  run(): Promise<void>;
  /** Ends claiming; `run` returns when the running commands are done. */
  stop(): void;
}

const FIRST_PAUSE = 0.05;
const LONGEST_PAUSE = 5;

/** Runs an agent's commands. Commands of a process that was killed are run again, three times in all. */
export function executor(
  client: Client, agent: string, handler: Handler,
  { parallel = 1, pollSeconds = 1, leaseSeconds = 60, onError = (error) => console.warn(error.message) }: ExecutorOptions = {},
): Executor {
  const supabase = clientOf(client);
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
      const [row] = (await answer(supabase.rpc("claim_command", { agent_id: agent, lease_seconds: leaseSeconds }))) as Command[];
      return row ?? null;
    } catch (error) {
      if ((error as { code?: string }).code === "22023") return null; // the agent is unknown until its first command
      throw error;
    }
  }

  /** Completes the command; repeats the call until the row is completed or gone. */
  async function complete(command: Command, output: string, exitCode: number): Promise<void> {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(LONGEST_PAUSE, 2 * pause)) {
      try {
        const written = output.replaceAll("\0", "\ufffd");
        const { id: command_id, started_at } = command;
        await answer(supabase.rpc("complete_command", { command_id, output: written, exit_code: exitCode, started_at }));
        return;
      } catch (error) {
        onError(error as Error);
        if (!isAway(error)) return; // deleted, completed by a call whose answer was lost, or claimed by another executor
      }
      await new Promise((done) => setTimeout(done, pause * 1000));
    }
  }

  /** Renews the lease of a command. While the database is away, nobody else can claim the command either. */
  async function renew({ id: command_id, started_at }: Command, lost: AbortController): Promise<void> {
    try {
      const isKept = await answer(supabase.rpc("renew_command", { command_id, started_at, lease_seconds: leaseSeconds }));
      if (isKept === false) lost.abort(new Error(`Command ${command_id} runs elsewhere, or has ended.`));
    } catch (error) {
      onError(error as Error);
    }
  }

  async function work(command: Command): Promise<void> {
    const lost = new AbortController();
    const lease = leaseSeconds === null ? undefined : setInterval(() => void renew(command, lost), (leaseSeconds * 1000) / 3);
    try {
      const outcome = await handled(command, lost.signal);
      if (lost.signal.aborted) onError(lost.signal.reason as Error);
      else await complete(command, ...outcome);
    } finally {
      clearInterval(lease);
    }
  }

  async function handled(command: Command, signal: AbortSignal): Promise<readonly [string, number]> {
    try {
      return outcomeOf(await handler(command.context ?? "", command.message, command, signal));
    } catch (error) {
      return [error instanceof Error ? `${error.name}: ${error.message}` : String(error), 1];
    }
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

/** Whether the call may be repeated: there was no answer, or the gateway or the database is away. */
function isAway(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? "";
  return code === "" || /^(08|57P0|53|40)/.test(code) || /^PGRST00[0-3]$/.test(code);
}
