/** Asks before something that is not saved is left behind. */
import { useBlocker } from "@tanstack/react-router";

interface Place {
  pathname: string;
  search: Record<string, string | undefined>;
}

/**
 * Asks a question when the reader leaves; addresses with the same `place` are not left. A reload or a closed tab is
 * asked about by the browser.
 */
export function useUnsavedGuard(
  isUnsaved: boolean,
  question: string,
  place: (at: Place) => string = (at) => at.pathname,
): void {
  useBlocker({
    shouldBlockFn: ({ current, next }) =>
      isUnsaved && place(current as Place) !== place(next as Place) && !window.confirm(question),
    enableBeforeUnload: isUnsaved,
  });
}
