"""Python's grpcio, from the system's packages."""

import os
import sys
import threading
import traceback

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

env = os.environ
pool = descriptor_pool.DescriptorPool()
with open(env["PROTOSET"], "rb") as f:
    for file in descriptor_pb2.FileDescriptorSet.FromString(f.read()).file:
        pool.Add(file)


def message(name):
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


Shapes = message("testbackend.Shapes")
Status = message("google.rpc.Status")
BadRequest = message("google.rpc.BadRequest")
ErrorInfo = message("google.rpc.ErrorInfo")

channel = grpc.insecure_channel(env["ADDRESS"])
how = {"request_serializer": Shapes.SerializeToString, "response_deserializer": Shapes.FromString}
unary = channel.unary_unary("/testbackend.Echo/Unary", **how)
server_stream = channel.unary_stream("/testbackend.Echo/ServerStream", **how)
client_stream = channel.stream_unary("/testbackend.Echo/ClientStream", **how)
bidi = channel.stream_stream("/testbackend.Echo/Bidi", **how)
credential = (("app", env["APP"]), ("token", env["TOKEN"]))


def equal(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def fails(call):
    try:
        call()
    except grpc.RpcError as err:
        return err
    raise AssertionError("did not fail")


def detail(err, kind):
    trailers = dict(err.trailing_metadata())
    found = kind()
    found.ParseFromString(Status.FromString(trailers["grpc-status-details-bin"]).details[0].value)
    return found


def failed(err):
    equal((err.code(), err.details()), (grpc.StatusCode.INVALID_ARGUMENT, "text: 100% ungültig"), "error")
    violation = detail(err, BadRequest).field_violations[0]
    equal((violation.field, violation.description), ("text", "must not be “fail”"), "detail")
    equal(dict(err.trailing_metadata())["x-trailer"], "after", "trailer")


def case_unary():
    full = Shapes(
        text="grüße, 世界 👋\n", small=-1, number=9007199254740993, positive=18446744073709551615, flag=True,
        real=0.1, data=b"\x00\xff\x80\n", colour=2, texts=["", "x"], numbers=[1, -1], labels={"k": "v", "": ""},
        right=0, maybe="",
    )  # fmt: skip
    full.sub.name, full.sub.size, full.sub.inner.name = "a", -9223372036854775808, "b"
    raw = b"\x00\x01\xfe\xff"
    got, call = unary.with_call(full, metadata=credential + (("x-header", "before"), ("x-raw-bin", raw)))
    equal(got, full, "message")
    header = dict(call.initial_metadata())
    equal((header["x-header"], header["x-raw-bin"]), ("before", raw), "header")
    equal(dict(call.trailing_metadata())["x-trailer"], "after", "trailer")


def case_large():
    text = "abcdefgh" * (1 << 15)
    equal(unary(Shapes(text=text), metadata=credential).text, text, "text")


def case_server_stream():
    got = [m.text for m in server_stream(Shapes(texts=["a", "b", "c"]), metadata=credential)]
    equal(got, ["a", "b", "c"], "messages")


def case_error():
    failed(fails(lambda: unary(Shapes(text="fail"), metadata=credential)))


def case_error_after_messages():
    got = []

    def drain():
        for m in server_stream(Shapes(text="fail", texts=["a", "b"]), metadata=credential):
            got.append(m.text)

    failed(fails(drain))
    equal(got, ["a", "b"], "messages")


def case_wrong_token():
    err = fails(lambda: unary(Shapes(), metadata=(("app", env["APP"]), ("token", env["TOKEN"] + "x"))))
    equal((err.code(), detail(err, ErrorInfo).reason), (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID"), "error")


def case_deadline():
    err = fails(lambda: unary(Shapes(text="wait"), timeout=1, metadata=credential))
    equal(err.code(), grpc.StatusCode.DEADLINE_EXCEEDED, "code")


def case_cancel():
    call = server_stream(Shapes(text="wait", texts=["first"]), metadata=credential)
    equal(next(call).text, "first", "message")
    call.cancel()
    equal(fails(lambda: next(call)).code(), grpc.StatusCode.CANCELLED, "code")


def case_client_stream():
    got = client_stream((Shapes(text=t) for t in "abc"), metadata=credential)
    equal(got.text, "a,b,c", "text")


def case_bidirectional_stream():
    answered = threading.Semaphore(0)

    def ask():
        yield Shapes(text="1")
        answered.acquire()
        yield Shapes(text="2")
        answered.acquire()

    got = []
    for m in bidi(ask(), metadata=credential):
        got.append(m.text)
        answered.release()
    equal(got, ["1", "2"], "messages")


passed = True
for name, body in list(globals().items()):
    if not name.startswith("case_"):
        continue
    name = name[len("case_") :].replace("_", " ")
    try:
        body()
        print("ok", name, flush=True)
    except Exception:  # the rest is still of interest
        passed = False
        print("FAILED", name, traceback.format_exc(), flush=True)
channel.close()
sys.exit(0 if passed else 1)
