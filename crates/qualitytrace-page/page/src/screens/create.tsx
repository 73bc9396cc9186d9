/** A new test: written, or made of a trace, or of a curl command. `/test/create` */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ask, client } from "../api/client";
import { store, testOfTrace } from "../api/requests";
import { Loading, Problem, useTitle } from "../ui/parts";
import { Header } from "./header";

const TEMPLATE = `type: Test
spec:
  name: My test
  trigger:
    type: http
    httpRequest:
      method: GET
      url: http://localhost:8080/
  specs:
  - name: It answers
    selector: span[name = "Tracetest trigger"]
    assertions:
    - attr:tracetest.response.status = 200
`;

export function CreateScreen() {
  const search = useSearch({ from: "/test/create" });
  const navigate = useNavigate();
  const [text, setText] = useState<string>();
  const [pasted, setPasted] = useState("");
  const [problem, setProblem] = useState<unknown>();
  const [warnings, setWarnings] = useState<string[]>([]);
  useTitle("New test");
  const made = useQuery({
    queryKey: ["test of", search.trace, search.span],
    queryFn: () => testOfTrace(search.trace ?? "", search.span),
    enabled: search.trace !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const value = text ?? made.data?.definition ?? TEMPLATE;
  const save = async () => {
    try {
      const { stored } = await store("tests", value);
      await navigate({ to: "/test/$id", params: { id: stored.spec.id } });
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
      <div className="two">
        <div className="definition">
          <textarea
            aria-label="Definition"
            className="editor"
            spellCheck={false}
            value={value}
            onChange={(event) => setText(event.target.value)}
          />
        </div>
        <section className="side form">
          <h2>Or paste a request</h2>
          <p className="faint">A curl command, a HAR or Postman file, an OpenAPI description, a hurl file.</p>
          <textarea
            aria-label="Paste"
            className="mono"
            rows={8}
            spellCheck={false}
            placeholder="curl -X POST http://localhost:8080/orders -d '{}'"
            value={pasted}
            onChange={(event) => setPasted(event.target.value)}
          />
          <button type="button" disabled={pasted.trim() === ""} onClick={importText}>
            Make a test of it
          </button>
        </section>
      </div>
    </>
  );
}
