package rpcproxy

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// replay carries what a streaming caller sends to one attempt after another. It
// keeps what it was given, by reference, until the call is committed to an
// attempt: the answer has begun, or there is more than may be kept.
//
// One goroutine (pump) takes messages from the exchange for the whole of the
// call, and sends them itself as long as nothing stands in between. An attempt
// that is not the first has what is kept sent to it by a goroutine of its own
// (resend), for the pump may be waiting for the caller; meanwhile the pump only
// adds to what is kept. Once all is sent, the pump sends by itself again.
//
// At any time at most one goroutine sends on a stream: the one that stream and
// direct say, which change under the lock. Nothing blocks under it.
type replay struct {
	ex   Exchange
	max  int    // bytes that may be kept
	sent func() // called when the caller has sent all

	resends sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // stream, direct, committed or over
	pumping bool

	kept []mem.BufferSlice // from the first message on; what direct sending goes on after
	size int               // of kept, in bytes
	all  bool              // nothing comes after kept

	stream    grpc.ClientStream // of the attempt under way; nil: none
	cancel    context.CancelCauseFunc
	direct    bool           // the pump sends on stream
	failed    *ExchangeError // of the exchange: it ends the call
	committed bool           // there will be no other attempt
	over      bool           // Forward returns
}

// newReplay keeps nothing where limit is 0.
func newReplay(ex Exchange, limit int, sent func()) *replay {
	p := &replay{ex: ex, max: limit, committed: limit == 0, sent: sent}
	p.changed.L = &p.mu
	return p
}

// attach makes an attempt's stream the one that is sent to. cancel ends it with
// a cause.
func (p *replay) attach(s grpc.ClientStream, cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		cancel(p.failed)
		return
	}
	p.stream, p.cancel = s, cancel
	p.direct = len(p.kept) == 0 && !p.all
	if !p.direct {
		p.resends.Go(func() { p.resend(s) })
	}
	if !p.pumping {
		p.pumping = true
		go p.pump()
	}
	p.changed.Broadcast()
}

// detach is called when the attempt has ended.
func (p *replay) detach(s grpc.ClientStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detachLocked(s)
}

func (p *replay) detachLocked(s grpc.ClientStream) {
	if p.stream == s {
		p.stream, p.cancel, p.direct = nil, nil, false
	}
}

// commit says that the attempt under way is the last.
func (p *replay) commit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commitLocked()
}

func (p *replay) commitLocked() {
	p.committed = true
	if p.direct || p.over || p.stream == nil {
		p.dropLocked()
	}
	p.changed.Broadcast()
}

func (p *replay) dropLocked() {
	for _, msg := range p.kept {
		msg.Free()
	}
	p.kept, p.size = nil, 0
}

// whole tells whether all that was sent is still there, and more can be.
func (p *replay) whole() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.committed && p.failed == nil
}

// close ends it all. It does not wait for the pump: see [Exchange].
func (p *replay) close() {
	p.mu.Lock()
	p.over = true
	p.dropLocked()
	p.changed.Broadcast()
	p.mu.Unlock()
	p.resends.Wait() // their streams are over
}

// pump takes the caller's messages until the last, or the call's end.
func (p *replay) pump() {
	for {
		msg, err := p.ex.RecvMsg()
		if err != nil {
			p.end(err)
			return
		}
		s, ok := p.keep(msg)
		if !ok {
			msg.Free()
			return
		}
		if s == nil {
			continue // resend's
		}
		frame := Frame{Data: msg}
		err = s.SendMsg(&frame)
		frame.Free()
		if err != nil && !p.lost(s) { // reading gives the status
			return
		}
	}
}

// keep takes in a message. It gives the stream to send it on, or none where it
// is, now, resend's; false: nobody wants it any more.
func (p *replay) keep(msg mem.BufferSlice) (s grpc.ClientStream, ok bool) {
	n := msg.Len()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.direct && !p.over && (p.committed || p.size+n > p.max) {
		if p.committed && p.stream == nil {
			return nil, false
		}
		p.changed.Wait()
	}
	switch {
	case p.over:
		return nil, false
	case !p.direct:
		p.kept, p.size = append(p.kept, msg), p.size+n
		return nil, true
	case p.committed:
	case p.size+n > p.max:
		p.commitLocked()
	default:
		msg.Ref()
		p.kept, p.size = append(p.kept, msg), p.size+n
	}
	return p.stream, true
}

// lost is for a stream that takes no more. It waits for another one; false:
// there will be none.
func (p *replay) lost(s grpc.ClientStream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detachLocked(s)
	for p.stream == nil && !p.committed && !p.over {
		p.changed.Wait()
	}
	return !p.over && p.stream != nil
}

// end is for the last of the messages, or a failure of the exchange.
func (p *replay) end(err error) {
	if !errors.Is(err, io.EOF) {
		p.fail(&ExchangeError{Err: err})
		return
	}
	p.sent()
	if s := p.complete(); s != nil {
		_ = s.CloseSend() // always nil
	}
}

func (p *replay) fail(err *ExchangeError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err
	if p.cancel != nil {
		p.cancel(err)
	}
}

func (p *replay) failure() *ExchangeError {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// complete gives the stream that is to be closed; nil: that is resend's.
func (p *replay) complete() grpc.ClientStream {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = true
	if !p.direct {
		return nil
	}
	return p.stream
}

// resend sends an attempt what is kept, from the beginning, until the pump can
// go on.
func (p *replay) resend(s grpc.ClientStream) {
	for i := 0; ; i++ {
		msg, ok, all := p.next(s, i)
		if all {
			_ = s.CloseSend() // always nil
		}
		if !ok {
			return
		}
		frame := Frame{Data: msg}
		err := s.SendMsg(&frame)
		frame.Free()
		if err != nil {
			p.detach(s)
			return
		}
	}
}

// next is the message number i for resend, if there is one to be sent by it;
// all: none comes after it, not from the pump either.
func (p *replay) next(s grpc.ClientStream, i int) (msg mem.BufferSlice, ok, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.stream != s {
		return nil, false, false
	}
	if i < len(p.kept) {
		msg = p.kept[i]
		msg.Ref()
		return msg, true, false
	}
	p.direct = true
	if p.committed {
		p.dropLocked()
	}
	p.changed.Broadcast()
	return nil, false, p.all
}
