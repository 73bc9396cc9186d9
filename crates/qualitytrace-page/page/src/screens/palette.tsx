/** The command palette: every place, test and suite, by typing. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useId, useState } from "react";
import { findSuites, findTests } from "../api/requests";
import { chooseTheme } from "../ui/theme";
import { Dialog } from "./dialog";
import { useMayChange } from "./may-change";

interface Entry {
  key: string;
  name: string;
  hint: string;
  act: () => unknown;
}

/** Entries that are listed. */
const SHOWN = 12;

export function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const list = useId();
  const mayChange = useMayChange();
  // "Run checkout" looks for the test "checkout", too.
  const asked = useDeferredValue(typed.trim().replace(/^(run|test|suite)\s+/i, ""));
  const named = useQuery({
    queryKey: ["palette", asked],
    queryFn: () => Promise.all([findTests(asked, SHOWN), findSuites(asked, SHOWN)]),
    staleTime: 10_000,
    placeholderData: keepPreviousData,
  });
  const [tests, suites] = named.data ?? [];
  const places: Entry[] = [
    ["Tests", "/tests"],
    ["Runs", "/runs"],
    ["Suites", "/testsuites"],
    ["Traces", "/traces"],
    ["Variables", "/variablesets"],
    ["Status", "/status"],
    ["Settings", "/settings"],
    ["New test", "/test/create"],
    ["Send a trace", "/start"],
  ].map(([name, to]) => ({ key: to, name, hint: "go to", act: () => navigate({ to }) }));
  const themes: Entry[] = (["light", "dark", "system"] as const).map((theme) => ({
    key: theme,
    name: `Theme: ${theme}`,
    hint: "appearance",
    act: () => chooseTheme(theme),
  }));
  const ofSuites = (suites?.items ?? []).map(({ spec }): Entry => {
    const id = spec.id ?? "";
    return {
      key: `suite ${id}`,
      name: spec.name ?? id,
      hint: "suite",
      act: () => navigate({ to: "/testsuite/$id", params: { id } }),
    };
  });
  const ofTests = (tests?.items ?? []).flatMap(({ spec }): Entry[] => {
    const id = spec.id ?? "";
    const open = {
      key: `open ${id}`,
      name: spec.name ?? id,
      hint: "test",
      act: () => navigate({ to: "/test/$id", params: { id } }),
    };
    const start = {
      key: `run ${id}`,
      name: `Run ${spec.name ?? id}`,
      hint: "start a run",
      act: () => navigate({ to: "/test/$id/run", params: { id }, state: { isRunWanted: true } }),
    };
    return mayChange ? [open, start] : [open];
  });
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...places, ...ofTests, ...ofSuites, ...themes]
    .filter((entry) => words.every((word) => `${entry.name} ${entry.hint}`.toLowerCase().includes(word)))
    .slice(0, SHOWN);
  const chosen = Math.min(at, found.length - 1);
  const act = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    void entry.act();
  };
  return (
    <Dialog name="Command palette" onClose={onClose}>
      <input
        className="palette-input"
        role="combobox"
        aria-label="Command"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={found.length > 0 ? `${list}-${chosen}` : undefined}
        placeholder="Go to, run, switch…"
        autoFocus
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, found.length - 1));
          else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
          else if (event.key === "Enter") act(found[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <div className="palette-list" role="listbox" id={list} aria-label="Commands">
        {found.map((entry, index) => (
          <div
            key={entry.key}
            id={`${list}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            onClick={() => act(entry)}
            onKeyDown={() => {}}
            onMouseMove={() => setAt(index)}
          >
            <span>{entry.name}</span> <span className="faint">{entry.hint}</span>
          </div>
        ))}
        {found.length === 0 && (
          <p className="faint pad">{named.isFetching ? "Looking…" : "Nothing has this name."}</p>
        )}
      </div>
    </Dialog>
  );
}
