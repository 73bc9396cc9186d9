/** Somebody else has saved meanwhile: what differs, and what to do about it. */
import { useMemo } from "react";
import { diff, hunks } from "../text/diff";
import { shown } from "../text/format";

export function Conflict(props: { theirs: string; mine: string; onMine: () => void; onTheirs: () => void }) {
  const { theirs, mine, onMine, onTheirs } = props;
  const lines = useMemo(() => hunks(diff(theirs, mine)), [theirs, mine]);
  return (
    <section className="conflict" aria-label="Conflict">
      <p>
        Somebody else has saved this test meanwhile. Nothing of yours is lost: <b>−</b> is what is stored now,{" "}
        <b>+</b> what is in the editor.
      </p>
      <pre className="diff">
        {lines.map((line, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no id, and never change their order
          <div key={index} className={line?.kind ?? "faint"}>
            {line === undefined
              ? "…"
              : `${{ same: " ", removed: "−", added: "+" }[line.kind]} ${shown(line.text, 2000)}`}
          </div>
        ))}
      </pre>
      <div className="buttons">
        <button type="button" onClick={onTheirs}>
          Take what is stored
        </button>
        <button type="button" onClick={onMine}>
          Replace it by mine
        </button>
      </div>
    </section>
  );
}
