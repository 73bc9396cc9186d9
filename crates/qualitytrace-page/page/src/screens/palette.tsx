/** The command palette: every place and every test, by typing. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { tests } from "../api/requests";
import { chooseTheme } from "../ui/theme";
import { Dialog, useMayChange } from "./shell";

interface Entry {
  key: string;
  name: string;
  hint: string;
  act: () => unknown;
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const list = useId();
  const mayChange = useMayChange();
  const known = useQuery({ queryKey: ["tests"], queryFn: () => tests(), staleTime: 10_000 });
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
  const all = (known.data?.items ?? []).flatMap(({ spec }): Entry[] => {
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
  const found = [...places, ...all, ...themes]
    .filter((entry) => words.every((word) => `${entry.name} ${entry.hint}`.toLowerCase().includes(word)))
    .slice(0, 12);
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
        {found.length === 0 && <p className="faint pad">Nothing has this name.</p>}
      </div>
    </Dialog>
  );
}
