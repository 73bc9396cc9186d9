/** One test: its runs and its definition. `/test/ID` */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { source, store, test as testOf } from "../api/requests";
import { Icon } from "../ui/glyphs";
import { Loading, Problem, useTitle } from "../ui/parts";
import { Header } from "./header";
import { HistoryStrip } from "./history-strip";
import { RunTable } from "./runs";
import { useMayChange } from "./shell";
import { useStart, VariablesDialog } from "./start-run";
import { entryPoint } from "./tests";

const TABS = ["runs", "definition"] as const;

export function TestScreen() {
  const { id } = useParams({ from: "/test/$id" });
  const search = useSearch({ from: "/test/$id" });
  const tab = search.tab === "definition" ? "definition" : "runs";
  const known = useQuery({ queryKey: ["test", id], queryFn: () => testOf(id) });
  const mayChange = useMayChange();
  const start = useStart();
  const name = known.data?.spec.name ?? id;
  useTitle(name);
  return (
    <>
      <Header path={[{ name: "Tests", to: "/tests" }]} title={name}>
        {mayChange && (
          <button type="button" className="primary" onClick={() => start.begin(id, name)}>
            <Icon name="play" /> Run
          </button>
        )}
      </Header>
      <div className="tabs" role="tablist" aria-label="Test">
        {TABS.map((one) => (
          <Link
            key={one}
            role="tab"
            aria-selected={one === tab}
            to="/test/$id"
            params={{ id }}
            search={{ tab: one } as never}
          >
            {one[0].toUpperCase() + one.slice(1)}
          </Link>
        ))}
        <span className="faint about">
          {known.data && `v${known.data.spec.version ?? 1} · ${entryPoint(known.data.spec)}`}
        </span>
      </div>
      {start.problem !== undefined && <Problem error={start.problem} />}
      {known.isError && <Problem error={known.error} retry={() => known.refetch()} />}
      {known.isPending && <Loading />}
      {known.data !== undefined && tab === "runs" && (
        <>
          {(known.data.spec.summary?.history?.length ?? 0) > 0 && (
            <div className="history">
              <HistoryStrip history={known.data.spec.summary?.history ?? []} />
            </div>
          )}
          <RunTable filter={{ test: id }} />
        </>
      )}
      {known.data !== undefined && tab === "definition" && <Definition id={id} mayChange={mayChange} />}
      <VariablesDialog start={start} />
    </>
  );
}

function Definition({ id, mayChange }: { id: string; mayChange: boolean }) {
  const stored = useQuery({ queryKey: ["source", id], queryFn: () => source("tests", id) });
  const client = useQueryClient();
  const [text, setText] = useState<string>();
  const [said, setSaid] = useState<string>();
  const [problem, setProblem] = useState<unknown>();
  const isChanged = text !== undefined && text !== stored.data?.text;
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    if (isChanged) window.addEventListener("beforeunload", warn);
    return () => window.removeEventListener("beforeunload", warn);
  }, [isChanged]);
  if (stored.isPending) return <Loading />;
  if (stored.isError) return <Problem error={stored.error} retry={() => stored.refetch()} />;
  const save = async () => {
    try {
      const { stored: saved, warning } = await store("tests", text ?? "", id, stored.data.etag);
      setProblem(undefined);
      setSaid([`Saved as version ${saved.spec.version ?? ""}`, warning].filter(Boolean).join(". "));
      setText(undefined);
      await client.invalidateQueries({ queryKey: ["source", id] });
      await client.invalidateQueries({ queryKey: ["test", id] });
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <div className="definition">
      <textarea
        aria-label="Definition"
        className="editor"
        spellCheck={false}
        readOnly={!mayChange}
        value={text ?? stored.data.text}
        onChange={(event) => setText(event.target.value)}
      />
      {problem !== undefined && <Problem error={problem} />}
      <footer>
        {said !== undefined && !isChanged && <span className="saved">{said}</span>}
        <span className="grow" />
        {isChanged && (
          <>
            <button type="button" onClick={() => setText(undefined)}>
              Discard
            </button>
            <button type="button" className="primary" onClick={save}>
              Save
            </button>
          </>
        )}
      </footer>
    </div>
  );
}
