/** Variable sets: `/variablesets`. Secrets stay masked. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { address } from "../api/address";
import { source, store, variableSets } from "../api/requests";
import { readDotenv } from "../text/dotenv";
import { counted, shown } from "../text/format";
import { Command, Empty, Loading, Problem, useTitle } from "../ui/parts";
import { SaveProblem } from "./conflict";
import { DefinitionEditor } from "./definition-editor";
import { Dialog } from "./dialog";
import { useEdited } from "./edited";
import { Filters } from "./filters";
import { Header } from "./header";
import { useMayChange } from "./may-change";
import { More, usePages } from "./pages";
import { useUnsavedGuard } from "./unsaved";
import { VariableComparison } from "./variable-comparison";

const TEMPLATE = `type: VariableSet
spec:
  name: staging
  values:
  - key: GATEWAY
    value: http://localhost:8080
`;
const NEW = { text: TEMPLATE };

export function VariablesScreen() {
  const search = useSearch({ from: "/variablesets" });
  const { query } = search;
  const known = usePages(["variable sets", query], (page) => variableSets({ query, ...page }));
  const mayChange = useMayChange();
  const [edited, setEdited] = useState<string | null>();
  useTitle("Variables");
  return (
    <>
      <Header title="Variables">
        {mayChange && (
          <button type="button" className="primary" onClick={() => setEdited(null)}>
            New set
          </button>
        )}
      </Header>
      {known.isPending && <Loading />}
      {known.isError && <Problem error={known.error} retry={() => known.refetch()} />}
      {known.count === 0 && query === undefined && (
        <Empty>
          <p>There are no variable sets yet. Tests refer to their values as ${"{var:NAME}"}.</p>
          <Command text={`qualitytrace apply variableset -f staging.yaml --server-url ${address("")}`} />
        </Empty>
      )}
      {(query !== undefined || (known.count ?? 0) > 1) && (
        <Filters filters={[{ name: "query", label: "Filter sets", hint: "Filter sets" }]} search={search} />
      )}
      {(known.count ?? 0) > 1 && (
        <VariableComparison sets={known.items.map(({ spec }) => spec)} search={search} />
      )}
      <div className="scroll sections">
        {query !== undefined && known.count === 0 && (
          <p className="faint pad">No variable set matches this filter.</p>
        )}
        {known.items.map(({ spec }) => (
          <section key={spec.id}>
            <h2>
              {spec.name} <span className="faint">{counted(spec.values?.length ?? 0, "value")}</span>
              {mayChange && (
                <button type="button" className="quiet" onClick={() => setEdited(spec.id ?? "")}>
                  Edit
                </button>
              )}
            </h2>
            <table className="attributes" aria-label={spec.name}>
              <tbody>
                {(spec.values ?? []).map((value) => (
                  <tr key={value.key}>
                    <th scope="row">{value.key}</th>
                    <td>
                      <code>{shown(value.value ?? "", 1000)}</code>
                      {value.type === "secret" && <span className="faint"> secret</span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        ))}
        <More name="More sets" pages={known} />
      </div>
      {edited !== undefined && <Editor id={edited ?? undefined} onClose={() => setEdited(undefined)} />}
    </>
  );
}

/** Lines of a dotenv file become values of the set. */
function PasteDotenv({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const [pasted, setPasted] = useState("");
  const { pairs, unread } = readDotenv(pasted);
  const add = async () => {
    // Reading YAML takes as much code as a screen: it comes when it is needed.
    const { withVariables } = await import("../text/definition");
    onChange(withVariables(text, pairs));
    setPasted("");
  };
  return (
    <details>
      <summary>Paste a .env file</summary>
      <textarea
        aria-label="Lines of a .env file"
        className="mono"
        rows={5}
        spellCheck={false}
        placeholder={"GATEWAY=http://localhost:8080"}
        value={pasted}
        onChange={(event) => setPasted(event.target.value)}
      />
      {unread.length > 0 && (
        <p className="diagnostic plain">
          {unread.length === 1 ? "Line" : "Lines"} {unread.slice(0, 10).join(", ")} cannot be read: NAME=value
          is expected.
        </p>
      )}
      <p>
        <button type="button" disabled={pairs.length === 0} onClick={add}>
          Add {counted(pairs.length, "value")}
        </button>{" "}
        <span className="faint">Names such as PASSWORD, TOKEN or API_KEY become secrets.</span>
      </p>
    </details>
  );
}

const QUESTION = "The variable set is not saved. Leave it?";

function Editor({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const client = useQueryClient();
  const stored = useQuery({
    queryKey: ["source of set", id],
    queryFn: () => source("variablesets", id ?? ""),
    enabled: id !== undefined,
  });
  const edited = useEdited(
    id === undefined ? NEW : stored.data,
    () => source("variablesets", id ?? ""),
    async (text, etag) => {
      await store("variablesets", text, id, etag);
      await client.invalidateQueries({ queryKey: ["variable sets"] });
      await client.invalidateQueries({ queryKey: ["source of set", id] });
      onClose();
    },
  );
  const { text, isChanged, change } = edited;
  useUnsavedGuard(isChanged, QUESTION);
  const close = () => {
    if (!isChanged || window.confirm(QUESTION)) onClose();
  };
  const takeTheirs = async () => {
    edited.forget();
    await client.invalidateQueries({ queryKey: ["source of set", id] });
  };
  return (
    <Dialog name="Variable set" onClose={close}>
      <div className="form">
        <h2>{id ?? "New variable set"}</h2>
        {stored.isLoading && <Loading />}
        {stored.isError && <Problem error={stored.error} retry={() => stored.refetch()} />}
        {(id === undefined || stored.data !== undefined) && (
          <>
            <DefinitionEditor name="Definition" lines={16} text={text} onChange={change} />
            <PasteDotenv text={text} onChange={change} />
            <SaveProblem edited={edited} onTheirs={takeTheirs} />
          </>
        )}
        <div className="buttons">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button
            type="button"
            className="primary"
            disabled={id !== undefined && stored.data === undefined}
            onClick={() => edited.save()}
          >
            Save
          </button>
        </div>
      </div>
    </Dialog>
  );
}
