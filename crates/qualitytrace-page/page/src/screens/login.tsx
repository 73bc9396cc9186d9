/** Sign in with a token. It is kept in a cookie that no script can read. */
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { type FormEvent, useCallback, useEffect, useState } from "react";
import { signIn } from "../api/requests";
import { useTitle } from "../ui/parts";

export function LoginScreen() {
  const { next } = useSearch({ from: "/login" });
  const [token, setToken] = useState("");
  const [error, setError] = useState<string>();
  const client = useQueryClient();
  const navigate = useNavigate();
  const router = useRouter();
  useTitle("Sign in");

  const enter = useCallback(
    async (given: string) => {
      try {
        await signIn(given);
        client.clear();
        // Only addresses of this page are followed.
        if (next?.startsWith("/") && !next.startsWith("//")) router.history.replace(next);
        else await navigate({ to: "/", replace: true });
      } catch (problem) {
        setError(problem instanceof Error ? problem.message : String(problem));
      }
    },
    [client, navigate, next, router],
  );

  // The demo hands its token over behind the `#`, which is never sent and removed at once.
  useEffect(() => {
    const given = new URLSearchParams(window.location.hash.slice(1)).get("token");
    if (given === null) return;
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
    void enter(given);
  }, [enter]);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    void enter(token);
  };
  return (
    <main className="login">
      <form onSubmit={submit}>
        <h1>Qualitytrace</h1>
        <p className="faint">
          This server asks for a token. The owner of the server has set it in `auth.tokens`.
        </p>
        <label>
          Token
          <input
            type="password"
            autoComplete="current-password"
            value={token}
            // biome-ignore lint/a11y/noAutofocus: it is the only field of the screen
            autoFocus
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        {error !== undefined && (
          <p className="problem" role="alert">
            {error}
          </p>
        )}
        <button type="submit" className="primary" disabled={token === ""}>
          Sign in
        </button>
      </form>
    </main>
  );
}
