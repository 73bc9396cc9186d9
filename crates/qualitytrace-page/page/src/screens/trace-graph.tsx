/** A trace as a graph: spans summed by service and operation, from left to right. */
import { useMemo, useRef } from "react";
import { count, counted, duration, shown } from "../text/format";
import { place, space, summed } from "../trace/graph";
import type { Operation } from "../trace/operations";
import type { View } from "../trace/view";
import { useWidth } from "../ui/parts";

const WIDE = 208;
const TALL = 44;
const LEAST_BETWEEN = 36;
const MOST_BETWEEN = 72;
const GAP = 14;
const PAD = 16;

export function TraceGraph(props: {
  view: View;
  version: number;
  selected: string | undefined;
  onSelect: (row: number) => void;
}) {
  const { view, version, selected, onSelect } = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says when the trace has changed
  const { nodes, edges, left } = useMemo(() => summed(view.trace, view.tree), [view, version]);
  const placed = useMemo(() => place(nodes.length, edges), [nodes, edges]);
  const host = useRef<HTMLDivElement>(null);
  const room = useWidth(host) - 2 * PAD;
  const between = space(room, placed.layers, WIDE, LEAST_BETWEEN, MOST_BETWEEN);
  const width = placed.layers * (WIDE + between) - between + 2 * PAD;
  const height = placed.most * (TALL + GAP) - GAP + 2 * PAD;
  const sizes = new Array<number>(placed.layers).fill(0);
  for (const layer of placed.layer) sizes[layer] += 1;
  const x = (node: number) => PAD + placed.layer[node] * (WIDE + between);
  // Each layer stands in the middle.
  const y = (node: number) =>
    PAD + placed.place[node] * (TALL + GAP) + ((placed.most - sizes[placed.layer[node]]) * (TALL + GAP)) / 2;
  const row = selected === undefined ? -1 : view.trace.row(selected);
  const isHere = (node: number) =>
    row >= 0 &&
    nodes[node].name === view.trace.nameOf(row) &&
    nodes[node].service === view.trace.serviceOf(row);
  const most = Math.max(1, ...nodes.map((node) => node.own));
  return (
    <div className="graph" data-testid="graph" ref={host}>
      <svg
        width={width}
        height={height}
        role="group"
        aria-label={`${counted(nodes.length, "operation")} of ${counted(view.trace.services.length, "service")}`}
      >
        {edges.map((edge) => {
          const [fromX, toX] = [x(edge.from) + WIDE, x(edge.to)];
          const [fromY, toY] = [y(edge.from) + TALL / 2, y(edge.to) + TALL / 2];
          const bend = Math.max(between / 3, Math.abs(toX - fromX) / 2);
          return (
            <path
              key={`${edge.from} ${edge.to}`}
              className="edge"
              strokeWidth={Math.min(6, 1 + Math.log2(edge.count))}
              d={`M${fromX} ${fromY}C${fromX + bend} ${fromY} ${toX - bend} ${toY} ${toX} ${toY}`}
            >
              <title>{`${count(edge.count)} calls`}</title>
            </path>
          );
        })}
        {nodes.map((node, index) => (
          <g
            key={`${node.service} ${node.name}`}
            role="button"
            tabIndex={0}
            className={isHere(index) ? "node here" : "node"}
            transform={`translate(${x(index)} ${y(index)})`}
            onClick={() => onSelect(node.row)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" && event.key !== " ") return;
              event.preventDefault();
              onSelect(node.row);
            }}
          >
            <title>{told(node)}</title>
            <rect className="box" width={WIDE} height={TALL} rx="4" />
            <rect
              width="4"
              height={TALL}
              fill={`var(--service-${view.slots[node.serviceNumber]?.colour ?? 0})`}
            />
            <rect className="share" x="4" y={TALL - 3} width={((WIDE - 4) * node.own) / most} height="3" />
            <text x="12" y="18">
              {cut(shown(node.name, 60), node.count > 1 ? 24 : 29)}
            </text>
            {node.count > 1 && (
              <text x={WIDE - 8} y="18" textAnchor="end" className="number">
                × {count(node.count)}
              </text>
            )}
            <text x="12" y="34" className="minor">
              {cut(shown(node.service, 40), 18)}
            </text>
            <text x={WIDE - 8} y="34" textAnchor="end" className={node.errors > 0 ? "minor bad" : "minor"}>
              {node.errors > 0 ? counted(node.errors, "error") : duration(node.own)}
            </text>
          </g>
        ))}
      </svg>
      {left > 0 && (
        <p className="faint pad">{counted(left, "operation")} with less own time are not shown.</p>
      )}
    </div>
  );
}

/** The name of a node, for those who do not see it. */
function told(node: Operation): string {
  const facts = [
    shown(node.name, 200),
    shown(node.service, 100),
    counted(node.count, "span"),
    `${duration(node.own)} own time`,
    `longest ${duration(node.longest)}`,
  ];
  if (node.errors > 0) facts.push(counted(node.errors, "error"));
  return facts.join(", ");
}

function cut(text: string, longest: number): string {
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}
