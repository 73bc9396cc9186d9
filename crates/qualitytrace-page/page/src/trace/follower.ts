/** Keeps the columns of a trace current: asks for what is new, at most every 100 ms, and tells who listens. */
import { type ColumnsAnswer, Trace } from "./columns";

/** The shortest time between two requests, in milliseconds. */
const PACE = 100;

export type Ask = (from: number, revision: string | undefined, signal: AbortSignal) => Promise<ColumnsAnswer>;

export class Follower {
  readonly trace = new Trace();
  error: unknown;
  isLoaded = false;
  /** Counts changes, so that React notices them. */
  version = 0;
  private abort = new AbortController();
  private readonly listeners = new Set<() => void>();
  private isAsking = false;
  private isWanted = false;

  private readonly ask: Ask;

  constructor(ask: Ask) {
    this.ask = ask;
  }

  /** Asks for what is new. Calls while a request is under way lead to one more. */
  async refresh(): Promise<void> {
    this.isWanted = true;
    if (this.isAsking) return;
    this.isAsking = true;
    const { signal } = this.abort;
    while (this.isWanted && !signal.aborted) {
      this.isWanted = false;
      const began = performance.now();
      try {
        const { total, revision } = this.trace;
        const answer = await this.ask(total, revision || undefined, signal);
        if (this.trace.take(answer) || !this.isLoaded) this.changed();
        this.error = undefined;
      } catch (error) {
        if (signal.aborted) break;
        this.error = error;
        this.changed();
      }
      const early = PACE - (performance.now() - began);
      if (this.isWanted) await new Promise((resolve) => setTimeout(resolve, Math.max(0, early)));
    }
    if (!signal.aborted) this.isAsking = false;
  }

  /** Gives up what is under way. It can be refreshed again afterwards. */
  stop(): void {
    this.abort.abort();
    this.abort = new AbortController();
    this.isAsking = false;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = (): number => this.version;

  private changed(): void {
    this.isLoaded = true;
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}
