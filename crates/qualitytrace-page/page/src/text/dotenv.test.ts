import { expect, test } from "vitest";
import { isSecretName, readDotenv } from "./dotenv";

const pairs = (text: string) => readDotenv(text).pairs.map(({ key, value }) => `${key}=${value}`);

test("comments, exports, quotes and values over several lines are read", () => {
  const text = `# the shop
export GATEWAY=http://shop:8080/#top # main door
EMPTY=
SINGLE='a "b" \\n $c'
DOUBLE="a \\"b\\"\\tc"
KEY="-----BEGIN
two
END"
SPACED = x
`;
  expect(pairs(text)).toEqual([
    "GATEWAY=http://shop:8080/#top",
    "EMPTY=",
    'SINGLE=a "b" \\n $c',
    'DOUBLE=a "b"\tc',
    "KEY=-----BEGIN\ntwo\nEND",
    "SPACED=x",
  ]);
});

test("lines that cannot be read are told, and the others are kept", () => {
  expect(readDotenv('A=1\nno value\r\nB="open\nC=3')).toEqual({
    pairs: [
      { key: "A", value: "1" },
      { key: "C", value: "3" },
    ],
    unread: [2, 3],
  });
});

test("the last value of a name counts", () => {
  expect(pairs("A=1\nA=2")).toEqual(["A=2"]);
});

test("secrets are known by their names", () => {
  expect(["DB_PASSWORD", "API_KEY", "token", "GITHUB_TOKEN_2"].filter((key) => !isSecretName(key))).toEqual(
    [],
  );
  expect(["KEYBOARD", "GATEWAY", "COMPASS", "TOKENS_LEFT"].filter(isSecretName)).toEqual(["TOKENS_LEFT"]);
});
