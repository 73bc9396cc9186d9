// Makes the types of the API from its description, unless they are newer than it.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const description = new URL("../../../../docs/openapi.json", import.meta.url);
const types = new URL("../src/api/schema.gen.d.ts", import.meta.url);
if (!existsSync(types) || statSync(types).mtimeMs < statSync(description).mtimeMs) {
  const api = JSON.parse(readFileSync(description, "utf8"));
  // Two addresses of one thing share an id, which the generator does not take.
  const known = new Set();
  for (const operation of Object.values(api.paths).flatMap((methods) => Object.values(methods))) {
    if (known.has(operation.operationId)) delete operation.operationId;
    known.add(operation.operationId);
  }
  writeFileSync(types, astToString(await openapiTS(api)));
}
