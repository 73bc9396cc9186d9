/** Variable sets: `/variablesets`. Secrets stay masked. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { source, store, variableSets } from "../api/requests";
import { counted, shown } from "../text/format";
import { Command, Empty, Loading, Problem, useTitle } from "../ui/parts";
import { Header } from "./header";
import { Dialog, useMayChange } from "./shell";

const TEMPLATE = `type: VariableSet
spec:
  name: staging
  values:
  - key: GATEWAY
    value: http://localhost:8080
`;

export function VariablesScreen() {
  const known = useQuery({ queryKey: ["variable sets"], queryFn: variableSets });
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
      {known.data?.count === 0 && (
        <Empty>
          <p>There are no variable sets yet. Tests refer to their values as ${"{var:NAME}"}.</p>
          <Command text="qualitytrace apply variableset -f staging.yaml" />
        </Empty>
      )}
      <div className="scroll sections">
        {(known.data?.items ?? []).map(({ spec }) => (
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
      </div>
      {edited !== undefined && <Editor id={edited ?? undefined} onClose={() => setEdited(undefined)} />}
    </>
  );
}

function Editor({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const client = useQueryClient();
  const stored = useQuery({
    queryKey: ["source of set", id],
    queryFn: () => source("variablesets", id ?? ""),
    enabled: id !== undefined,
  });
  const [text, setText] = useState<string>();
  const [problem, setProblem] = useState<unknown>();
  const value = text ?? stored.data?.text ?? (id === undefined ? TEMPLATE : "");
  const save = async () => {
    try {
      await store("variablesets", value, id, stored.data?.etag);
      await client.invalidateQueries({ queryKey: ["variable sets"] });
      await client.invalidateQueries({ queryKey: ["source of set", id] });
      onClose();
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <Dialog name="Variable set" onClose={onClose}>
      <div className="form">
        <h2>{id ?? "New variable set"}</h2>
        <textarea
          aria-label="Definition"
          className="mono"
          rows={16}
          spellCheck={false}
          value={value}
          onChange={(event) => setText(event.target.value)}
        />
        {problem !== undefined && <Problem error={problem} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="button" className="primary" onClick={save}>
            Save
          </button>
        </div>
      </div>
    </Dialog>
  );
}
