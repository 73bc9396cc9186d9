/** The draft of a run: its lines, tried on the run, and what can be done with them. */
import { counted } from "../text/format";
import { Icon } from "../ui/glyphs";
import { Copy, Problem } from "../ui/parts";
import { Editor, Tried } from "./draft-editor";
import { type DraftState, type Line, yaml } from "./draft-state";
import { useMayChange } from "./may-change";
import { download } from "./share";
import { useUnsavedGuard } from "./unsaved";

export function Draft({ draft }: { draft: DraftState }) {
  const { lines, editing } = draft;
  const mayChange = useMayChange();
  const isUnsaved = lines.length > 0;
  // The tabs of a run share its draft.
  useUnsavedGuard(
    isUnsaved || editing !== undefined,
    "The draft is not saved. Leave it?",
    (at) => at.pathname.split("/run/")[0],
  );
  const patch = async () => {
    const diff = await draft.patch();
    if (diff !== undefined) download(`${draft.test ?? "test"}.patch`, "text/x-patch", diff);
  };
  if (!isUnsaved && editing === undefined && draft.problem === undefined && draft.saved === undefined)
    return null;
  return (
    <section className="draft" aria-label="Draft">
      {editing !== undefined && <Editor draft={draft} editing={editing} />}
      {draft.problem !== undefined && <Problem error={draft.problem} />}
      {draft.saved !== undefined && !isUnsaved && <p className="saved">{draft.saved}</p>}
      {isUnsaved && (
        <>
          <header>
            <h2>Draft</h2>
            <span className="faint">{counted(lines.length, "change")}</span>
            <span className="grow" />
            <Copy text={yaml(lines)} name="Copy YAML" />
            <button type="button" className="quiet" onClick={patch}>
              Download patch
            </button>
            <button type="button" onClick={draft.discard}>
              Discard
            </button>
            {mayChange && (
              <button type="button" className="primary" onClick={draft.save}>
                Save
              </button>
            )}
          </header>
          <ul>
            {lines.map((line, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the same line may be in it twice
              <li key={index}>
                <Tried source={draft.source} line={line} />
                <code title={line.selector}>{line.selector}</code>
                <code title={told(line)}>{told(line)}</code>
                <button
                  type="button"
                  className="quiet small"
                  aria-label="Remove"
                  onClick={() => draft.remove(index)}
                >
                  <Icon name="close" />
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

/** What a line says beside its selector. */
function told(line: Line): string {
  if (line.kind === "output") return `output ${line.name}: ${line.value}`;
  if (line.kind === "selector") return `new selector of “${line.name || `spec ${line.at + 1}`}”`;
  return line.assertion;
}
