import { expect, test } from "vitest";
import { again, missing, unknownSecrets, withAnswers } from "./manner";

test("a run is started again with its set and what it was given, without outputs and masks", () => {
  const manner = again({
    id: "staging",
    values: [
      { key: "GATEWAY", value: "http://a" },
      { key: "KEY", value: "********" },
      { key: "WHO", value: "ada" },
      { key: "EXTRA", value: "********" },
      { key: "ORDER_ID", value: "41" },
      { key: "CART", value: "new" },
    ],
    given: [
      { key: "WHO" },
      { key: "EMPTY" },
      { key: "EXTRA", type: "secret" },
      { key: "CART", value: "old" },
    ],
  });
  expect(manner).toEqual({
    variableSetId: "staging",
    variables: [
      { key: "WHO", value: "ada" },
      { key: "EMPTY", value: "" },
      { key: "EXTRA", value: "", type: "secret" },
      { key: "CART", value: "old" },
    ],
  });
  expect(unknownSecrets(manner)).toEqual([{ key: "EXTRA", value: "", type: "secret" }]);
  const answered = withAnswers(manner, [{ key: "EXTRA", value: "s3cr3t", type: "secret" }]);
  expect(unknownSecrets(answered)).toEqual([]);
  expect(answered.variables?.map(({ key }) => key)).toEqual(["WHO", "EMPTY", "CART", "EXTRA"]);
  expect(again(undefined)).toEqual({ variableSetId: undefined, variables: [] });
});

test("what a refusal lists is asked for once, a secret as a secret", () => {
  const detail = {
    missingVariables: [
      { testId: "a", variables: [{ key: "HOST", defaultValue: "http://a" }] },
      {
        testId: "b",
        variables: [
          { key: "HOST", defaultValue: "http://a" },
          { key: "KEY", type: "secret" },
        ],
      },
    ],
  };
  expect(missing(detail)).toEqual([
    { key: "HOST", value: "http://a" },
    { key: "KEY", value: "", type: "secret" },
  ]);
  expect(missing(undefined)).toEqual([]);
  expect(missing("a sentence")).toEqual([]);
});
