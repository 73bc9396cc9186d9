/** The steps of a suite as a graph: setup, steps with what they wait for, teardown. */
import { useNavigate } from "@tanstack/react-router";
import type { Shape } from "../api/client";
import { counted, shown } from "../text/format";
import { type Edge, place } from "../trace/graph";

type Suite = Shape<"TestSuiteSpec">;
type Planned = Shape<"StepSpec">;

interface Step {
  test: string;
  name: string;
  part: "setup" | "step" | "teardown";
}

const WIDE = 176;
const TALL = 36;
const BETWEEN = 48;
const GAP = 10;
const PAD = 16;

/** The steps and which of them begins after which. */
export function stepsOf(suite: Suite): { steps: Step[]; edges: Edge[] } {
  const names = new Map((suite.fullSteps ?? []).map((test) => [test.id ?? "", test.name ?? ""]));
  const of = (part: Step["part"]) => (planned: Planned) => {
    const { test = "", name = "" } = typeof planned === "string" ? { test: planned } : planned;
    return { test, name: name || names.get(test) || test, part };
  };
  const listed = (suite.steps ?? []) as Planned[];
  const parts = [
    (suite.setup ?? []).map(of("setup")),
    listed.map(of("step")),
    (suite.teardown ?? []).map(of("teardown")),
  ];
  const steps = parts.flat();
  const [setup, middle, teardown] = parts.map((part) => part.length);
  const edges: Edge[] = [];
  const lead = (from: number, to: number) => edges.push({ from, to, count: 1 });
  for (let at = 1; at < setup; at += 1) lead(at - 1, at);
  listed.forEach((planned, index) => {
    const to = setup + index;
    const wanted = typeof planned === "string" ? undefined : planned.dependsOn;
    if (wanted !== undefined && wanted !== null) {
      for (const name of wanted as string[]) {
        const from = steps.findIndex(
          (step) => step.part === "step" && (step.name === name || step.test === name),
        );
        if (from >= 0) lead(from, to);
      }
      if (wanted.length === 0 && setup > 0) lead(setup - 1, to);
    } else if (index > 0) lead(to - 1, to);
    else if (setup > 0) lead(setup - 1, to);
  });
  const begin = setup + middle;
  const ends = new Set(Array.from({ length: middle }, (_, at) => setup + at));
  for (const edge of edges) ends.delete(edge.from);
  for (let at = 0; at < teardown; at += 1) {
    if (at > 0) lead(begin + at - 1, begin + at);
    else for (const end of ends) lead(end, begin);
  }
  return { steps, edges };
}

export function SuiteGraph({ suite }: { suite: Suite }) {
  const navigate = useNavigate();
  const { steps, edges } = stepsOf(suite);
  if (steps.length === 0) return null;
  const placed = place(steps.length, edges);
  const width = placed.layers * (WIDE + BETWEEN) - BETWEEN + 2 * PAD;
  const height = placed.most * (TALL + GAP) - GAP + 2 * PAD;
  const sizes = new Array<number>(placed.layers).fill(0);
  for (const layer of placed.layer) sizes[layer] += 1;
  const x = (at: number) => PAD + placed.layer[at] * (WIDE + BETWEEN);
  const y = (at: number) =>
    PAD + placed.place[at] * (TALL + GAP) + ((placed.most - sizes[placed.layer[at]]) * (TALL + GAP)) / 2;
  return (
    <div className="graph suite">
      <svg
        width={width}
        height={height}
        role="group"
        aria-label={`${counted(steps.length, "step")} of the suite`}
      >
        {edges.map((edge) => {
          const [fromX, toX] = [x(edge.from) + WIDE, x(edge.to)];
          const [fromY, toY] = [y(edge.from) + TALL / 2, y(edge.to) + TALL / 2];
          return (
            <path
              key={`${edge.from} ${edge.to}`}
              className="edge"
              strokeWidth="1.5"
              d={`M${fromX} ${fromY}C${fromX + 24} ${fromY} ${toX - 24} ${toY} ${toX} ${toY}`}
            />
          );
        })}
        {steps.map((step, index) => {
          const open = () => void navigate({ to: "/test/$id", params: { id: step.test } });
          return (
            <g
              // biome-ignore lint/suspicious/noArrayIndexKey: a test may be two steps of a suite
              key={index}
              role="button"
              tabIndex={0}
              className="node"
              transform={`translate(${x(index)} ${y(index)})`}
              aria-label={step.part === "step" ? step.name : `${step.name}, ${step.part}`}
              onClick={open}
              onKeyDown={(event) => event.key === "Enter" && open()}
            >
              <title>{step.name}</title>
              <rect className="box" width={WIDE} height={TALL} rx="4" />
              <text x="10" y={step.part === "step" ? 22 : 15}>
                {shown(step.name.length > 24 ? `${step.name.slice(0, 23)}…` : step.name)}
              </text>
              {step.part !== "step" && (
                <text x="10" y="29" className="part">
                  {step.part}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}
