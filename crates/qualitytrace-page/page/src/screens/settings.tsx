/** What a server has one of: data store, polling profile, analyzer, test runner. `/settings?tab=` */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import type { Shape } from "../api/client";
import { current, type Single, store, testConnection } from "../api/requests";
import { type Outcome, OutcomeWord } from "../ui/glyphs";
import { Loading, onArrowKeys, Problem, useTitle } from "../ui/parts";
import { SaveProblem } from "./conflict";
import { DefinitionEditor } from "./definition-editor";
import { useEdited } from "./edited";
import { Header } from "./header";
import { useMayChange } from "./may-change";
import { useUnsavedGuard } from "./unsaved";

const TABS: Record<string, { kind: Single; title: string; about: string }> = {
  dataStore: { kind: "datastores", title: "Data store", about: "Where traces come from." },
  polling: { kind: "pollingprofiles", title: "Waiting", about: "How long a run waits for its trace." },
  analyzer: { kind: "analyzers", title: "Analyzer", about: "Rules that every trace is held against." },
  testRunner: { kind: "testrunners", title: "Gates", about: "What a run must pass." },
};

export function SettingsScreen() {
  const search = useSearch({ from: "/settings" });
  const tab = search.tab !== undefined && search.tab in TABS ? search.tab : "dataStore";
  useTitle("Settings");
  return (
    <>
      <Header title="Settings" />
      <div className="tabs" role="tablist" aria-label="Settings" onKeyDown={onArrowKeys}>
        {Object.entries(TABS).map(([name, { title }]) => (
          <Link
            key={name}
            role="tab"
            aria-selected={name === tab}
            to="/settings"
            search={{ tab: name } as never}
          >
            {title}
          </Link>
        ))}
        <span className="faint about">{TABS[tab].about}</span>
      </div>
      <Resource key={tab} kind={TABS[tab].kind} title={TABS[tab].title} />
    </>
  );
}

function Resource({ kind, title }: { kind: Single; title: string }) {
  const stored = useQuery({ queryKey: ["current", kind], queryFn: () => current(kind) });
  const client = useQueryClient();
  const mayChange = useMayChange();
  const [isSaved, setSaved] = useState(false);
  const edited = useEdited(
    stored.data,
    () => current(kind),
    async (text, etag) => {
      await store(kind, text, "current", etag);
      setSaved(true);
      await client.invalidateQueries({ queryKey: ["current", kind] });
    },
  );
  const { isChanged } = edited;
  useUnsavedGuard(isChanged, "The setting is not saved. Leave it?", (at) => at.pathname + at.search.tab);
  if (stored.isPending) return <Loading />;
  if (stored.isError) return <Problem error={stored.error} retry={() => stored.refetch()} />;
  const forget = async () => {
    edited.forget();
    await client.invalidateQueries({ queryKey: ["current", kind] });
  };
  return (
    <div className="definition">
      <DefinitionEditor name={title} text={edited.text} onChange={edited.change} isReadOnly={!mayChange} />
      <SaveProblem edited={edited} onTheirs={forget} />
      {kind === "datastores" && mayChange && <ConnectionTest />}
      {(isChanged || isSaved) && (
        <footer>
          {isSaved && !isChanged && <span className="saved">Saved</span>}
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

const STEPS = [
  ["portCheck", "The port is the usual one"],
  ["connectivity", "A connection is made"],
  ["authentication", "It lets us in"],
  ["fetchTraces", "Traces can be read"],
] as const;

function outcomeOfStep(step: Shape<"Connection">["portCheck"] | undefined): Outcome {
  if (step?.status === "warning") return "inconclusive";
  if (step?.status === "skipped") return "stopped";
  return step?.passed === true ? "passed" : "failed";
}

function ConnectionTest() {
  const [tried, setTried] = useState<Shape<"Connection">>();
  const [isTrying, setTrying] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const attempt = async () => {
    setTrying(true);
    try {
      setTried(await testConnection());
      setProblem(undefined);
    } catch (error) {
      setProblem(error);
    }
    setTrying(false);
  };
  const steps = STEPS.map(([name, words]) => ({ words, step: tried?.[name] }));
  const taken = steps.filter(({ step }) => step?.status !== undefined || step?.passed !== undefined);
  return (
    <section className="connection-test" aria-label="Connection test">
      <button type="button" disabled={isTrying} onClick={attempt}>
        Test the connection
      </button>
      {problem !== undefined && <Problem error={problem} />}
      {tried !== undefined && taken.length === 0 && (
        <span className="faint">Traces are sent to this server: there is nothing to connect to.</span>
      )}
      {taken.map(({ words, step }) => (
        <p key={words}>
          <OutcomeWord outcome={outcomeOfStep(step)}>{words}</OutcomeWord>{" "}
          <span className="faint">{[step?.message, step?.error].filter(Boolean).join(": ")}</span>
        </p>
      ))}
    </section>
  );
}
