// What the clients in Node share: the environment that the test sets.
import { readFileSync } from "node:fs";
import { load, run } from "./cases.mjs";

export const env = process.env;
export const types = load(readFileSync(env.PROTOSET));
export const credential = `Bearer ${env.APP}.${env.TOKEN}`;

export async function main(cases) {
  process.exit((await run(cases, console.log)) ? 0 : 1);
}
