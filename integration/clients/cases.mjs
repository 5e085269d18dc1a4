// What each JavaScript client does, in Node and in a browser: the calls to the
// test backend, and what must come of them.
import { create, createFileRegistry, equals, fromBinary, toJsonString } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, decodeBinaryHeader, encodeBinaryHeader } from "@connectrpc/connect";

// load returns the backend's service and messages; bytes are a
// FileDescriptorSet.
export function load(bytes) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
  return {
    Echo: registry.getService("testbackend.Echo"),
    Shapes: registry.getMessage("testbackend.Shapes"),
    Status: registry.getMessage("google.rpc.Status"),
    BadRequest: registry.getMessage("google.rpc.BadRequest"),
    ErrorInfo: registry.getMessage("google.rpc.ErrorInfo"),
  };
}

// full has a value that a careless proxy would spoil in each field: beyond
// double precision, beyond ASCII, no UTF-8, empty but present.
export const full = {
  text: "grüße, 世界 👋\n",
  small: -1,
  number: 9007199254740993n,
  positive: 18446744073709551615n,
  flag: true,
  real: 0.1,
  data: new Uint8Array([0, 255, 128, 10]),
  colour: 2,
  sub: { name: "a", size: -9223372036854775808n, inner: { name: "b" } },
  texts: ["", "x"],
  numbers: [1n, -1n],
  labels: { k: "v", "": "" },
  choice: { case: "right", value: 0n },
  maybe: "",
};

export const failure = { code: 3, message: "text: 100% ungültig", field: "text", description: "must not be “fail”" };

export function equal(got, want, what) {
  const [g, w] = [got, want].map((v) => JSON.stringify(v, (_, x) => (typeof x === "bigint" ? `${x}n` : x)));
  if (g !== w) throw new Error(`${what}: got ${g}, want ${w}`);
}

// same compares messages; want may be what a message is made of.
export function same(schema, got, want) {
  want = create(schema, want);
  if (!equals(schema, got, want)) throw new Error(`message: got ${toJsonString(schema, got)}, want ${toJsonString(schema, want)}`);
}

// rejects returns the error that a promise fails with.
export async function rejects(promise, what) {
  try {
    await promise;
  } catch (err) {
    return err;
  }
  throw new Error(`${what}: did not fail`);
}

// connectCases are the cases over a transport of Connect's libraries. duplex:
// the transport has all kinds of streams, and not those of servers alone.
export function connectCases(transport, types, credential, { duplex }) {
  const { Echo, Shapes, BadRequest, ErrorInfo } = types;
  const client = createClient(Echo, transport);
  const headers = { authorization: credential };
  const failed = (err) => {
    equal([err.code, err.rawMessage], [failure.code, failure.message], "error");
    const [detail] = err.findDetails(BadRequest);
    equal([detail?.fieldViolations[0].field, detail?.fieldViolations[0].description], [failure.field, failure.description], "detail");
    equal(err.metadata.get("x-trailer"), "after", "trailer");
  };
  async function* each(...texts) {
    for (const text of texts) yield { text };
  }

  const cases = {
    async unary() {
      const raw = new Uint8Array([0, 1, 254, 255]);
      let header, trailer;
      const got = await client.unary(full, {
        headers: { ...headers, "x-header": "before", "x-raw-bin": encodeBinaryHeader(raw) },
        onHeader: (h) => (header = h),
        onTrailer: (h) => (trailer = h),
      });
      same(Shapes, got, full);
      equal(header.get("x-header"), "before", "header");
      equal([...decodeBinaryHeader(header.get("x-raw-bin"))], [...raw], "binary header");
      equal(trailer.get("x-trailer"), "after", "trailer");
    },
    async large() {
      const text = "abcdefgh".repeat(1 << 15);
      same(Shapes, await client.unary({ text }, { headers }), { text });
    },
    async "server stream"() {
      const got = [];
      for await (const m of client.serverStream({ texts: ["a", "b", "c"] }, { headers })) got.push(m.text);
      equal(got, ["a", "b", "c"], "messages");
    },
    async error() {
      failed(await rejects(client.unary({ text: "fail" }, { headers }), "unary"));
    },
    async "error after messages"() {
      const got = [];
      const all = async () => {
        for await (const m of client.serverStream({ text: "fail", texts: ["a", "b"] }, { headers })) got.push(m.text);
      };
      failed(await rejects(all(), "stream"));
      equal(got, ["a", "b"], "messages");
    },
    async "wrong token"() {
      const err = await rejects(client.unary({}, { headers: { authorization: credential + "x" } }), "unary");
      equal([err.code, err.findDetails(ErrorInfo)[0]?.reason], [Code.Unauthenticated, "TOKEN_INVALID"], "error");
    },
    async deadline() {
      const err = await rejects(client.unary({ text: "wait" }, { headers, timeoutMs: 1000 }), "unary");
      equal(err.code, Code.DeadlineExceeded, "code");
    },
    async cancel() {
      const abort = new AbortController();
      const all = async () => {
        for await (const m of client.serverStream({ text: "wait", texts: ["first"] }, { headers, signal: abort.signal })) {
          equal(m.text, "first", "message");
          abort.abort();
        }
      };
      equal(ConnectError.from(await rejects(all(), "stream")).code, Code.Canceled, "code");
    },
  };
  if (!duplex) return cases;
  return {
    ...cases,
    async "client stream"() {
      equal((await client.clientStream(each("a", "b", "c"), { headers })).text, "a,b,c", "text");
    },
    // Each message is sent after the answer to the one before has come.
    async "bidirectional stream"() {
      const answered = [Promise.withResolvers(), Promise.withResolvers()];
      async function* ask() {
        yield { text: "1" };
        await answered[0].promise;
        yield { text: "2" };
        await answered[1].promise;
      }
      const got = [];
      for await (const m of client.bidi(ask(), { headers })) {
        got.push(m.text);
        answered[got.length - 1].resolve();
      }
      equal(got, ["1", "2"], "messages");
    },
  };
}

// run runs all cases, tells report of each, and returns whether all passed.
export async function run(cases, report) {
  let passed = true;
  for (const [name, body] of Object.entries(cases)) {
    try {
      await within(20_000, body());
      report(`ok ${name}`);
    } catch (err) {
      passed = false;
      report(`FAILED ${name}: ${err.stack}`);
    }
  }
  return passed;
}

function within(ms, promise) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`took more than ${ms} ms`)), ms);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}
