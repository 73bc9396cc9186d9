/** What to do when nothing has arrived: lines to copy for the ports in force, and a live wait for the first span. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { info } from "../api/requests";
import { follow } from "../api/stream";
import { OutcomeGlyph } from "../ui/glyphs";
import { Command, onArrowKeys, useTitle } from "../ui/parts";
import { Header } from "./header";
import { FileButton, FileProblems, useTraceFiles } from "./trace-files";

const LANGUAGES: Record<string, (endpoint: string) => string[]> = {
  Environment: (endpoint) => [`OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint}`, "OTEL_BSP_SCHEDULE_DELAY=100"],
  Go: (endpoint) => [`otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL("${endpoint}"))`],
  Java: (endpoint) => [
    `java -javaagent:opentelemetry-javaagent.jar -Dotel.exporter.otlp.endpoint=${endpoint} -Dotel.bsp.schedule.delay=100 -jar app.jar`,
  ],
  Python: (endpoint) => [
    `OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} opentelemetry-instrument python app.py`,
  ],
  Node: (endpoint) => [
    `OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} node --require @opentelemetry/auto-instrumentations-node/register app.js`,
  ],
  ".NET": (endpoint) => [
    `OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} dotnet run`,
  ],
  Rust: (endpoint) => [
    `opentelemetry_otlp::SpanExporter::builder().with_http().with_endpoint("${endpoint}/v1/traces").build()?`,
  ],
  Collector: (endpoint) => ["exporters:", "  otlphttp/qualitytrace:", `    endpoint: ${endpoint}`],
};

export function FirstMinutes() {
  const [language, setLanguage] = useState("Environment");
  const about = useQuery({ queryKey: ["info"], queryFn: info, staleTime: 60_000 });
  const navigate = useNavigate();
  useTitle("Send a trace");
  useEffect(
    () =>
      follow(
        "/api/traces/stream",
        (data) => {
          const { traces } = data as { traces?: { traceId: string }[] };
          const first = traces?.[0]?.traceId;
          if (first !== undefined) void navigate({ to: "/trace/$id", params: { id: first } });
        },
        () => {},
        1000,
      ),
    [navigate],
  );
  const files = useTraceFiles();
  const otlp = about.data?.otlp;
  const endpoint = otlp?.endpoint ?? (otlp?.http ? `http://${otlp.http}` : "");
  const ports = [
    otlp?.grpc && `${otlp.grpc} (gRPC)`,
    otlp?.http && `${otlp.http} (HTTP)`,
    otlp?.main && `${otlp.main} (both)`,
  ];
  const lines = LANGUAGES[language]?.(endpoint) ?? [];
  return (
    <>
      <Header title="Send a trace">
        <FileButton files={files} />
      </Header>
      <div className="first pad drop" {...files.target}>
        <FileProblems files={files} />
        <output aria-label="Waiting for the first span" className="waiting">
          <OutcomeGlyph outcome="running" label="waiting" /> Waiting for the first span
          <span className="faint"> · listening on {ports.filter(Boolean).join(", ")}</span>
        </output>
        {otlp?.enabled === false && (
          <p className="problem">
            This server does not accept OTLP: it is switched off in its configuration.
          </p>
        )}
        {otlp?.tokenRequired === true && (
          <p className="notice">
            Senders need a token: set OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer TOKEN".
          </p>
        )}
        <div className="tabs" role="tablist" aria-label="Language" onKeyDown={onArrowKeys}>
          {Object.keys(LANGUAGES).map((name) => (
            <button
              key={name}
              type="button"
              role="tab"
              aria-selected={name === language}
              onClick={() => setLanguage(name)}
            >
              {name}
            </button>
          ))}
        </div>
        {language === "Collector" ? (
          <Command text={lines.join("\n")} />
        ) : (
          lines.map((line) => <Command key={line} text={line} />)
        )}
        <p className="faint">or drop a file of traces here (OTLP, Jaeger or Zipkin),</p>
        <p className="faint">or look at a shop of five services with its tests:</p>
        <Command text="qualitytrace demo --keep" />
      </div>
    </>
  );
}
