/** The only module that asks the server for anything, with `stream.ts`. */
import createClient from "openapi-fetch";
import { address, basePath, root } from "./address";
import type { components, paths } from "./schema.gen";

export type Shape<Name extends keyof components["schemas"]> = components["schemas"][Name];

/** An answer that is no success, with the sentence of the server. */
export class Refused extends Error {
  readonly status: number;
  /** The body of the answer, where it says more than the sentence. */
  readonly detail: unknown;

  constructor(status: number, message: string, detail?: unknown) {
    super(message);
    this.status = status;
    this.detail = detail;
  }
}

const client = createClient<paths>({ baseUrl: `${root.origin}${basePath}` });

/** What to do when the server asks for a token. */
let signIn = () => {};
export function whenTokenIsMissing(action: () => void): void {
  signIn = action;
}

export function tokenIsMissing(): void {
  signIn();
}

/** What to do when the server does not answer. */
let lost = () => {};
export function whenUnreachable(action: () => void): void {
  lost = action;
}

function unreachable(cause: unknown): never {
  if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
  lost();
  throw new Refused(0, "The server does not answer. Nothing is lost: try again when it does.");
}

/** A request for something that is no JSON of the API; throws what the server says if it is refused. */
export async function text(path: string, request: RequestInit): Promise<{ text: string; headers: Headers }> {
  const answer = await fetch(address(path), request).catch(unreachable);
  const body = await answer.text().catch(unreachable);
  if (answer.ok) return { text: body, headers: answer.headers };
  if (answer.status === 401) signIn();
  throw new Refused(answer.status, said(body, answer.status));
}

function said(body: string, status: number): string {
  try {
    return sentence(JSON.parse(body), status);
  } catch {
    return sentence(body, status);
  }
}

/** Waits for an answer and returns its content; throws what the server says otherwise. */
export async function ask<T>(
  answer: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<Exclude<T, string>> {
  const { data, error, response } = await answer.catch(unreachable);
  if (response.ok) return data as Exclude<T, string>;
  if (response.status === 401) signIn();
  throw new Refused(response.status, sentence(error, response.status), error);
}

/** The sentence in an error of the API. */
export function sentence(error: unknown, status: number): string {
  if (typeof error === "object" && error !== null) {
    const { error: message, message: other } = error as { error?: unknown; message?: unknown };
    if (typeof message === "string") return message;
    if (typeof other === "string") return other;
  }
  if (typeof error === "string" && error.length > 0) return error;
  return `The server answered with status ${status}.`;
}

export { client };
