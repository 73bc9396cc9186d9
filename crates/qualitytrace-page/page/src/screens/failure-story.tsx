/** The first sentence about a failed run; the rest of the screen is its proof. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { compare, runs, type Spec } from "../api/requests";
import { sinceWhen, whatChanged, whatHappened } from "../text/failure-story";
import { Ago } from "../ui/parts";

/** Runs in which the beginning of the failures is looked for. */
const LOOKED_AT = 200;

export function FailureStory({ test, run, specs }: { test: string; run: number; specs: Spec[] }) {
  const happened = whatHappened(specs);
  const before = useQuery({
    queryKey: ["runs of a story", test, run],
    queryFn: () => runs({ test, take: LOOKED_AT }),
    enabled: happened !== undefined,
    staleTime: 60_000,
  });
  const items = before.data?.items ?? [];
  const { first, passed } = sinceWhen(items, run);
  const compared = useQuery({
    queryKey: ["change of a story", test, run, passed?.run],
    queryFn: () => compare(`test/${test}/run/${passed?.run}`, `test/${test}/run/${run}`, true),
    enabled: passed !== undefined,
    staleTime: 60_000,
  });
  if (happened === undefined) return null;
  const commit = first?.metadata.commit;
  const changes = compared.data && whatChanged(compared.data.summary, compared.data.rows);
  const isFirst = first?.run === run;
  return (
    <section className="story" aria-label="What happened">
      <p>
        <strong>{happened.spec}</strong>: {happened.text}
      </p>
      {first !== undefined && (
        <p className="faint">
          {isFirst ? (
            passed === undefined ? (
              "No run before it passed."
            ) : (
              "This is the first failure: "
            )
          ) : (
            <>
              Failing since{" "}
              <Link to="/test/$id/run/$run" params={{ id: test, run: String(first.run) }}>
                run {first.run}
              </Link>{" "}
              (<Ago at={first.started} />
              {typeof commit === "string" && `, commit ${commit.slice(0, 12)}`})
              {passed === undefined ? "; no run before it passed. " : "; "}
            </>
          )}
          {passed !== undefined && (
            <>
              <Link to="/test/$id/run/$run" params={{ id: test, run: String(passed.run) }}>
                run {passed.run}
              </Link>{" "}
              passed.{" "}
              {changes !== undefined &&
                (changes.length === 0
                  ? "The trace has the same spans since then. "
                  : `Since then: ${changes.join("; ")}. `)}
              <Link
                to="/compare"
                search={{ a: `test/${test}/run/${passed.run}`, b: `test/${test}/run/${run}` } as never}
              >
                Compare
              </Link>
            </>
          )}
        </p>
      )}
    </section>
  );
}
