/** A JSON answer whose values can be clicked: each leads to an assertion about its path. */
import { type ReactNode, useMemo } from "react";
import { shown } from "../text/format";
import { jsonLines, type Scalar } from "../text/json-lines";
import { Copy } from "../ui/parts";

const text = (scalar: Scalar) => shown(JSON.stringify(scalar), 2000);

export function JsonBody(props: {
  text: string;
  onAssert?: (path: string, value: Scalar) => void;
  /** What is shown of a text that is no JSON. */
  children: ReactNode;
}) {
  const { text: body, onAssert, children } = props;
  const lines = useMemo(() => jsonLines(body), [body]);
  if (lines === undefined || onAssert === undefined) return children;
  return (
    <div className="body">
      <Copy text={body} name="Copy body" />
      {lines.map((line, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no id, and never change their order
        <div key={index} className="json-line" style={{ paddingLeft: `${line.depth * 2}ch` }}>
          {line.before}
          {line.value !== undefined && (
            <button
              type="button"
              className="json-value"
              aria-label={`Assert ${line.value.path} ${text(line.value.scalar)}`}
              title={`Assert ${line.value.path}`}
              onClick={() => onAssert(line.value!.path, line.value!.scalar)}
            >
              {text(line.value.scalar)}
            </button>
          )}
          {line.after}
        </div>
      ))}
    </div>
  );
}
