/** Whether the server answers. */
let problem: string | undefined;
const listeners = new Set<() => void>();

export const connectionProblem = () => problem;

export function onConnectionChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function setConnected(isConnected: boolean): void {
  const next = isConnected
    ? undefined
    : "Disconnected: the server does not answer. Nothing is lost; trying again.";
  if (next === problem) return;
  problem = next;
  for (const listener of listeners) listener();
}
