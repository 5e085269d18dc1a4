// What a page calls: by gRPC-Web, Connect, fetch, event streams and WebSocket.
// The query names the gateway and the credential.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import * as grpcWeb from "grpc-web";
import { connectCases, equal, failure, full, load, rejects, run, same } from "./cases.mjs";

const query = new URLSearchParams(location.search);
const [gateway, app, token] = ["gateway", "app", "token"].map((name) => query.get(name));
const baseUrl = `http://${gateway}`;
const credential = `Bearer ${app}.${token}`;
const types = load(new Uint8Array(await (await fetch("protoset")).arrayBuffer()));
const { BadRequest, ErrorInfo, Shapes, Status } = types;

// named puts a name before those of the cases.
const named = (name, cases) => Object.fromEntries(Object.entries(cases).map(([k, v]) => [`${name}: ${k}`, v]));

function grpcWebCases(format) {
  const client = new grpcWeb.GrpcWebClientBase({ format });
  const headers = { authorization: credential };
  const describe = (method, kind) =>
    new grpcWeb.MethodDescriptor(
      `/testbackend.Echo/${method}`, kind, Object, Object,
      (m) => toBinary(Shapes, create(Shapes, m)), (b) => fromBinary(Shapes, b),
    );
  const unary = (request, more = {}) =>
    new Promise((resolve, reject) => {
      client.rpcCall(`${baseUrl}/testbackend.Echo/Unary`, request, { ...headers, ...more }, describe("Unary", "unary"), (err, answer) =>
        err ? reject(err) : resolve(answer),
      );
    });
  const stream = (request) =>
    client.serverStreaming(`${baseUrl}/testbackend.Echo/ServerStream`, request, headers, describe("ServerStream", "server_streaming"));
  const drain = (call, each = () => {}) =>
    new Promise((resolve) => {
      const got = { texts: [] };
      call.on("data", (m) => (got.texts.push(m.text), each()));
      call.on("error", (err) => resolve({ ...got, err }));
      call.on("end", () => resolve(got));
    });
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const details = (err) => fromBinary(Status, bytes(err.metadata["grpc-status-details-bin"])).details;
  const failed = (err) => {
    equal([err.code, err.message], [failure.code, failure.message], "error");
    equal(anyUnpack(details(err)[0], BadRequest).fieldViolations[0].field, failure.field, "detail");
    equal(err.metadata["x-trailer"], "after", "trailer");
  };
  const cases = {
    async unary() {
      same(Shapes, await unary(full), full);
    },
    async "server stream"() {
      equal(await drain(stream({ texts: ["a", "b", "c"] })), { texts: ["a", "b", "c"] }, "messages");
    },
    async error() {
      failed(await rejects(unary({ text: "fail" }), "unary"));
    },
    async "error after messages"() {
      const got = await drain(stream({ text: "fail", texts: ["a", "b"] }));
      equal(got.texts, ["a", "b"], "messages");
      failed(got.err);
    },
    async "wrong token"() {
      const err = await rejects(unary({}, { authorization: credential + "x" }), "unary");
      equal([err.code, anyUnpack(details(err)[0], ErrorInfo).reason], [16, "TOKEN_INVALID"], "error");
    },
    async deadline() {
      const err = await rejects(unary({ text: "wait" }, { deadline: String(Date.now() + 1000) }), "unary");
      equal(err.code, 4, "code");
    },
    async cancel() {
      const call = stream({ text: "wait", texts: ["first"] });
      await new Promise((resolve) => call.on("data", resolve));
      call.cancel();
    },
  };
  if (format === "binary") delete cases.cancel; // the library gives a binary stream's messages at its end
  return cases;
}

const post = (path, body, init = {}) =>
  fetch(baseUrl + path, {
    method: "POST", body, headers: { authorization: credential, "content-type": "application/json" }, ...init,
  });

// events reads a stream of events to its end.
async function events(path, each = () => {}) {
  const answer = await fetch(baseUrl + path, { headers: { authorization: credential, accept: "text/event-stream" } });
  equal([answer.status, answer.headers.get("content-type")], [200, "text/event-stream"], "answer");
  const got = [];
  let rest = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + chunk).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n").filter((line) => !line.startsWith(":"));
      if (lines.length === 0) continue;
      const field = (name) => lines.find((l) => l.startsWith(`${name}: `))?.slice(name.length + 2);
      got.push({ event: field("event") ?? "message", data: JSON.parse(field("data")) });
      each(got);
    }
  }
  return got;
}

const fetchCases = {
  async unary() {
    const answer = await post("/v1/echo", JSON.stringify({ text: "é", number: "9007199254740993" }));
    equal(answer.status, 200, "status");
    const got = await answer.json();
    equal([got.text, got.number], ["é", "9007199254740993"], "message");
    if (!answer.headers.get("x-request-id")) throw new Error("the page cannot read X-Request-Id");
  },
  async error() {
    const answer = await post("/v1/echo", `{"text": "fail"}`);
    const got = await answer.json();
    equal([answer.status, got.code, got.message], [400, failure.code, failure.message], "error");
    equal(got.details[0].fieldViolations[0].field, failure.field, "detail");
  },
  async "wrong token"() {
    const answer = await post("/v1/echo", "{}", { headers: { authorization: credential + "x" } });
    equal([answer.status, (await answer.json()).details[0].reason], [401, "TOKEN_INVALID"], "error");
  },
  async events() {
    const got = await events("/v1/echo:stream?texts=a&texts=b");
    equal(got.map(({ event, data }) => [event, data.text]), [["message", "a"], ["message", "b"], ["end", undefined]], "events");
  },
  async "error event"() {
    const got = await events("/v1/echo:stream?texts=a&text=fail");
    equal(got.map(({ event }) => event), ["message", "error"], "events");
    equal([got[1].data.code, got[1].data.message], [failure.code, failure.message], "error");
  },
  async "cancel events"() {
    const abort = new AbortController();
    const answer = await fetch(`${baseUrl}/v1/echo:stream?texts=first&text=wait`, {
      headers: { authorization: credential, accept: "text/event-stream" }, signal: abort.signal,
    });
    await answer.body.getReader().read();
    abort.abort();
  },
};

// open opens a WebSocket with the credential in the one header that a page can
// set there.
function open(path, cred = `${app}.${token}`) {
  const entry = btoa(cred).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return new WebSocket(`ws://${gateway}${path}`, ["rpcgate.json", `rpcgate.token.${entry}`]);
}

// talk resolves to what came, and how the connection closed.
function talk(socket, { opened = () => {}, each = () => {} } = {}) {
  return new Promise((resolve) => {
    const texts = [];
    socket.onopen = opened;
    socket.onmessage = ({ data }) => {
      const got = JSON.parse(data);
      texts.push(got.text ?? got);
      each(texts);
    };
    socket.onclose = ({ code, reason }) => resolve({ texts, code, reason });
  });
}

const webSocketCases = {
  // Each message is sent after the answer to the one before has come.
  async "bidirectional stream"() {
    const socket = open("/v1/echo:chat");
    const next = ["2", "3"];
    const got = await talk(socket, {
      opened: () => socket.send(`{"text": "1"}`),
      each: () => (next.length > 0 ? socket.send(JSON.stringify({ text: next.shift() })) : socket.close(1000)),
    });
    equal([got.texts, got.code], [["1", "2", "3"], 1000], "messages");
    equal(socket.protocol, "rpcgate.json", "protocol");
  },
  async "server stream"() {
    const got = await talk(open("/v1/echo:stream?texts=a&texts=b"));
    equal([got.texts, got.code], [["a", "b"], 1000], "messages");
  },
  async error() {
    const got = await talk(open("/v1/echo:stream?texts=a&text=fail"));
    equal([got.texts[0], got.code, got.reason], ["a", 4000 + failure.code, failure.message], "messages");
    equal(got.texts[1].error.message, failure.message, "last message");
  },
  async "wrong token"() {
    const got = await talk(open("/v1/echo:chat", `${app}.${token}x`));
    equal([got.texts, got.code], [[], 1006], "messages"); // a page is not told why a handshake failed
  },
  async cancel() {
    const socket = open("/v1/echo:stream?texts=first&text=wait");
    await talk(socket, { each: () => socket.close() });
  },
};

// A page that the gateway's config does not name reads nothing.
const strangerCases = {
  async fetch() {
    equal((await rejects(post("/v1/echo", "{}"), "fetch")).name, "TypeError", "error");
  },
  async webSocket() {
    equal((await talk(open("/v1/echo:chat"))).code, 1006, "code");
  },
};

const cases = query.has("stranger")
  ? named("stranger", strangerCases)
  : {
      ...named("connect-web, Connect, JSON", connectCases(createConnectTransport({ baseUrl }), types, credential, {})),
      ...named("connect-web, Connect, binary", connectCases(createConnectTransport({ baseUrl, useBinaryFormat: true }), types, credential, {})),
      ...named("connect-web, gRPC-Web", connectCases(createGrpcWebTransport({ baseUrl }), types, credential, {})),
      ...named("grpc-web, text", grpcWebCases("text")),
      ...named("grpc-web, binary", grpcWebCases("binary")),
      ...named("fetch", fetchCases),
      ...named("WebSocket", webSocketCases),
    };
console.log((await run(cases, console.log)) ? "all passed" : "some failed");
