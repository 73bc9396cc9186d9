/** What surrounds every screen: the rail, the palette, the list of keys, and the state of the connection. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useState, useSyncExternalStore } from "react";
import { isAlive, session, signOut } from "../api/requests";
import { Icon } from "../ui/glyphs";
import { Menu } from "../ui/menu";
import { type Choice, chooseTheme, chosenTheme } from "../ui/theme";
import { connectionProblem, onConnectionChange, setConnected } from "./connection";
import { Dialog } from "./dialog";
import { Palette } from "./palette";
import { DeletionBar } from "./test-actions";

const PLACES = [
  { name: "Tests", to: "/tests", icon: "tests", key: "t" },
  { name: "Runs", to: "/runs", icon: "runs", key: "r" },
  { name: "Suites", to: "/testsuites", icon: "suites", key: "s" },
  { name: "Traces", to: "/traces", icon: "traces", key: "a" },
  { name: "Variables", to: "/variablesets", icon: "variables", key: "v" },
  { name: "Status", to: "/status", icon: "status", key: "u" },
  { name: "Settings", to: "/settings", icon: "settings", key: "e" },
] as const;

export function Shell() {
  const [dialog, setDialog] = useState<"palette" | "keys">();
  const navigate = useNavigate();
  const isLogin = useRouterState({ select: (state) => state.location.pathname.endsWith("/login") });
  useEffect(() => {
    let isGoing = false;
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setDialog((before) => (before === "palette" ? undefined : "palette"));
        return;
      }
      const isTyping =
        (event.target as HTMLElement).closest("input, textarea, select, [contenteditable]") !== null;
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      const place = isGoing ? PLACES.find((one) => one.key === event.key) : undefined;
      isGoing = event.key === "g";
      if (place !== undefined) void navigate({ to: place.to });
      if (event.key === "?") setDialog("keys");
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [navigate]);
  if (isLogin) return <Outlet />;
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Skip to content
      </a>
      <nav className="rail" aria-label="Main">
        <span className="brand" aria-hidden="true">
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path d="M3 6h11M7 12h12M11 18h6" />
          </svg>
        </span>
        {PLACES.map((place) => (
          <Link key={place.to} to={place.to} activeProps={{ className: "here" }}>
            <Icon name={place.icon} />
            <span>{place.name}</span>
          </Link>
        ))}
        <div className="grow" />
        <button
          type="button"
          onClick={() => setDialog("palette")}
          aria-label="Command palette"
          title="Command palette (Ctrl+K)"
        >
          <Icon name="palette" />
        </button>
        <ThemeButton />
        <SignOut />
      </nav>
      <main id="content" tabIndex={-1}>
        <ConnectionBar />
        <DeletionBar />
        <Outlet />
      </main>
      {dialog === "palette" && <Palette onClose={() => setDialog(undefined)} />}
      {dialog === "keys" && <Keys onClose={() => setDialog(undefined)} />}
    </div>
  );
}

function ThemeButton() {
  const [choice, setChoice] = useState(chosenTheme);
  const choices: [Choice, string][] = [
    ["system", "System"],
    ["light", "Light"],
    ["dark", "Dark"],
  ];
  const item = ([theme, name]: [Choice, string]) => ({
    name,
    isChosen: theme === choice,
    act: () => {
      chooseTheme(theme);
      setChoice(theme);
    },
  });
  return (
    <Menu name="Theme" title={`Theme: ${choice}`} items={choices.map(item)}>
      <Icon name="theme" />
    </Menu>
  );
}

function SignOut() {
  const held = useQuery({ queryKey: ["session"], queryFn: session });
  const client = useQueryClient();
  const navigate = useNavigate();
  if (held.data?.required !== true) return null;
  return (
    <button
      type="button"
      aria-label="Sign out"
      title="Sign out"
      onClick={async () => {
        await signOut();
        client.clear();
        await navigate({ to: "/login" });
      }}
    >
      <Icon name="exit" />
    </button>
  );
}

function ConnectionBar() {
  const problem = useSyncExternalStore(onConnectionChange, connectionProblem);
  const client = useQueryClient();
  const isLost = problem !== undefined;
  // The browser knows first that there is no network.
  useEffect(() => {
    const lose = () => setConnected(false);
    window.addEventListener("offline", lose);
    return () => window.removeEventListener("offline", lose);
  }, []);
  // Streams connect again by themselves; a screen without one asks until the server answers.
  useEffect(() => {
    if (!isLost) return;
    const timer = setInterval(async () => {
      if (!(await isAlive())) return;
      setConnected(true);
      await client.refetchQueries({ predicate: (query) => query.state.status === "error" });
    }, 1000);
    return () => clearInterval(timer);
  }, [isLost, client]);
  return (
    <output className="connection" aria-label="Connection" hidden={problem === undefined}>
      {problem}
    </output>
  );
}

const KEYS: [string, string][] = [
  ["Ctrl K", "command palette"],
  ["?", "this list"],
  ["g t, g r, g s, g a", "tests, runs, suites, traces"],
  ["j k, ↑ ↓", "next and previous row"],
  ["h l, ← →", "close and open a subtree"],
  ["Enter, Esc", "open and close details"],
  ["/", "find spans"],
  ["[ ]", "previous and next match"],
  ["e", "next error or failed span"],
  ["f", "show only the subtree of a span"],
  ["z, + − 0", "zoom to the span, in, out, all"],
];

function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog name="Keyboard shortcuts" onClose={onClose}>
      <h2>Keyboard shortcuts</h2>
      <dl className="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
