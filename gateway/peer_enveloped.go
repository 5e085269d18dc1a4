package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// envelopedPeer is one caller whose messages stand in envelopes: of gRPC and
// gRPC-Web always, of Connect in streams. How its answer ends is in rpc_end.go.
//
// recvMsg, and what it uses, may run beside the rest; see [Call].
type envelopedPeer struct {
	rpcCall

	in    wire.EnvelopeReader // recvMsg
	stage [512]byte           // recvMsg: read ahead
	ended atomic.Bool         // recvMsg: the body was read to its end

	// Guards the body's time limit, which a recvMsg that outlives the call must
	// not touch: the connection may have another one then.
	mu   sync.Mutex
	over bool // finish

	headerSent bool // sendHeader: the backend sent one, be it empty
	committed  bool // commit: the status line is out, or will be before what is written next
	prefix     [wire.EnvelopeHeaderSize]byte
}

// recvMsg gives the next message. A caller that does not stream has exactly one.
func (p *envelopedPeer) recvMsg() (mem.BufferSlice, error) {
	if p.in.Source == nil {
		p.open()
	}
	if p.call.Route.ClientStreams {
		return p.next()
	}
	msg, err := p.next()
	if errors.Is(err, io.EOF) {
		return nil, errNoMessage
	}
	if err != nil {
		return nil, err
	}
	more, err := p.in.More()
	switch {
	case more:
		err = errManyMessages
	case err != nil:
		err = p.readFault(err)
	default:
		p.bodyRead()
		return msg, nil
	}
	msg.Free()
	return nil, err
}

func (p *envelopedPeer) open() {
	p.in = wire.EnvelopeReader{Source: p.r.Body, Limit: p.call.bodyLimit(p.front.cfg.MaxBodySize), Stage: p.stage[:]}
	if p.form.text {
		p.in.Source = wire.NewTextReader(p.r.Body)
	}
	if p.call.Route.ClientStreams && p.front.cfg.BodyTimeout > 0 {
		p.in.Waiting = p.limitMessage
	}
}

// limitMessage bounds how long a message of a stream may take once it has
// begun: between messages there is no limit.
func (p *envelopedPeer) limitMessage(waiting bool) {
	var until time.Time
	if waiting {
		until = time.Now().Add(p.front.cfg.BodyTimeout)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = http.NewResponseController(p.w).SetReadDeadline(until) // net/http's writers can
	}
}

// next gives the next message, io.EOF after the last.
func (p *envelopedPeer) next() (mem.BufferSlice, error) {
	pool := p.front.buffers
	buf := pool.room(int(min(p.r.ContentLength, maxKept)))
	flags, data, err := p.in.Next(*buf)
	*buf = data
	switch {
	case (err == nil || errors.Is(err, wire.ErrTooLarge)) && flags&^wire.FlagCompressed != 0:
		err = errBadFlags
	case err == nil && flags&wire.FlagCompressed != 0 && p.sent == nil:
		err = errNotNegotiated
	case err == nil:
		return p.request(buf, flags != 0, codes.Internal)
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		p.ended.Store(true)
		err = io.EOF
	default:
		err = p.readFault(err)
	}
	pool.Put(buf)
	return nil, err
}

func (p *envelopedPeer) sendHeader(md metadata.MD) error {
	p.headerSent = true
	addAnswer(p.w.Header(), "", md)
	if !p.call.Route.ServerStreams {
		return nil // it goes out with the one message, in one write
	}
	p.limitWrite()
	defer p.unlimitWrite()
	p.commit(p.answered)
	return p.flush()
}

// note is for the trailer: an answer without headers stays one.
func (p *envelopedPeer) note(md metadata.MD) {
	if p.trailer == nil {
		p.trailer = make(metadata.MD, len(md))
	}
	maps.Copy(p.trailer, md)
}

func (p *envelopedPeer) sendMsg(msg mem.BufferSlice) error {
	defer func() {
		if !p.broken { // its buffers are from a pool, too; see buffers.Put
			msg.Free()
		}
	}()
	if !p.call.Route.ServerStreams {
		return p.sendOnly(msg)
	}
	if !p.committed {
		p.commit(p.answered)
	}
	p.limitWrite()
	defer p.unlimitWrite()
	if err := p.writeMsg(msg, p.answered); err != nil {
		return err
	}
	return p.flush()
}

// sendOnly is for the only message of an answer: the backend's status is known
// to be OK, and the rest of the answer follows in the same write.
func (p *envelopedPeer) sendOnly(msg mem.BufferSlice) error {
	compression := p.answered
	if msg.Len() < compressFrom {
		compression = nil
	}
	if p.form.json { // which may fail yet, and then have no header
		return p.writeMsg(msg, compression)
	}
	p.commit(compression)
	p.limitWrite()
	return p.writeMsg(msg, compression)
}

// writeMsg writes a message in its envelope, compressed where it pays.
func (p *envelopedPeer) writeMsg(msg mem.BufferSlice, compression *wire.Compression) error {
	if !p.form.json && !p.form.text && (compression == nil || msg.Len() < compressFrom) {
		wire.PutEnvelopeHeader(&p.prefix, 0, msg.Len())
		if err := p.write(p.prefix[:]); err != nil {
			return err
		}
		for _, b := range msg {
			if err := p.write(b.ReadOnlyData()); err != nil {
				return err
			}
		}
		return nil
	}
	buf := p.front.buffers.room(2 * msg.Len())
	defer p.giveBack(buf)
	var err error
	if *buf, err = p.answer(*buf, msg); err != nil {
		return err
	}
	if !p.committed {
		if len(*buf) < compressFrom {
			compression = nil
		}
		p.commit(compression)
		p.limitWrite()
	}
	return p.writeEnvelope(0, *buf, compression)
}

// writeEnvelope writes data in an envelope, compressed where it pays.
func (p *envelopedPeer) writeEnvelope(flags byte, data []byte, compression *wire.Compression) error {
	pool := p.front.buffers
	if compression != nil && len(data) >= compressFrom {
		packed := pool.room(len(data) / 2)
		defer p.giveBack(packed)
		var err error
		if *packed, err = compression.Compress(*packed, data); err != nil {
			return err
		}
		flags |= wire.FlagCompressed
		data = *packed
	}
	wire.PutEnvelopeHeader(&p.prefix, flags, len(data))
	if !p.form.text {
		if err := p.write(p.prefix[:]); err != nil {
			return err
		}
		return p.write(data)
	}
	plain, text := pool.room(len(data)), pool.room(2*len(data))
	defer pool.Put(plain)
	defer p.giveBack(text)
	*plain = append(append(*plain, p.prefix[:]...), data...)
	*text = wire.AppendText(*text, *plain)
	return p.write(*text)
}

func (p *envelopedPeer) write(data []byte) error {
	_, err := p.w.Write(data)
	return p.lost(err)
}

// flush pushes out what was written: where most failures show.
func (p *envelopedPeer) flush() error {
	return p.lost(http.NewResponseController(p.w).Flush())
}

// lost is for a caller that hung up, or does not read.
func (p *envelopedPeer) lost(err error) error {
	if err == nil {
		return nil
	}
	p.broken = true
	return errors.Join(context.Canceled, err)
}

// commit makes the answer a success of HTTP, whatever comes.
func (p *envelopedPeer) commit(compression *wire.Compression) {
	p.committed = true
	h := p.w.Header()
	h["Content-Type"] = []string{p.form.answer}
	if compression != nil {
		sent := "Grpc-Encoding"
		if p.form.proto == protocolConnect {
			sent = "Connect-Content-Encoding"
		}
		h[sent] = []string{compression.Name()}
	}
	p.writeStatusLine()
}

func (p *envelopedPeer) writeStatusLine() {
	p.takeLeave()
	if p.halfRead() {
		p.w.Header()["Connection"] = []string{"close"}
	}
	p.w.WriteHeader(http.StatusOK)
}

// halfRead tells an HTTP/1.1 caller that may still be sending when its answer
// goes out. What it sends after the end of the answer would be taken for its
// next request: the connection is not used again.
func (p *envelopedPeer) halfRead() bool {
	return p.r.ProtoMajor < 2 && hasBody(p.r) && !p.ended.Load() &&
		p.call.Route != nil && p.call.Route.ClientStreams
}
