/** Files of traces (OTLP, Jaeger, Zipkin), dropped on a screen or chosen: they are stored, and one is opened. */
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type DragEvent, useState } from "react";
import type { Shape } from "../api/client";
import { storeTraceFile } from "../api/requests";
import { counted, shown } from "../text/format";
import { Problem } from "../ui/parts";

interface Taken {
  file: string;
  received?: Shape<"ReceivedFile">;
  problem?: unknown;
}

export interface TraceFiles {
  taken: Taken[];
  take: (files: Iterable<File>) => Promise<void>;
  /** What makes an element take files that are dropped on it. */
  target: {
    onDragOver: (event: DragEvent<HTMLElement>) => void;
    onDragLeave: (event: DragEvent<HTMLElement>) => void;
    onDrop: (event: DragEvent<HTMLElement>) => void;
  };
}

export function useTraceFiles(): TraceFiles {
  const [taken, setTaken] = useState<Taken[]>([]);
  const client = useQueryClient();
  const navigate = useNavigate();
  const take = async (files: Iterable<File>) => {
    const found: Taken[] = [];
    for (const file of files) {
      try {
        found.push({ file: file.name, received: await storeTraceFile(file) });
      } catch (problem) {
        found.push({ file: file.name, problem });
      }
    }
    setTaken(found);
    await client.invalidateQueries({ queryKey: ["traces"] });
    const traces = found.flatMap((one) => one.received?.traces ?? []);
    const isWhole = found.every((one) => one.received?.refused === 0);
    if (traces.length === 1 && isWhole)
      await navigate({ to: "/trace/$id", params: { id: traces[0].traceId } });
  };
  const over = (event: DragEvent<HTMLElement>, isOver: boolean) =>
    event.currentTarget.classList.toggle("over", isOver);
  return {
    taken,
    take,
    target: {
      onDragOver: (event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        over(event, true);
      },
      onDragLeave: (event) => over(event, false),
      onDrop: (event) => {
        event.preventDefault();
        over(event, false);
        void take(event.dataTransfer.files);
      },
    },
  };
}

export function FileButton({ files }: { files: TraceFiles }) {
  return (
    <label className="button file" title="OTLP, Jaeger or Zipkin JSON; files can be dropped here, too">
      Open a file
      <input
        type="file"
        multiple
        accept=".json,.jsonl,.ndjson,application/json"
        onChange={(event) => {
          void files.take([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
    </label>
  );
}

/** What became of the files, and where they are broken. */
export function FileProblems({ files }: { files: TraceFiles }) {
  return files.taken.map(({ file, received, problem }) => {
    if (received === undefined)
      return (
        <div key={file}>
          <Problem
            error={new Error(`${file}: ${problem instanceof Error ? problem.message : String(problem)}`)}
          />
        </div>
      );
    return (
      <div key={file} className="notice" role="status">
        <p>
          {file}: {counted(received.spans, "span")} of {counted(received.traceCount, "trace")} stored
          {received.refused > 0 && `, ${counted(received.refused, "span")} refused`}.
        </p>
        {received.problems.slice(0, 5).map((one) => (
          <p key={one.location} className="bad">
            <code>{one.location}</code> {shown(one.reason, 300)}
          </p>
        ))}
      </div>
    );
  });
}
