/** What differs between two texts, line by line. */
import { useMemo } from "react";
import { diff, hunks } from "../text/diff";
import { shown } from "../text/format";

const SIGNS = { same: " ", removed: "−", added: "+" } as const;

export function DiffLines({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => hunks(diff(before, after)), [before, after]);
  return (
    <pre className="diff">
      {lines.map((line, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no id, and never change their order
        <div key={index} className={line?.kind ?? "faint"}>
          {line === undefined ? "…" : `${SIGNS[line.kind]} ${shown(line.text, 2000)}`}
        </div>
      ))}
    </pre>
  );
}
