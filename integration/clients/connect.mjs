// Connect's libraries for Node: connect.mjs PROTOCOL HTTP-VERSION FORMAT [gzip]
import { compressionGzip, createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { connectCases } from "./cases.mjs";
import { credential, env, main, types } from "./node.mjs";

const [protocol, httpVersion, format, compression] = process.argv.slice(2);
const create = { connect: createConnectTransport, grpc: createGrpcTransport, "grpc-web": createGrpcWebTransport }[protocol];
const transport = create({
  baseUrl: `http://${env.ADDRESS}`,
  httpVersion,
  useBinaryFormat: format === "binary",
  ...(compression === "gzip" ? { sendCompression: compressionGzip, compressMinBytes: 1 } : {}),
});
await main(connectCases(transport, types, credential, { duplex: httpVersion === "2" }));
