/** Somebody else has saved meanwhile: what differs, and what to do about it. */
import { Problem } from "../ui/parts";
import { DiffLines } from "./diff-lines";
import type { Edited } from "./edited";

/** Why an edited text could not be saved. `onTheirs` is called when the reader takes what is stored. */
export function SaveProblem({ edited, onTheirs }: { edited: Edited; onTheirs: () => void }) {
  const { problem, theirs, text, save } = edited;
  return (
    <>
      {problem !== undefined && <Problem error={problem} />}
      {theirs !== undefined && (
        <section className="conflict" aria-label="Conflict">
          <p>
            Somebody else has saved this meanwhile. Nothing of yours is lost: <b>−</b> is what is stored now,{" "}
            <b>+</b> what is in the editor.
          </p>
          <DiffLines before={theirs.text} after={text} />
          <div className="buttons">
            <button type="button" onClick={onTheirs}>
              Take what is stored
            </button>
            <button type="button" onClick={() => save(theirs.etag)}>
              Replace it by mine
            </button>
          </div>
        </section>
      )}
    </>
  );
}
