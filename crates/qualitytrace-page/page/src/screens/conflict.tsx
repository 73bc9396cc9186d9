/** Somebody else has saved meanwhile: what differs, and what to do about it. */
import { DiffLines } from "./diff-lines";

export function Conflict(props: { theirs: string; mine: string; onMine: () => void; onTheirs: () => void }) {
  const { theirs, mine, onMine, onTheirs } = props;
  return (
    <section className="conflict" aria-label="Conflict">
      <p>
        Somebody else has saved this test meanwhile. Nothing of yours is lost: <b>−</b> is what is stored now,{" "}
        <b>+</b> what is in the editor.
      </p>
      <DiffLines before={theirs} after={mine} />
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
