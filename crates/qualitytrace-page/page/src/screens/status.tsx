/** What the server receives and sends, with the ledger added up: `/status`. */
import { useQuery } from "@tanstack/react-query";
import { info, ingestStatus, services, telemetryStatus } from "../api/requests";
import { bytes, count, duration } from "../text/format";
import { OutcomeWord } from "../ui/glyphs";
import { Ago, Loading, Problem, useTitle } from "../ui/parts";
import { Header } from "./header";

const EVERY = 2000;

export function StatusScreen() {
  const about = useQuery({ queryKey: ["info"], queryFn: info });
  const ingest = useQuery({ queryKey: ["ingest"], queryFn: ingestStatus, refetchInterval: EVERY });
  const senders = useQuery({ queryKey: ["services"], queryFn: services, refetchInterval: EVERY });
  const telemetry = useQuery({ queryKey: ["telemetry"], queryFn: telemetryStatus, refetchInterval: EVERY });
  useTitle("Status");
  const failed = [about, ingest, senders, telemetry].find((one) => one.isError);
  return (
    <>
      <Header
        title="Status"
        state={<span className="faint">{about.data && `version ${about.data.version}`}</span>}
      />
      {failed !== undefined && <Problem error={failed.error} retry={() => failed.refetch()} />}
      {(about.data === undefined || ingest.data === undefined) && <Loading />}
      <div className="scroll sections">
        {about.data !== undefined && ingest.data !== undefined && (
          <dl className="figures">
            <Figure name="Spans stored" value={count(ingest.data.spans.stored)} />
            <Figure name="Spans rejected" value={count(ingest.data.spans.rejected)} />
            <Figure name="Log records" value={count(ingest.data.logs.stored)} />
            <Figure name="Metric points" value={count(ingest.data.metricPoints)} />
            <Figure
              name="Requests refused"
              value={count(Object.values(ingest.data.refusedRequests).reduce((sum, one) => sum + one, 0))}
            />
            <Figure
              name="Retained"
              value={bytes(ingest.data.retainedBytes)}
              more={`of ${bytes(ingest.data.retainedBytesLimit)}`}
            />
            <Figure name="Traces are kept" value={duration(Number(about.data.limits.retention))} />
            <Figure name="Database" value={about.data.database} />
            <Figure name="Data store" value={about.data.dataStore.type} />
          </dl>
        )}
        <section>
          <h2>Services that send</h2>
          <Services items={senders.data?.items ?? []} />
        </section>
        <section>
          <h2>Own telemetry</h2>
          <Sinks sinks={telemetry.data?.sinks ?? []} />
        </section>
      </div>
    </>
  );
}

function Figure({ name, value, more }: { name: string; value: string; more?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value} {more !== undefined && <span className="faint">{more}</span>}
      </dd>
    </div>
  );
}

function Services({ items }: { items: Awaited<ReturnType<typeof services>>["items"] }) {
  if (items.length === 0) return <p className="faint">No service has sent anything yet.</p>;
  return (
    <table className="list" aria-label="Services">
      <thead>
        <tr>
          <th>Service</th>
          <th className="right">Spans</th>
          <th className="right">Deliveries</th>
          <th className="right">Delay, half</th>
          <th className="right">Delay, 99%</th>
          <th className="right">Instances</th>
          <th>Last</th>
        </tr>
      </thead>
      <tbody>
        {items.map((service) => (
          <tr key={service.name}>
            <th scope="row">
              {service.name} {!service.heard && <span className="faint">silent</span>}
            </th>
            <td className="right number">{count(service.spans)}</td>
            <td className="right number">{count(service.deliveries)}</td>
            <td className="right number">{delay(service.exportLag.p50)}</td>
            <td className="right number">{delay(service.exportLag.p99)}</td>
            <td className="right number">{service.instances.length}</td>
            <td>
              <Ago at={service.lastSeen} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function delay(milliseconds: number | null): string {
  return milliseconds === null ? "–" : duration(milliseconds * 1e6);
}

type Ledger = Record<string, unknown>;

/** The sum of a count that may be divided by reason. */
function total(value: unknown): number {
  if (typeof value === "number") return value;
  if (typeof value === "object" && value !== null) {
    return Object.values(value).reduce((sum: number, one) => sum + total(one), 0);
  }
  return 0;
}

/** Whether every item is accounted for. */
export function addsUp(ledger: Ledger): boolean {
  const sum = (...names: string[]) => names.reduce((all, name) => all + total(ledger[name]), 0);
  return (
    sum("created", "recovered") ===
    sum("sampled_out", "exported", "rejected", "dropped", "queued", "in_flight")
  );
}

const COUNTS = [
  "created",
  "recovered",
  "sampled_out",
  "exported",
  "rejected",
  "dropped",
  "queued",
  "in_flight",
];

function Sinks({ sinks }: { sinks: Awaited<ReturnType<typeof telemetryStatus>>["sinks"] }) {
  if (sinks.length === 0) return <p className="faint">This server sends no telemetry of its own.</p>;
  return (
    <table className="list" aria-label="Sinks">
      <thead>
        <tr>
          <th>Sink</th>
          <th>Signal</th>
          {COUNTS.map((name) => (
            <th key={name} className="right">
              {name.replace("_", " ")}
            </th>
          ))}
          <th>Sum</th>
        </tr>
      </thead>
      <tbody>
        {sinks.flatMap((sink) =>
          Object.entries(sink.ledger).map(([signal, ledger]) => (
            <tr key={`${sink.id} ${signal}`}>
              <th scope="row">{sink.id}</th>
              <td>{signal}</td>
              {COUNTS.map((name) => (
                <td key={name} className="right number">
                  {count(total(ledger[name]))}
                </td>
              ))}
              <td>
                {addsUp(ledger) ? (
                  <OutcomeWord outcome="passed">adds up</OutcomeWord>
                ) : (
                  <OutcomeWord outcome="inconclusive">does not add up</OutcomeWord>
                )}
              </td>
            </tr>
          )),
        )}
      </tbody>
    </table>
  );
}
