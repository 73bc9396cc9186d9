/** A form for the trigger of a test, beside its text: each edits the other. */
import { useId, useState } from "react";
import { Refused, type Shape } from "../api/client";
import { complete, triggerMethods, tryTrigger } from "../api/requests";
import { type Definition, read, value, withTrigger, withValue } from "../text/definition";
import { duration, shown } from "../text/format";
import { isInExpression, variablesAt } from "../text/template";
import { Editor } from "../ui/editor";
import { Icon } from "../ui/glyphs";
import { Problem } from "../ui/parts";
import { useVariables } from "./known-variables";
import { LanguageInput } from "./language-input";
import { type Field, TRIGGERS, type TriggerType } from "./trigger-fields";

export function TriggerForm({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const definition = read(text);
  if (definition.problem !== undefined) {
    return (
      <section className="trigger-form" aria-label="Trigger">
        <p className="diagnostic plain">{definition.problem}</p>
        <p className="faint">The form comes back when the text can be read.</p>
      </section>
    );
  }
  const type = String(value(definition, ["spec", "trigger", "type"]) ?? "");
  const known = Object.hasOwn(TRIGGERS, type) ? TRIGGERS[type] : undefined;
  const edit = (path: (string | number)[], to: unknown) => onChange(withValue(text, path, to));
  return (
    <section className="trigger-form" aria-label="Trigger">
      <label>
        <span>Name</span>
        <input
          value={String(value(definition, ["spec", "name"]) ?? "")}
          onChange={(event) => edit(["spec", "name"], event.target.value)}
        />
      </label>
      <label>
        <span>Type</span>
        <select
          value={type}
          onChange={(event) => {
            const { block, initial } = TRIGGERS[event.target.value];
            onChange(withTrigger(text, event.target.value, block, initial));
          }}
        >
          {known === undefined && <option value={type}>{type || "none"}</option>}
          {Object.entries(TRIGGERS).map(([name, { title }]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </label>
      {known?.fields.map((field) => (
        <FieldInput
          key={field.path.join(".")}
          field={field}
          value={value(definition, ["spec", "trigger", known.block, ...field.path])}
          onChange={(to) => edit(["spec", "trigger", known.block, ...field.path], to)}
        />
      ))}
      {known !== undefined && (
        <>
          {known.hasMethods === true && (
            <Methods definition={definition} type={known} text={text} onChange={onChange} />
          )}
          <Try definition={definition} />
        </>
      )}
    </section>
  );
}

function FieldInput(props: { field: Field; value: unknown; onChange: (to: unknown) => void }) {
  const { field, value: held, onChange } = props;
  const { kind, label, hint } = field;
  const id = useId();
  if (kind === "pairs" || kind === "names") {
    const pairs =
      kind === "pairs"
        ? (Array.isArray(held) ? held : []).map((pair) => [
            String(pair?.key ?? ""),
            String(pair?.value ?? ""),
          ])
        : Object.entries((held ?? {}) as object).map(([key, one]) => [key, String(one)]);
    const write = (to: string[][]) =>
      onChange(
        kind === "pairs"
          ? to.map(([key, one]) => ({ key, value: one }))
          : to.length === 0
            ? undefined
            : Object.fromEntries(to),
      );
    return <Pairs label={label} pairs={pairs} onChange={write} />;
  }
  const text = Array.isArray(held) ? held.join(kind === "list" ? ", " : " ") : String(held ?? "");
  const write = (to: string) =>
    onChange(
      kind === "list"
        ? to
            .split(",")
            .map((one) => one.trim())
            .filter((one) => one !== "")
        : to,
    );
  if (kind === "area") return <Area field={field} text={text} onChange={write} />;
  return (
    <div className="row">
      <label htmlFor={id}>{label}</label>
      {kind === "choice" && (
        <select id={id} value={text} onChange={(event) => write(event.target.value)}>
          {[...new Set([text, ...(field.options ?? [])])].map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      )}
      {(kind === "text" || kind === "list") && (
        <Text id={id} text={text} hint={hint} onChange={write} isList={kind === "list"} />
      )}
    </div>
  );
}

/** A text of several lines. */
function Area({ field, text, onChange }: { field: Field; text: string; onChange: (text: string) => void }) {
  const { label, hint, language = "text" } = field;
  const variables = useVariables();
  return (
    <div className="row">
      <span className="label">{label}</span>
      <Editor
        name={label}
        language={language}
        text={text}
        onChange={onChange}
        hint={hint}
        lines={Math.min(10, Math.max(3, text.split("\n").length))}
        complete={async (all, at, signal) => {
          const before = all.slice(0, at);
          // Most of a long text is no template: the server is asked inside of an expression only.
          if (!isInExpression(before)) return [];
          return (
            variablesAt(before, variables) ?? (await complete(all, at, "template", undefined, signal)).items
          );
        }}
      />
    </div>
  );
}

/** A text of one line. A list keeps what is typed until the field is left, so that a comma can be written. */
function Text(props: {
  id: string;
  text: string;
  hint?: string;
  isList?: boolean;
  onChange: (text: string) => void;
}) {
  const { id, text, hint, isList = false, onChange } = props;
  const [typed, setTyped] = useState<string>();
  return (
    <LanguageInput
      id={id}
      className="mono"
      language="template"
      variables={useVariables()}
      placeholder={hint}
      value={typed ?? text}
      onChange={(to) => {
        if (isList) setTyped(to);
        onChange(to);
      }}
      onLeave={() => setTyped(undefined)}
    />
  );
}

function Pairs(props: { label: string; pairs: string[][]; onChange: (pairs: string[][]) => void }) {
  const { label, pairs, onChange } = props;
  const variables = useVariables();
  const put = (at: number, pair: string[]) =>
    onChange(pairs.map((one, index) => (index === at ? pair : one)));
  return (
    <fieldset>
      <legend>{label}</legend>
      {pairs.map(([key, held], at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a name may be there twice
        <div key={at} className="pair">
          <input
            className="mono"
            aria-label={`${label} name ${at + 1}`}
            value={key}
            onChange={(event) => put(at, [event.target.value, held])}
          />
          <LanguageInput
            className="mono"
            language="template"
            variables={variables}
            aria-label={`${label} value ${at + 1}`}
            value={held}
            onChange={(to) => put(at, [key, to])}
          />
          <button
            type="button"
            className="quiet small"
            aria-label={`Remove ${key || label}`}
            onClick={() => onChange(pairs.filter((_, index) => index !== at))}
          >
            <Icon name="close" />
          </button>
        </div>
      ))}
      <button type="button" className="quiet small" onClick={() => onChange([...pairs, ["", ""]])}>
        <Icon name="plus" /> Add
      </button>
    </fieldset>
  );
}

/** Asks the server of a trigger what it offers. */
function Methods(props: {
  definition: Definition;
  type: TriggerType;
  text: string;
  onChange: (text: string) => void;
}) {
  const { definition, type, text, onChange } = props;
  const [found, setFound] = useState<Shape<"TriggerMethods">>();
  const [problem, setProblem] = useState<unknown>();
  const ask = () =>
    triggerMethods(value(definition, ["spec", "trigger"]) as object).then((answer) => {
      setFound(answer);
      setProblem(undefined);
    }, setProblem);
  const of = (...path: string[]) => ["spec", "trigger", type.block, ...path];
  const methods = found?.services.flatMap((service) => service.methods) ?? [];
  const choose = (name: string) => {
    const method = methods.find((one) => one.fullName === name);
    const operation = found?.operations.find((one) => one.name === name);
    if (method !== undefined) {
      const request = JSON.stringify(method.request, null, 2);
      onChange(withValue(withValue(text, of("method"), name), of("request"), request));
    } else if (operation !== undefined) onChange(withValue(text, of("body", "query"), operation.query));
  };
  const names = [...methods.map((one) => one.fullName), ...(found?.operations ?? []).map((one) => one.name)];
  return (
    <div className="methods">
      {names.length === 0 ? (
        <button type="button" onClick={ask}>
          Ask the server for its methods
        </button>
      ) : (
        <select aria-label="Offered by the server" value="" onChange={(event) => choose(event.target.value)}>
          <option value="">choose of {names.length} that the server offers</option>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      )}
      {problem !== undefined && <Problem error={problem} />}
    </div>
  );
}

/** Sends the trigger once, without saving anything. */
function Try({ definition }: { definition: Definition }) {
  const [sent, setSent] = useState<Shape<"SentTrigger">>();
  const [problem, setProblem] = useState<unknown>();
  const [isSending, setSending] = useState(false);
  const send = async () => {
    setSending(true);
    try {
      setSent(await tryTrigger(value(definition, ["spec", "trigger"]) as object));
      setProblem(undefined);
    } catch (error) {
      setSent(undefined);
      setProblem(error instanceof Refused ? error : new Error(String(error)));
    } finally {
      setSending(false);
    }
  };
  return (
    <div className="try">
      <button type="button" disabled={isSending} onClick={send}>
        <Icon name="play" /> Send without saving
      </button>
      {problem !== undefined && <Problem error={problem} />}
      {sent !== undefined && <Sent sent={sent} />}
    </div>
  );
}

function Sent({ sent }: { sent: Shape<"SentTrigger"> }) {
  const { triggerResult: answer, type = "" } = sent.triggerResult;
  const found = [answer.http, answer.grpc, answer.graphql].find((one) => one?.statusCode || one?.status);
  const body = found?.body || answer.exec?.stdout || "";
  return (
    <output aria-label="Answer" className="sent">
      {sent.failure !== null ? (
        <span className="bad">{sent.failure.message}</span>
      ) : (
        <p className="mono strong">
          {found?.status ?? found?.statusCode ?? type}{" "}
          <span className="faint">{duration(Number(sent.duration))}</span>
        </p>
      )}
      {sent.warning !== null && <p className="inconclusive">{sent.warning}</p>}
      {body !== "" && <pre className="body">{shown(pretty(body), 4000)}</pre>}
    </output>
  );
}

function pretty(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
