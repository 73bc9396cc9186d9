// Makes the types of the API from its description, unless they are newer than it.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const description = new URL("../../../../docs/openapi.json", import.meta.url);
const types = new URL("../src/api/schema.gen.d.ts", import.meta.url);
if (!existsSync(types) || statSync(types).mtimeMs < statSync(description).mtimeMs) {
  const api = JSON.parse(readFileSync(description, "utf8"));
  writeFileSync(types, astToString(await openapiTS(api)));
}
