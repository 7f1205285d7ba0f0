// What supabase-js talks to instead of Supabase's Realtime: it says yes to each channel, and says what a test lets it say.

type Message = [string | null, string | null, string, string, any];

/** A promise that Node waits for: a real socket would keep it running. */
export async function awaited<T>(promise: Promise<T>): Promise<T> {
  const running = setInterval(() => {}, 1000);
  return promise.finally(() => clearInterval(running));
}

export class FakeSocket {
  static open = new Set<FakeSocket>();
  /** Topics that clients joined and left, in order, as "join agent-memory:...", and what they said at it. */
  static said: [string, any][] = [];
  static refuse = false;
  static #waiting: (() => void)[] = [];

  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readyState = 0;
  binaryType = "";
  onopen: (event: unknown) => void = () => {};
  onclose: (event: unknown) => void = () => {};
  onmessage: (event: unknown) => void = () => {};
  onerror: (event: unknown) => void = () => {};

  constructor(readonly url: string) {
    FakeSocket.open.add(this);
    queueMicrotask(() => {
      this.readyState = FakeSocket.OPEN;
      this.onopen({});
    });
  }

  send(text: string): void {
    const [joined, ref, topic, event, payload]: Message = JSON.parse(text);
    const refused = FakeSocket.refuse && event === "phx_join";
    const response = refused ? { reason: "Unauthorized" } : {};
    const status = refused ? "error" : "ok";
    queueMicrotask(() => this.#hear([joined, ref, topic, "phx_reply", { status, response }]));
    if (event !== "phx_join" && event !== "phx_leave") return;
    FakeSocket.said.push([`${event.slice(4)} ${topic.replace("realtime:", "")}`, payload]);
    for (const look of FakeSocket.#waiting) look();
  }

  close(): void {
    this.readyState = FakeSocket.CLOSED;
    FakeSocket.open.delete(this);
    this.onclose({ code: 1000, wasClean: true });
  }

  #hear(message: Message): void {
    this.onmessage({ data: JSON.stringify(message) });
  }

  /** A broadcast to everybody who is connected. */
  static broadcast(topic: string, event: string, payload: unknown): void {
    const message = { type: "broadcast", event, payload };
    for (const socket of FakeSocket.open) socket.#hear([null, null, `realtime:${topic}`, "broadcast", message]);
  }

  /** Waits until clients have joined and left as the list says. */
  static async until(...expected: string[]): Promise<void> {
    const fits = () => JSON.stringify(FakeSocket.said.map(([one]) => one)) === JSON.stringify(expected);
    while (!fits()) await awaited(new Promise<void>((look) => FakeSocket.#waiting.push(look)));
    // The reply is heard after this.
    await new Promise((later) => setImmediate(later));
  }

  static forget(): void {
    FakeSocket.said = [];
    FakeSocket.refuse = false;
  }
}
