/** Server-sent events over `fetch`: unlike EventSource, it tells a refusal from a lost connection. */
import { address } from "./address";
import { tokenIsMissing } from "./client";

/** An event: its id, if it can be resumed after it, and its data. */
export interface Message {
  id: string | undefined;
  data: string;
}

/** How a stream is at the moment. */
export type Connection = "connecting" | "open" | "lost" | "ended" | "refused";

/** The delays between attempts, in milliseconds; the last one is repeated. */
const DELAYS = [250, 500, 1000, 2000, 5000];

/** A tab that is hidden for so many milliseconds gives its connection up: a browser has six for all its tabs. */
const HIDDEN = 30_000;

/** Splits a stream of bytes into messages; a message may come in any number of pieces. */
export class Messages {
  private rest = "";
  private readonly decoder = new TextDecoder();

  /** The messages that are complete with these bytes. */
  take(bytes: Uint8Array): Message[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const blocks = this.rest.split(/\r?\n\r?\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map(message).filter((found) => found.data !== "");
  }
}

function message(block: string): Message {
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    if (field === "id") id = value;
  }
  return { id, data: data.join("\n") };
}

/**
 * Follows a stream until it is stopped, resuming after the last event that had an id. Returns how to stop it. A stream
 * that the server ends is asked `again` after so many milliseconds, if given.
 */
export function follow(
  path: string,
  onMessage: (data: unknown) => void,
  onConnection: (connection: Connection) => void,
  again?: number,
): () => void {
  const abort = new AbortController();
  void run(path, onMessage, onConnection, abort.signal, again);
  return () => abort.abort();
}

async function run(
  path: string,
  onMessage: (data: unknown) => void,
  onConnection: (connection: Connection) => void,
  signal: AbortSignal,
  again: number | undefined,
): Promise<void> {
  let last: string | undefined;
  let failures = 0;
  while (!signal.aborted) {
    const connection = new AbortController();
    const leave = whenLeft(signal, () => connection.abort());
    try {
      const headers: HeadersInit = { Accept: "text/event-stream" };
      if (last !== undefined) headers["Last-Event-ID"] = last;
      const answer = await fetch(address(path), { headers, signal: connection.signal });
      if (answer.status === 401) tokenIsMissing();
      const isBusy = answer.status === 429;
      if (answer.status >= 400 && answer.status < 500 && !isBusy) return onConnection("refused");
      if (!answer.ok || answer.body === null) throw new Error(String(answer.status));
      onConnection("open");
      failures = 0;
      const reader = answer.body.getReader();
      const messages = new Messages();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        for (const { id, data } of messages.take(value)) {
          if (id !== undefined) last = id;
          onMessage(JSON.parse(data));
        }
      }
      // The server ends the stream of a run that is over.
      onConnection("ended");
      if (again === undefined) return;
      await pause(again, signal);
    } catch {
      if (signal.aborted) return;
      if (connection.signal.aborted) {
        await untilVisible(signal);
        continue;
      }
      onConnection("lost");
      await pause(DELAYS[Math.min(failures, DELAYS.length - 1)], signal);
      failures += 1;
    } finally {
      leave();
    }
  }
}

/** Calls back when the signal is raised, or when the tab has been hidden for long. Returns how to stop that. */
function whenLeft(signal: AbortSignal, then: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(then, HIDDEN);
  };
  look();
  signal.addEventListener("abort", then);
  document.addEventListener("visibilitychange", look);
  return () => {
    clearTimeout(timer);
    signal.removeEventListener("abort", then);
    document.removeEventListener("visibilitychange", look);
  };
}

function untilVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    signal.addEventListener("abort", look, { once: true });
    document.addEventListener("visibilitychange", look);
    look();
  });
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
