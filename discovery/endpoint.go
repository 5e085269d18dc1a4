package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
)

// endpoint is one address of a backend as it registered.
type endpoint struct {
	address  string
	metadata string // compact JSON, or "" for none
}

// registration values' Op, as etcd's naming/endpoints package stores it
// (client/v3/naming/endpoints/internal/update.go).
const opAdd = 0

// parseEndpoint reads the value of a registration.
func parseEndpoint(l layout, value []byte) (endpoint, error) {
	value = bytes.TrimSpace(value)
	if l == layoutAuto || l == "" {
		l = layoutZRPC
		if len(value) > 0 && value[0] == '{' {
			l = layoutEndpoints
		}
	}
	if l == layoutZRPC {
		e := endpoint{address: string(value)}
		return e, checkAddress(e.address)
	}
	var v struct {
		Op       *int
		Addr     string
		Metadata json.RawMessage
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return endpoint{}, fmt.Errorf("value is not an endpoint in JSON: %w", err)
	}
	if v.Op != nil && *v.Op != opAdd {
		return endpoint{}, errors.New("value announces no address (its Op is not 0)")
	}
	e := endpoint{address: v.Addr}
	if err := checkAddress(e.address); err != nil {
		return endpoint{}, err
	}
	if len(v.Metadata) > 0 && !bytes.Equal(v.Metadata, []byte("null")) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, v.Metadata); err != nil {
			return endpoint{}, fmt.Errorf("metadata of %s: %w", e.address, err)
		}
		e.metadata = compact.String()
	}
	return e, nil
}

// metadataKey is the attribute under which an endpoint's metadata travels.
type metadataKey struct{}

// Metadata returns the JSON that the endpoint registered as its metadata; nil
// if it registered none.
func Metadata(e resolver.Endpoint) json.RawMessage {
	metadata, ok := e.Attributes.Value(metadataKey{}).(string)
	if !ok {
		return nil
	}
	return json.RawMessage(metadata)
}

// stateOf builds what gRPC is told; endpoints must be sorted, so that the same
// set is always the same state.
func stateOf(endpoints []endpoint) resolver.State {
	state := resolver.State{
		Addresses: make([]resolver.Address, 0, len(endpoints)),
		Endpoints: make([]resolver.Endpoint, 0, len(endpoints)),
	}
	for _, e := range endpoints {
		a := resolver.Address{Addr: e.address}
		var attrs *attributes.Attributes
		if e.metadata != "" {
			attrs = attributes.New(metadataKey{}, e.metadata)
		}
		state.Addresses = append(state.Addresses, a)
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}, Attributes: attrs})
	}
	return state
}
