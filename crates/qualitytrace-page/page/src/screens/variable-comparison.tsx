/** Two variable sets beside each other. */
import { useQuery } from "@tanstack/react-query";
import type { Shape } from "../api/client";
import { variableSet } from "../api/requests";
import { counted, shown } from "../text/format";
import { useSearchChange } from "./search";

type VariableSet = Shape<"VariableSetSpec">;
type Value = NonNullable<VariableSet["values"]>[number];

export type Difference = "same" | "differs" | "only in A" | "only in B" | "secret";

/** How a variable stands in two sets. Secrets are not known here, and so are not compared. */
export function difference(a: Value | undefined, b: Value | undefined): Difference {
  if (a === undefined) return "only in B";
  if (b === undefined) return "only in A";
  if (a.type === "secret" && b.type === "secret") return "secret";
  return a.value === b.value && a.type === b.type ? "same" : "differs";
}

export function VariableComparison(props: { sets: VariableSet[]; search: { a?: string; b?: string } }) {
  const { sets, search } = props;
  const change = useSearchChange();
  const a = useSet(search.a, sets);
  const b = useSet(search.b, sets);
  const chosen = [a, b].filter((set) => set !== undefined && !sets.some(({ id }) => id === set.id));
  const choose = (name: "a" | "b", label: string) => (
    <select
      aria-label={label}
      value={search[name] ?? ""}
      onChange={(event) => change({ [name]: event.target.value || undefined }, false)}
    >
      <option value="">{name === "a" ? "compare a set …" : "… with another"}</option>
      {[...sets, ...chosen].map((set) => (
        <option key={set?.id} value={set?.id}>
          {set?.name}
        </option>
      ))}
    </select>
  );
  return (
    <>
      <div className="filters">
        {choose("a", "Set A")}
        {choose("b", "Set B")}
      </div>
      {a !== undefined && b !== undefined && <Table a={a} b={b} />}
    </>
  );
}

/** The set with this id: one that is shown, or else from the server. */
function useSet(id: string | undefined, sets: VariableSet[]): VariableSet | undefined {
  const shown = sets.find((set) => set.id === id);
  const asked = useQuery({
    queryKey: ["variable set", id],
    queryFn: () => variableSet(id ?? ""),
    enabled: id !== undefined && shown === undefined,
  });
  return shown ?? (id === undefined ? undefined : asked.data?.spec);
}

function Table({ a, b }: { a: VariableSet; b: VariableSet }) {
  const of = (set: VariableSet) => new Map((set.values ?? []).map((value) => [value.key ?? "", value]));
  const [inA, inB] = [of(a), of(b)];
  const rows = [...new Set([...inA.keys(), ...inB.keys()])].sort().map((key) => {
    const [left, right] = [inA.get(key), inB.get(key)];
    return { key, left, right, how: difference(left, right) };
  });
  const different = rows.filter(({ how }) => how !== "same" && how !== "secret").length;
  return (
    <section className="variables-compared" aria-label="Comparison">
      <output aria-label="Summary" className="faint">
        {different === 0 ? "Nothing differs." : `${counted(different, "variable")} of ${rows.length} differ.`}
      </output>
      <table className="list" aria-label="Comparison">
        <thead>
          <tr>
            <th>Variable</th>
            <th>{a.name}</th>
            <th>{b.name}</th>
            <th>Difference</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, left, right, how }) => (
            <tr key={key} data-change={how} className={how === "same" ? "faint" : undefined}>
              <th scope="row">{shown(key, 200)}</th>
              <td>
                <Shown value={left} />
              </td>
              <td>
                <Shown value={right} />
              </td>
              <td>{said(how, a.name ?? "", b.name ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function said(how: Difference, a: string, b: string): string {
  return {
    same: "",
    differs: "differs",
    "only in A": `only in ${a}`,
    "only in B": `only in ${b}`,
    secret: "secrets are not compared",
  }[how];
}

function Shown({ value }: { value: Value | undefined }) {
  if (value === undefined) return <span className="faint">–</span>;
  return <code>{shown(value.value ?? "", 300)}</code>;
}
