package main

import (
	"encoding/binary"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// The suite's messages are read and written by field number: its generated code
// is internal to its module (connectrpc/conformance/v1/server_compat.proto).

// request is a ServerCompatRequest.
type request struct {
	useTLS     bool
	clientCert []byte // PEM; callers must present a certificate that it vouches for
	limit      uint64 // bytes of a message; 0: none
	cert, key  []byte // PEM, for the server
}

const (
	fieldUseTLS     = 4
	fieldClientCert = 5
	fieldLimit      = 6
	fieldCreds      = 7 // TLSCreds{cert = 1, key = 2}
)

func parseRequest(data []byte) (request, error) {
	var r request
	err := fields(data, func(n protowire.Number, number uint64, bytes []byte) error {
		switch n {
		case fieldUseTLS:
			r.useTLS = number != 0
		case fieldClientCert:
			r.clientCert = bytes
		case fieldLimit:
			r.limit = number
		case fieldCreds:
			return fields(bytes, func(n protowire.Number, _ uint64, bytes []byte) error {
				switch n {
				case 1:
					r.cert = bytes
				case 2:
					r.key = bytes
				}
				return nil
			})
		}
		return nil
	})
	return r, err
}

// backendRequest asks the server behind the gateway for gRPC in clear text.
func backendRequest(limit uint64) []byte {
	const protocolGRPC, http2 = 2, 2
	b := protowire.AppendTag(nil, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, protocolGRPC)
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, http2)
	b = protowire.AppendTag(b, fieldLimit, protowire.VarintType)
	return protowire.AppendVarint(b, limit)
}

// response is a ServerCompatResponse; cert may be nil.
func response(port uint64, cert []byte) []byte {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendString(b, "127.0.0.1")
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, port)
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	return protowire.AppendBytes(b, cert)
}

// responsePort is the port of a ServerCompatResponse.
func responsePort(data []byte) (uint64, error) {
	var port uint64
	err := fields(data, func(n protowire.Number, number uint64, _ []byte) error {
		if n == 2 {
			port = number
		}
		return nil
	})
	return port, err
}

// fields calls each with the varint and length-delimited fields of a message.
func fields(data []byte, each func(n protowire.Number, number uint64, bytes []byte) error) error {
	for len(data) > 0 {
		n, t, size := protowire.ConsumeTag(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		var number uint64
		var bytes []byte
		switch t {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(data)
		default:
			return fmt.Errorf("field %d is of wire type %d", n, t)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := each(n, number, bytes); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

// maxFrame bounds a message of the suite: it has a certificate or two.
const maxFrame = 1 << 20

// readFrame reads a message after its length in four bytes, the highest first.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("reading a message's length: %w", err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	return data, nil
}

func writeFrame(w io.Writer, data []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}
