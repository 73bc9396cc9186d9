/** The versions of a test, and what changed between two of them. `/test/ID?tab=versions` */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { source, store } from "../api/requests";
import { Loading, Problem } from "../ui/parts";
import { DiffLines } from "./diff-lines";
import { useSearchChange } from "./search";

export function Versions(props: {
  id: string;
  last: number;
  search: { version?: string; with?: string };
  mayChange: boolean;
}) {
  const { id, last, search, mayChange } = props;
  const change = useSearchChange();
  const client = useQueryClient();
  const [problem, setProblem] = useState<unknown>();
  const version = within(Number(search.version), last, last);
  const other = within(Number(search.with), last, Math.max(1, version - 1));
  const text = useQuery({
    queryKey: ["source", id, version],
    queryFn: () => source("tests", id, version),
  });
  const before = useQuery({
    queryKey: ["source", id, other],
    queryFn: () => source("tests", id, other),
  });
  const restore = async () => {
    try {
      await store("tests", text.data?.text ?? "", id, `"${last}"`);
      setProblem(undefined);
      await client.invalidateQueries({ queryKey: ["source", id] });
      await client.invalidateQueries({ queryKey: ["test", id] });
      change({ version: undefined, with: undefined }, false);
    } catch (error) {
      setProblem(error);
    }
  };
  const choose = (name: "version" | "with", label: string, chosen: number) => (
    <label>
      {label}{" "}
      <select
        aria-label={label}
        value={chosen}
        onChange={(event) => change({ [name]: event.target.value }, false)}
      >
        {Array.from({ length: last }, (_, at) => last - at).map((one) => (
          <option key={one} value={one}>
            {one === last ? `${one} (now)` : one}
          </option>
        ))}
      </select>
    </label>
  );
  const error = text.error ?? before.error;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard
    <section className="scroll versions" aria-label="Versions" tabIndex={0}>
      {last > 1 && (
        <div className="filters">
          {choose("version", "Version", version)}
          {choose("with", "Compared with", other)}
          <span className="grow" />
          {mayChange && version !== last && (
            <button type="button" disabled={text.data === undefined} onClick={restore}>
              Restore version {version}
            </button>
          )}
        </div>
      )}
      {problem !== undefined && <Problem error={problem} />}
      {error !== null && <Problem error={error} />}
      {(text.isPending || before.isPending) && <Loading />}
      {text.data !== undefined && before.data !== undefined && (
        <section aria-label="Changes" className="pad">
          {version === other || text.data.text === before.data.text ? (
            <>
              <p className="faint">
                {last === 1 ? "This test has one version." : "Nothing differs between these versions."}
              </p>
              <pre className="diff">{text.data.text}</pre>
            </>
          ) : (
            <DiffLines before={before.data.text} after={text.data.text} />
          )}
        </section>
      )}
    </section>
  );
}

/** A number of a version that exists, or another instead. */
function within(wanted: number, last: number, instead: number): number {
  return Number.isInteger(wanted) && wanted >= 1 && wanted <= last ? wanted : instead;
}
