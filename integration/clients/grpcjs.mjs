// @grpc/grpc-js, which is gRPC's own library for Node.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import grpc from "@grpc/grpc-js";
import { equal, failure, full, same } from "./cases.mjs";
import { env, main, types } from "./node.mjs";

const { BadRequest, Echo, ErrorInfo, Shapes, Status } = types;

const definition = Object.fromEntries(
  Echo.methods.map((m) => [
    m.localName,
    {
      path: `/${Echo.typeName}/${m.name}`,
      requestStream: m.methodKind === "client_streaming" || m.methodKind === "bidi_streaming",
      responseStream: m.methodKind === "server_streaming" || m.methodKind === "bidi_streaming",
      requestSerialize: (v) => Buffer.from(toBinary(Shapes, create(Shapes, v))),
      requestDeserialize: (b) => fromBinary(Shapes, b),
      responseSerialize: (v) => Buffer.from(toBinary(Shapes, v)),
      responseDeserialize: (b) => fromBinary(Shapes, b),
    },
  ]),
);
const Client = grpc.makeGenericClientConstructor(definition, Echo.typeName);
const client = new Client(env.ADDRESS, grpc.credentials.createInsecure());

function metadata(more = {}) {
  const md = new grpc.Metadata();
  for (const [k, v] of Object.entries({ app: env.APP, token: env.TOKEN, ...more })) md.set(k, v);
  return md;
}

// unary resolves to all that comes of a call; the error is part of it.
function unary(request, md = metadata(), options = {}) {
  return new Promise((resolve) => {
    const got = {};
    const done = () => "answered" in got && got.status && resolve(got);
    const call = client.unary(request, md, options, (err, answer) => {
      Object.assign(got, { answered: true, err, answer });
      done();
    });
    call.on("metadata", (h) => (got.header = h));
    call.on("status", (s) => {
      got.status = s;
      done();
    });
  });
}

// drain resolves to a stream's messages and its status; each sees each message.
function drain(call, each = () => {}) {
  return new Promise((resolve) => {
    const texts = [];
    call.on("data", (m) => {
      texts.push(m.text);
      each(m);
    });
    call.on("error", () => {}); // the status says it
    call.on("status", (status) => resolve({ texts, status }));
  });
}

const details = (md) => fromBinary(Status, md.get("grpc-status-details-bin")[0]).details;

function failed(status) {
  equal([status.code, status.details], [failure.code, failure.message], "error");
  const detail = anyUnpack(details(status.metadata)[0], BadRequest);
  equal([detail.fieldViolations[0].field, detail.fieldViolations[0].description], [failure.field, failure.description], "detail");
  equal(status.metadata.get("x-trailer"), ["after"], "trailer");
}

await main({
  async unary() {
    const raw = Buffer.from([0, 1, 254, 255]);
    const got = await unary(full, metadata({ "x-header": "before", "x-raw-bin": raw }));
    same(Shapes, got.answer, full);
    equal(got.header.get("x-header"), ["before"], "header");
    equal([...got.header.get("x-raw-bin")[0]], [...raw], "binary header");
    equal(got.status.metadata.get("x-trailer"), ["after"], "trailer");
  },
  async large() {
    const text = "abcdefgh".repeat(1 << 15);
    equal((await unary({ text })).answer.text, text, "text");
  },
  async "server stream"() {
    const got = await drain(client.serverStream({ texts: ["a", "b", "c"] }, metadata()));
    equal([got.texts, got.status.code], [["a", "b", "c"], 0], "messages");
  },
  async error() {
    failed((await unary({ text: "fail" })).status);
  },
  async "error after messages"() {
    const got = await drain(client.serverStream({ text: "fail", texts: ["a", "b"] }, metadata()));
    equal(got.texts, ["a", "b"], "messages");
    failed(got.status);
  },
  async "wrong token"() {
    const { status } = await unary({}, metadata({ token: env.TOKEN + "x" }));
    const info = anyUnpack(details(status.metadata)[0], ErrorInfo);
    equal([status.code, info.reason], [grpc.status.UNAUTHENTICATED, "TOKEN_INVALID"], "error");
  },
  async deadline() {
    const { status } = await unary({ text: "wait" }, metadata(), { deadline: Date.now() + 1000 });
    equal(status.code, grpc.status.DEADLINE_EXCEEDED, "code");
  },
  async cancel() {
    const call = client.serverStream({ text: "wait", texts: ["first"] }, metadata());
    const got = await drain(call, () => call.cancel());
    equal([got.texts, got.status.code], [["first"], grpc.status.CANCELLED], "messages");
  },
  async "client stream"() {
    const text = await new Promise((resolve, reject) => {
      const call = client.clientStream(metadata(), (err, answer) => (err ? reject(err) : resolve(answer.text)));
      for (const text of ["a", "b", "c"]) call.write({ text });
      call.end();
    });
    equal(text, "a,b,c", "text");
  },
  async "bidirectional stream"() {
    const call = client.bidi(metadata());
    const next = ["2"];
    call.write({ text: "1" });
    const got = await drain(call, () => (next.length > 0 ? call.write({ text: next.shift() }) : call.end()));
    equal([got.texts, got.status.code], [["1", "2"], 0], "messages");
  },
});
