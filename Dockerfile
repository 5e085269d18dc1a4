# syntax=docker/dockerfile:1.7
# Two images: `gateway` (the default) and `shop`, the demo backend. Neither has
# a shell; their health checks are binaries.

FROM golang:1.26.8 AS build
WORKDIR /src
ENV CGO_ENABLED=0
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=devel
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/gateway ./cmd/gateway && \
    go build -trimpath -ldflags "-s -w" -o /out/shop ./examples/shop

# The standard gRPC health check as a command, for the shop.
FROM golang:1.26.8 AS probe
ENV CGO_ENABLED=0 GOBIN=/out
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go install github.com/grpc-ecosystem/grpc-health-probe@v0.4.63

FROM gcr.io/distroless/static-debian12:nonroot AS shop
COPY --from=build /out/shop /shop
COPY --from=probe /out/grpc-health-probe /grpc-health-probe
EXPOSE 8081
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s CMD ["/grpc-health-probe", "-addr=127.0.0.1:8081"]
ENTRYPOINT ["/shop"]
CMD ["--listen", ":8081"]

FROM gcr.io/distroless/static-debian12:nonroot AS gateway
COPY --from=build /out/gateway /gateway
COPY LICENSE /LICENSE
EXPOSE 8080 9090 9091
HEALTHCHECK --interval=5s --timeout=4s --start-period=10s CMD ["/gateway", "health"]
ENTRYPOINT ["/gateway"]
CMD ["serve", "-c", "/etc/rpcgate/gateway.yaml"]
