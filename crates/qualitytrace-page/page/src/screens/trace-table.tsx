/** Where the time of a trace went, by service and operation. */
import { useMemo, useState } from "react";
import { count, shown } from "../text/format";
import { type Operation, operations } from "../trace/operations";
import type { View } from "../trace/view";
import { Duration } from "../ui/parts";

const COLUMNS = ["count", "errors", "total", "own", "median", "longest"] as const;
type Column = (typeof COLUMNS)[number];
const TITLES: Record<Column, string> = {
  count: "Spans",
  errors: "Errors",
  total: "Total",
  own: "Own time",
  median: "Median",
  longest: "Longest",
};

export function TraceTable(props: {
  view: View;
  version: number;
  onSelect: (row: number) => void;
  onFind: (query: string) => void;
}) {
  const { view, version, onSelect, onFind } = props;
  const [by, setBy] = useState<Column>("own");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says when the trace has changed
  const found = useMemo(() => operations(view.trace, view.tree), [view, version]);
  const rows = useMemo(() => [...found].sort((a, b) => b[by] - a[by]).slice(0, 1000), [found, by]);
  const most = Math.max(1, ...rows.map((row) => row.own));
  return (
    <div className="scroll">
      <table className="list dense" aria-label="Operations">
        <thead>
          <tr>
            <th>Operation</th>
            <th>Service</th>
            {COLUMNS.map((column) => (
              <th key={column} className="right" aria-sort={by === column ? "descending" : undefined}>
                <button type="button" className="sort" onClick={() => setBy(column)}>
                  {TITLES[column]}
                  {by === column ? " ↓" : ""}
                </button>
              </th>
            ))}
            <th aria-label="Share" />
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.service} ${row.name}`}>
              <th scope="row">
                <button
                  type="button"
                  className="link"
                  title="Find these spans"
                  onClick={() => onFind(selector(row))}
                >
                  {shown(row.name, 200)}
                </button>
              </th>
              <td className="faint">
                <i
                  className="dot inline"
                  style={{ background: `var(--service-${view.slots[row.serviceNumber]?.colour ?? 0})` }}
                />{" "}
                {shown(row.service, 100)}
              </td>
              <td className="right number">{count(row.count)}</td>
              <td className={row.errors > 0 ? "right number bad" : "right number faint"}>
                {count(row.errors)}
              </td>
              <td className="right">
                <Duration ns={row.total} />
              </td>
              <td className="right">
                <Duration ns={row.own} />
              </td>
              <td className="right">
                <Duration ns={row.median} />
              </td>
              <td className="right">
                <button
                  type="button"
                  className="link"
                  title="Show the longest"
                  onClick={() => onSelect(row.row)}
                >
                  <Duration ns={row.longest} />
                </button>
              </td>
              <td className="sizes">
                <i className="own" style={{ width: `${Math.max(1, (row.own / most) * 80)}px` }} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A selector of the spans of an operation. */
function selector({ name, service }: Operation): string {
  const quoted = (text: string) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  return `span[name = ${quoted(name)} service.name = ${quoted(service)}]`;
}
