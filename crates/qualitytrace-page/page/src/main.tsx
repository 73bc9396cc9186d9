import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  type AnyRoute,
  createRootRoute,
  createRoute,
  createRouter,
  Link,
  RouterProvider,
  redirect,
} from "@tanstack/react-router";
import { lazy, StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";
import { basePath } from "./api/address";
import { Refused, whenTokenIsMissing, whenUnreachable } from "./api/client";
import { CompareScreen } from "./screens/compare";
import { setConnected } from "./screens/connection";
import { FirstMinutes } from "./screens/first-minutes";
import { Header } from "./screens/header";
import { HomeScreen } from "./screens/home";
import { LoginScreen } from "./screens/login";
import { RunScreen } from "./screens/run";
import { RunLinkScreen } from "./screens/run-link";
import { RunsScreen } from "./screens/runs";
import { texts } from "./screens/search";
import { SettingsScreen } from "./screens/settings";
import { Shell } from "./screens/shell";
import { StatusScreen } from "./screens/status";
import { SuiteRunScreen, SuiteScreen, SuitesScreen } from "./screens/suites";
import { TestScreen } from "./screens/test";
import { TestsScreen } from "./screens/tests";
import { TraceScreen } from "./screens/trace";
import { TracesScreen } from "./screens/traces";
import { VariablesScreen } from "./screens/variables";
import { Loading } from "./ui/parts";
import { applyTheme } from "./ui/theme";
import "@fontsource-variable/inter/index.css";
import "@fontsource-variable/jetbrains-mono/index.css";
import "./styles/tokens.css";
import "./styles/page.css";

applyTheme();

// Reading YAML takes as much code as a screen: it comes when it is needed.
const LazyCreateScreen = lazy(() =>
  import("./screens/create").then(({ CreateScreen }) => ({ default: CreateScreen })),
);
function CreateScreen() {
  return (
    <Suspense fallback={<Loading />}>
      <LazyCreateScreen />
    </Suspense>
  );
}

const root = createRootRoute({ component: Shell, notFoundComponent: NothingHere });
const ofTrace = texts(
  "span",
  "selectedSpan",
  "q",
  "only",
  "view",
  "min",
  "spec",
  "assertion",
  "selectedAssertion",
  "from",
  "to",
  "focus",
);
const at = (path: string, component: () => React.ReactNode, validateSearch = texts()) =>
  createRoute({ getParentRoute: () => root, path, component, validateSearch } as never);
const leads = (path: string, to: string) =>
  createRoute({
    getParentRoute: () => root,
    path,
    beforeLoad: ({ params }: { params: object }) => {
      throw redirect({ to, params } as never);
    },
  } as never);

const routes = [
  at("/", HomeScreen),
  at("/tests", TestsScreen, texts("query", "outcome", "trigger", "tag", "sort")),
  at("/test/create", CreateScreen, texts("trace", "span", "from")),
  at("/test/create/$type", CreateScreen, texts("trace", "span", "from")),
  at("/test/$id", TestScreen, texts("tab", "version", "with")),
  at("/test/$id/run", RunLinkScreen, texts("variables", "variableSetId", "version")),
  at("/test/$id/run/$run", RunScreen, ofTrace),
  at("/test/$id/run/$run/$tab", RunScreen, ofTrace),
  at("/runs", RunsScreen, texts("test", "outcome", "branch", "source")),
  at("/traces", TracesScreen, texts("service", "name", "status", "minDuration", "maxDuration", "attribute")),
  leads("/traces/$id", "/trace/$id"),
  at("/trace/$id", TraceScreen, ofTrace),
  at("/compare", CompareScreen, texts("a", "b", "only")),
  at("/testsuites", SuitesScreen, texts("query", "sort")),
  at("/testsuite/$id", SuiteScreen),
  at("/testsuite/$id/run/$run", SuiteRunScreen),
  at("/testsuite/$id/run/$run/$tab", SuiteRunScreen),
  at("/variablesets", VariablesScreen, texts("query", "a", "b")),
  at("/status", StatusScreen),
  at("/settings", SettingsScreen, texts("tab")),
  at("/start", FirstMinutes),
  at("/login", LoginScreen, texts("next")),
];

function NothingHere() {
  return (
    <>
      <Header title="Nothing here" />
      <p className="pad">
        No screen has this address. <Link to="/tests">Tests</Link>, <Link to="/runs">runs</Link> and{" "}
        <Link to="/traces">traces</Link> are a way on; Ctrl+K searches.
      </p>
    </>
  );
}

/** A screen that cannot be shown, inside of what surrounds every screen. */
function BrokenScreen({ error }: { error: unknown }) {
  const message = error instanceof Error ? error.message : String(error);
  // The browser's words for a part of the page that the server no longer has.
  const isOutdated = /dynamically imported module|module script|preload/i.test(message);
  return (
    <>
      <Header title={isOutdated ? "A new version is running" : "This screen does not work"} />
      <div className="problem" role="alert">
        <p>{isOutdated ? "The server was updated while this page was open." : message}</p>
        <button type="button" onClick={() => window.location.reload()}>
          Reload
        </button>
      </div>
    </>
  );
}

const router = createRouter({
  routeTree: root.addChildren(routes as never) as unknown as AnyRoute,
  basepath: basePath || "/",
  defaultPreload: false,
  defaultErrorComponent: BrokenScreen,
  scrollRestoration: false,
  // Values of search parameters are texts, as Tracetest writes them.
  parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
  stringifySearch: (search) => {
    const pairs = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
    const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
    return text === "" ? "" : `?${text}`;
  },
});

const client = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (failures, error) => error instanceof Refused && error.status === 0 && failures < 3,
      refetchOnWindowFocus: false,
    },
  },
});
client.getQueryCache().subscribe(({ query, type }) => {
  if (type !== "updated") return;
  const { error, status } = query.state;
  if (error instanceof Refused && error.status === 0) setConnected(false);
  else if (status === "success") setConnected(true);
});

whenUnreachable(() => setConnected(false));
whenTokenIsMissing(() => {
  const { pathname, href } = router.state.location;
  if (!pathname.endsWith("/login"))
    void router.navigate({ to: "/login", search: { next: basePath + href } as never });
});

createRoot(document.getElementById("page")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
