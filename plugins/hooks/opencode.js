// memoryd: memory for OpenCode, by its plugins (1.x). Written and removed by `memoryd hooks`.
//
// Each event runs `memoryd hook`, which always ends within two seconds; what fails there fails nothing here.
import { spawn } from "node:child_process";

const PROGRAM = "memoryd";
const TOOLS = new Set(["bash", "edit", "write", "patch", "multiedit", "apply_patch"]);
const MOST_MILLISECONDS = 4000;

function hook(event, given) {
  return new Promise((resolve) => {
    let out = "";
    const child = spawn(PROGRAM, ["hook", event, "opencode"], { stdio: ["pipe", "pipe", "ignore"] });
    const late = setTimeout(() => child.kill("SIGKILL"), MOST_MILLISECONDS);
    const end = () => {
      clearTimeout(late);
      try {
        resolve(JSON.parse(out).hookSpecificOutput.additionalContext ?? "");
      } catch {
        resolve("");
      }
    };
    child.on("error", end);
    child.on("close", end);
    child.stdin.on("error", () => {});
    child.stdout.on("data", (data) => (out += data));
    child.stdin.end(JSON.stringify(given));
  });
}

export const Memoryd = async ({ client, directory }) => {
  const begun = new Set();
  const of = (session, more) => ({ session_id: session, cwd: directory, ...more });
  const textOf = (parts) =>
    (parts ?? []).filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n");
  // `opencode run` puts a prompt of several words between quotes.
  const unquoted = (text) => {
    const inner = text.slice(1, -1);
    const quoted = text.length > 1 && text === `"${inner}"` && !inner.replaceAll('\\"', "").includes('"');
    return quoted ? inner.replaceAll('\\"', '"') : text;
  };

  // What the agent said last; nothing if the last message is the prompt.
  const lastSaid = async (session) => {
    try {
      const { data } = await client.session.messages({ path: { id: session } });
      const last = data?.at(-1);
      return last?.info?.role === "assistant" ? textOf(last.parts) : "";
    } catch {
      return "";
    }
  };

  return {
    "chat.message": async (input, output) => {
      const session = input.sessionID;
      const told = [];
      if (!begun.has(session)) {
        begun.add(session);
        told.push(await hook("SessionStart", of(session, { source: "startup" })));
      }
      told.push(await hook("UserPromptSubmit", of(session, { prompt: unquoted(textOf(output.parts)) })));
      const text = told.filter(Boolean).join("\n");
      if (text) {
        const id = `prt_memoryd${Date.now().toString(16)}${Math.random().toString(16).slice(2, 10)}`;
        output.parts.push({
          id, sessionID: session, messageID: input.messageID ?? output.message.id, type: "text", text, synthetic: true,
        });
      }
    },
    "tool.execute.after": async (input, output) => {
      if (!TOOLS.has(input.tool)) return;
      const args = input.args ?? {};
      const code = output?.metadata?.exit;
      await hook("PostToolUse", of(input.sessionID, {
        tool_name: input.tool,
        tool_input: { command: args.command ?? args.patchText, file_path: args.filePath },
        tool_response: typeof code === "number" ? { exit_code: code, output: output.output } : {},
      }));
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id;
      if (!begun.has(session)) return;
      if (event.type === "session.idle") {
        await hook("Stop", of(session, { last_assistant_message: await lastSaid(session) }));
      } else if (event.type === "session.compacted") {
        begun.delete(session);
        await hook("PreCompact", of(session, { last_assistant_message: await lastSaid(session) }));
      } else if (event.type === "session.deleted") {
        begun.delete(session);
        await hook("SessionEnd", of(session, {}));
      }
    },
  };
};
