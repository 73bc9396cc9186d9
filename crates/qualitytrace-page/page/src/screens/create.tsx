/** A new test: written, or made of a trace, or of a curl command. `/test/create` */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { flushSync } from "react-dom";
import { ask, client } from "../api/client";
import { type Source, store, testOfTrace } from "../api/requests";
import { Loading, Problem, useTitle } from "../ui/parts";
import { DefinitionEditor } from "./definition-editor";
import { Header } from "./header";
import { template } from "./trigger-fields";
import { TriggerForm } from "./trigger-form";
import { useUnsavedGuard } from "./unsaved";

export function CreateScreen() {
  const { type = "http" } = useParams({ strict: false }) as { type?: string };
  const search = useSearch({ strict: false }) as { trace?: string; span?: string; from?: string };
  const navigate = useNavigate();
  const [text, setText] = useState<string>();
  const [pasted, setPasted] = useState("");
  const [problem, setProblem] = useState<unknown>();
  const [warnings, setWarnings] = useState<string[]>([]);
  const [isSaved, setSaved] = useState(false);
  useTitle("New test");
  useUnsavedGuard(text !== undefined && !isSaved, "The test is not saved. Leave it?");
  const made = useQuery({
    queryKey: ["test of", search.trace, search.span],
    queryFn: () => testOfTrace(search.trace ?? "", search.span),
    enabled: search.trace !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { trace } = search;
  const source: Source | undefined = trace === undefined ? undefined : { kind: "trace", id: trace };
  const value = text ?? made.data?.definition ?? template(type);
  const save = async () => {
    try {
      const { id } = await store("tests", value);
      // What is saved may be left.
      flushSync(() => setSaved(true));
      await navigate({ to: "/test/$id", params: { id } });
    } catch (error) {
      setProblem(error);
    }
  };
  const importText = async () => {
    try {
      const answer = await ask(client.POST("/api/import", { body: { text: pasted } }));
      setText(answer.definitions.map((one) => one.text).join("---\n"));
      setWarnings(answer.warnings);
      setProblem(undefined);
    } catch (error) {
      setProblem(error);
    }
  };
  if (search.trace !== undefined && made.isPending) return <Loading />;
  return (
    <>
      <Header path={[{ name: "Tests", to: "/tests" }]} title="New test">
        <button type="button" className="primary" onClick={save}>
          Save
        </button>
      </Header>
      {made.isError && <Problem error={made.error} />}
      {problem !== undefined && <Problem error={problem} />}
      {warnings.map((warning) => (
        <p key={warning} className="notice">
          {warning}
        </p>
      ))}
      <div className="two create">
        <div className="definition">
          <DefinitionEditor name="Definition" text={value} onChange={setText} source={source} />
        </div>
        <div className="side scroll">
          <TriggerForm text={value} onChange={setText} />
          <details className="import" open={search.from === "curl"}>
            <summary>Paste a request</summary>
            <p className="faint">
              A curl command, a HAR or Postman file, an OpenAPI description, a hurl file.
            </p>
            <textarea
              aria-label="Paste"
              className="mono"
              rows={6}
              spellCheck={false}
              placeholder="curl -X POST http://localhost:8080/orders -d '{}'"
              value={pasted}
              onChange={(event) => setPasted(event.target.value)}
            />
            <button type="button" disabled={pasted.trim() === ""} onClick={importText}>
              Make a test of it
            </button>
          </details>
        </div>
      </div>
    </>
  );
}
