// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions write variables like this
/** What a form asks for each type of trigger, in the words of definitions. */
import { withTrigger } from "../text/definition";

export interface Field {
  /** Below the block of the trigger. */
  path: readonly string[];
  label: string;
  kind: "text" | "area" | "choice" | "pairs" | "names" | "list";
  options?: readonly string[];
  hint?: string;
  /** What is written in an area, if it has a form that colours help to read. */
  language?: "json";
}

export interface TriggerType {
  title: string;
  /** The block with the details. */
  block: string;
  /** What a new trigger has. */
  initial: object;
  fields: readonly Field[];
  /** Whether its server can be asked what it offers. */
  hasMethods?: boolean;
}

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] as const;
const TIMEOUT: Field = { path: ["timeout"], label: "Timeout", kind: "text", hint: "30s" };
const BEARER: Field = {
  path: ["auth", "bearer", "token"],
  label: "Bearer token",
  kind: "text",
  hint: "${var:TOKEN}",
};

export const TRIGGERS: Record<string, TriggerType> = {
  http: {
    title: "HTTP",
    block: "httpRequest",
    initial: { method: "GET", url: "http://localhost:8080/" },
    fields: [
      { path: ["method"], label: "Method", kind: "choice", options: METHODS },
      { path: ["url"], label: "URL", kind: "text", hint: "http://localhost:8080/orders" },
      { path: ["headers"], label: "Headers", kind: "pairs" },
      BEARER,
      { path: ["body"], label: "Body", kind: "area", language: "json" },
      TIMEOUT,
    ],
  },
  grpc: {
    title: "gRPC",
    block: "grpc",
    initial: { address: "localhost:9090", method: "", request: "{}" },
    hasMethods: true,
    fields: [
      { path: ["address"], label: "Address", kind: "text", hint: "localhost:9090" },
      { path: ["method"], label: "Method", kind: "text", hint: "shop.Orders/Place" },
      { path: ["request"], label: "Request", kind: "area", hint: "{}", language: "json" },
      { path: ["metadata"], label: "Metadata", kind: "pairs" },
      {
        path: ["protobufFile"],
        label: "Protocol",
        kind: "area",
        hint: "left out: the server is asked by reflection",
      },
      BEARER,
      TIMEOUT,
    ],
  },
  graphql: {
    title: "GraphQL",
    block: "graphql",
    initial: { url: "http://localhost:8080/graphql", body: { query: "{ __typename }" } },
    hasMethods: true,
    fields: [
      { path: ["url"], label: "URL", kind: "text", hint: "http://localhost:8080/graphql" },
      { path: ["body", "query"], label: "Query", kind: "area" },
      { path: ["body", "variables"], label: "Variables", kind: "names" },
      { path: ["headers"], label: "Headers", kind: "pairs" },
      BEARER,
      TIMEOUT,
    ],
  },
  kafka: {
    title: "Kafka",
    block: "kafka",
    initial: { brokerUrls: ["localhost:9092"], topic: "orders", messageValue: "{}" },
    fields: [
      { path: ["brokerUrls"], label: "Brokers", kind: "list", hint: "localhost:9092, localhost:9093" },
      { path: ["topic"], label: "Topic", kind: "text" },
      { path: ["messageKey"], label: "Key", kind: "text" },
      { path: ["messageValue"], label: "Message", kind: "area", language: "json" },
      { path: ["headers"], label: "Headers", kind: "pairs" },
      TIMEOUT,
    ],
  },
  traceid: {
    title: "Trace id",
    block: "traceid",
    initial: { id: "${var:TRACE_ID}" },
    fields: [{ path: ["id"], label: "Trace id", kind: "text", hint: "${var:TRACE_ID}" }],
  },
  exec: {
    title: "Command",
    block: "exec",
    initial: { command: "curl http://localhost:8080/" },
    fields: [
      { path: ["command"], label: "Command", kind: "area" },
      { path: ["env"], label: "Environment", kind: "names" },
      { path: ["workingDirectory"], label: "Working directory", kind: "text" },
      { path: ["timeout"], label: "Timeout", kind: "text", hint: "1m" },
    ],
  },
  playwrightengine: {
    title: "Browser",
    block: "playwrightEngine",
    initial: { target: "http://localhost:3000", script: "", method: "" },
    fields: [
      { path: ["target"], label: "Target", kind: "text", hint: "http://localhost:3000" },
      { path: ["script"], label: "Script", kind: "area" },
      { path: ["method"], label: "Function", kind: "text" },
    ],
  },
};

const ANSWERS = `  - name: It answers
    selector: span[name = "Tracetest trigger"]
    assertions:
    - attr:tracetest.response.status = 200
`;
const ARRIVES = `  - name: Spans arrive
    selector: span[]
    assertions:
    - attr:tracetest.selected_spans.count >= 1
`;

/** A new test with a trigger of this type. */
export function template(type: string): string {
  const known = Object.hasOwn(TRIGGERS, type) ? type : "http";
  const { block, initial } = TRIGGERS[known];
  const specs = known === "http" || known === "graphql" ? ANSWERS : ARRIVES;
  const text = `type: Test\nspec:\n  name: My test\n  trigger:\n    type: http\n  specs:\n${specs}`;
  return withTrigger(text, known, block, initial);
}
