/** Deletions that can be undone: the server is asked when the time for that is over. */
import { deleteTest } from "../api/requests";

/** Milliseconds in which a deletion can be undone. */
const TIME = 8000;

export interface Deletion {
  id: string;
  name: string;
}

let pending: readonly Deletion[] = [];
const timers = new Map<string, ReturnType<typeof setTimeout>>();
const listeners = new Set<() => void>();

export const pendingDeletions = () => pending;

export function onDeletionChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(next: readonly Deletion[]) {
  pending = next;
  for (const listener of listeners) listener();
}

/** Deletes a test in a while; `done` is told when it is gone, or why not. */
export function deleteLater(test: Deletion, done: (problem?: unknown) => void): void {
  if (timers.has(test.id)) return;
  const act = async () => {
    timers.delete(test.id);
    const problem = await deleteTest(test.id).then(
      () => undefined,
      (error: unknown) => error,
    );
    change(pending.filter(({ id }) => id !== test.id));
    done(problem);
  };
  timers.set(test.id, setTimeout(act, TIME));
  change([...pending, test]);
}

/** Leaves a test where it is. */
export function undoDeletion(id: string): void {
  clearTimeout(timers.get(id));
  timers.delete(id);
  change(pending.filter((one) => one.id !== id));
}
