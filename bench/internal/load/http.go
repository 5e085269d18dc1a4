package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
)

// httpCaller speaks HTTP/1.1 over one kept-alive connection. It writes
// ready-made bytes, so that the driver takes little of the machine from the
// peer that is measured.
type httpCaller struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
	want    []byte
	body    bytes.Buffer
	limited bool        // the connection has its deadline
	unwatch func() bool // ends the watch for the end of the context that it was dialled with
}

// DialHTTP connects a caller that sends the request again and again and expects
// answers with status 200 whose body contains want. The end of ctx cuts off the
// connection, and so does the deadline of the first call's context.
func DialHTTP(ctx context.Context, address string, request *http.Request, want string) (Caller, error) {
	dump, err := httputil.DumpRequestOut(request, true)
	if err != nil {
		return nil, fmt.Errorf("writing out the request: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &httpCaller{
		conn: conn, reader: bufio.NewReader(conn), request: dump, want: []byte(want),
		unwatch: context.AfterFunc(ctx, func() { _ = conn.Close() }),
	}, nil
}

func (c *httpCaller) Call(ctx context.Context) error {
	if !c.limited {
		c.limited = true
		deadline, _ := ctx.Deadline() // none: the zero time, which is no deadline
		if err := c.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	c.body.Reset()
	_, err = io.Copy(&c.body, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading the answer's body: %w", err)
	}
	if response.StatusCode != http.StatusOK || !bytes.Contains(c.body.Bytes(), c.want) {
		return fmt.Errorf("unexpected answer: %s: %.300s", response.Status, c.body.Bytes())
	}
	return nil
}

func (c *httpCaller) Close() error {
	if !c.unwatch() {
		return nil // closed already
	}
	return c.conn.Close()
}
