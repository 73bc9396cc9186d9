/** View states in the address. */
import { useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";

/** Changes some of the search parameters. Moves that a user would undo with Back are pushed, typing replaces. */
export function useSearchChange() {
  const navigate = useNavigate();
  return useCallback(
    (change: Record<string, string | undefined>, isTyping: boolean) => {
      void navigate({
        to: ".",
        search: ((before: Record<string, unknown>) => ({ ...before, ...change })) as never,
        replace: isTyping,
        resetScroll: false,
      });
    },
    [navigate],
  );
}

/** Reads parameters that are texts; others are left out. */
export function texts<Name extends string>(...names: Name[]) {
  return (search: Record<string, unknown>): { [name in Name]?: string } => {
    const found: { [name in Name]?: string } = {};
    for (const name of names) {
      const value = search[name];
      if (typeof value === "string" && value !== "") found[name] = value;
      else if (typeof value === "number") found[name] = String(value);
    }
    return found;
  };
}
