/** One test: its runs and its definition. `/test/ID` */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { source, store, test as testOf } from "../api/requests";
import { Icon } from "../ui/glyphs";
import { Loading, onArrowKeys, Problem, usePassing, useTitle } from "../ui/parts";
import { SaveProblem } from "./conflict";
import { DefinitionEditor } from "./definition-editor";
import { useEdited } from "./edited";
import { Header } from "./header";
import { History } from "./history";
import { HistoryStrip } from "./history-strip";
import { useMayChange } from "./may-change";
import { RunTable } from "./runs";
import { useStart, VariablesDialog } from "./start-run";
import { TestActions } from "./test-actions";
import { entryPoint } from "./tests";
import { useUnsavedGuard } from "./unsaved";
import { Versions } from "./versions";

// Reading YAML takes as much code as a screen: it comes when it is needed.
const TriggerForm = lazy(() => import("./trigger-form").then(({ TriggerForm: form }) => ({ default: form })));

const TABS = ["runs", "history", "definition", "versions"] as const;

export function TestScreen() {
  const { id } = useParams({ from: "/test/$id" });
  const search = useSearch({ from: "/test/$id" });
  const tab = TABS.find((one) => one === search.tab) ?? "runs";
  const known = useQuery({ queryKey: ["test", id], queryFn: () => testOf(id) });
  const mayChange = useMayChange();
  const start = useStart();
  const name = known.data?.spec.name ?? id;
  useTitle(name);
  return (
    <>
      <Header path={[{ name: "Tests", to: "/tests" }]} title={name}>
        {mayChange && known.data !== undefined && <TestActions id={id} name={name} />}
        {mayChange && (
          <button type="button" className="primary" onClick={() => start.begin(id, name)}>
            <Icon name="play" /> Run
          </button>
        )}
      </Header>
      <div className="tabs" role="tablist" aria-label="Test" onKeyDown={onArrowKeys}>
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
      {known.data !== undefined && tab === "history" && <History id={id} />}
      {known.data !== undefined && tab === "definition" && (
        <Definition id={id} mayChange={mayChange} run={known.data.spec.summary?.history?.[0]?.run} />
      )}
      {known.data !== undefined && tab === "versions" && (
        <Versions id={id} last={known.data.spec.version ?? 1} search={search} mayChange={mayChange} />
      )}
      <VariablesDialog start={start} />
    </>
  );
}

/** The text of a test, beside its form; attributes and values are offered from the spans of a run. */
function Definition({ id, mayChange, run }: { id: string; mayChange: boolean; run: number | undefined }) {
  const stored = useQuery({ queryKey: ["source", id], queryFn: () => source("tests", id) });
  const client = useQueryClient();
  const [said, setSaid] = usePassing<string>();
  const edited = useEdited(
    stored.data,
    () => source("tests", id),
    async (text, etag) => {
      const { version, warning } = await store("tests", text, id, etag);
      setSaid([`Saved as version ${version}`, warning].filter(Boolean).join(". "));
      await client.invalidateQueries({ queryKey: ["source", id] });
      await client.invalidateQueries({ queryKey: ["test", id] });
    },
  );
  const { text, isChanged, change } = edited;
  useUnsavedGuard(isChanged, "The definition is not saved. Leave it?", (at) => at.pathname + at.search.tab);
  if (stored.isPending) return <Loading />;
  if (stored.isError) return <Problem error={stored.error} retry={() => stored.refetch()} />;
  const forget = async () => {
    edited.forget();
    await client.invalidateQueries({ queryKey: ["source", id] });
  };
  return (
    <div className="definition">
      <div className={mayChange ? "two create" : "definition"}>
        <DefinitionEditor
          name="Definition"
          text={text}
          onChange={change}
          isReadOnly={!mayChange}
          source={run === undefined ? undefined : { kind: "run", test: id, run }}
        />
        {mayChange && (
          <div className="side scroll">
            <Suspense>
              <TriggerForm text={text} onChange={change} />
            </Suspense>
          </div>
        )}
      </div>
      <SaveProblem edited={edited} onTheirs={forget} />
      {(isChanged || said !== undefined) && (
        <footer>
          {said !== undefined && !isChanged && <span className="saved">{said}</span>}
          <span className="grow" />
          {isChanged && (
            <>
              <button type="button" onClick={forget}>
                Discard
              </button>
              <button type="button" className="primary" onClick={() => edited.save()}>
                Save
              </button>
            </>
          )}
        </footer>
      )}
    </div>
  );
}
