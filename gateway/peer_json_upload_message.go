package gateway

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/rpcgate/rpcgate/transcode"
)

// rawChunk is the most data that one message of a raw upload carries, in bytes.
const rawChunk = 32 << 10

// next gives the next message of whichever kind of upload.
func (u *jsonUpload) next() (mem.BufferSlice, error) {
	switch u.kind {
	case transcode.RawBody:
		return u.nextChunk()
	case transcode.JSONBody:
		return u.nextValue()
	default:
		return u.only()
	}
}

// nextValue gives the next JSON value.
func (u *jsonUpload) nextValue() (mem.BufferSlice, error) {
	value, err := u.splitter.next()
	var told *callError
	switch {
	case err == nil:
	case errors.As(err, &told), errors.Is(err, io.EOF):
		return nil, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, u.bad("the body ends in the middle of it")
	case errors.Is(err, errNotMessages):
		return nil, u.bad("expected JSON values, one after the other, or an array of them")
	case errors.Is(err, errMessageTooLarge):
		return nil, errUploadedTooLarge
	default:
		return nil, err // the caller is gone
	}
	msg, err := u.message(value)
	u.splitter.shrink()
	return msg, err
}

// bad tells what is wrong with the next message.
func (u *jsonUpload) bad(what string) *callError {
	return badRequest("BAD_REQUEST", "message "+strconv.FormatInt(u.messages+1, 10)+" of the body: "+what)
}

// message makes a message of a JSON value, or of the first piece of a raw body.
func (u *jsonUpload) message(body []byte) (mem.BufferSlice, error) {
	p := u.peer
	in := transcode.Input{Body: body, Query: p.r.URL.RawQuery, Vars: p.match.Vars}
	if u.kind == transcode.RawBody {
		in.ContentType = contentType(p.r.Header)
	}
	pool := p.front.buffers
	msg := pool.room(len(body))
	wire, err := p.match.Route.Transcoder.AppendRequest(*msg, in)
	if err != nil {
		pool.Put(msg)
		if u.kind != transcode.JSONBody {
			return nil, describe(err)
		}
		if u.messages == 0 && looksLikeForm(body) && labelOf(contentType(p.r.Header)) == labelForm {
			return nil, errNotJSON
		}
		failure := describe(err)
		// What is wrong with the value as a whole is said of the body elsewhere.
		failure.Message = u.bad(strings.TrimPrefix(failure.Message, "request body: ")).Message
		return nil, failure
	}
	u.messages++
	*msg = wire
	return mem.BufferSlice{mem.NewBuffer(msg, pool)}, nil
}

// nextChunk gives the next piece of a raw body, as large as it comes. The first
// message carries the media type and what path and query say, and there is one
// even where there is no data.
func (u *jsonUpload) nextChunk() (mem.BufferSlice, error) {
	pool := u.peer.front.buffers
	if u.chunk == nil {
		u.chunk = pool.Get(rawChunk)
	}
	for !u.ended.Load() {
		n, err := u.read(*u.chunk)
		u.raw += int64(n)
		if most := u.peer.call.bound.maxBody; most > 0 && u.raw > most { // the listener has no limit for a whole stream
			return nil, errBodyTooLarge
		}
		if errors.Is(err, io.EOF) {
			u.limit(0)
			u.ended.Store(true)
			err = nil
		}
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			continue
		case u.messages == 0:
			return u.message((*u.chunk)[:n])
		}
		msg := pool.Get(0)
		if *msg, err = u.peer.match.Route.Transcoder.AppendChunk(*msg, (*u.chunk)[:n]); err != nil {
			pool.Put(msg)
			return nil, err
		}
		u.messages++
		return mem.BufferSlice{mem.NewBuffer(msg, pool)}, nil
	}
	if u.messages == 0 {
		return u.message(nil)
	}
	return nil, io.EOF
}

// only gives the one message of a route whose body says nothing: path and query
// are all that it is made of. The body is read all the same, so that a caller
// who hangs up is noticed.
func (u *jsonUpload) only() (mem.BufferSlice, error) {
	if u.messages == 0 {
		return u.message(nil)
	}
	limit := u.peer.call.bodyLimit(u.peer.front.cfg.MaxBodySize)
	switch n, err := io.Copy(io.Discard, io.LimitReader(u, limit+1)); {
	case err != nil:
		return nil, err
	case n > limit:
		return nil, errBodyTooLarge
	}
	return nil, io.EOF
}
