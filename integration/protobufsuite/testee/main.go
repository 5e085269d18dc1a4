// Command testee is what protobuf's conformance test runner tests: it reads
// requests on standard input and answers them on standard output, each with
// its length before it (four bytes, little-endian). JSON is read and written
// by transcode, with a method for each of the suite's message types; protobuf
// to protobuf, which is none of transcode's business, by dynamicpb. Text
// format is skipped.
//
// Usage: testee PROTOS REPORT, where PROTOS is the runner's include folder.
// What testee is asked, it adds to the file REPORT, for the test to count and
// to make seeds for fuzzing of: one JSON object a line.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: testee PROTOS REPORT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "testee:", err)
		os.Exit(1)
	}
}

func run(protos, report string) (err error) {
	e, err := newEngines(protos)
	if err != nil {
		return err
	}
	// The runner has a testee for each of its suites. A line is one write, so that theirs do not mix.
	file, err := os.OpenFile(report, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return serve(e, bufio.NewReader(os.Stdin), os.Stdout, json.NewEncoder(file))
}

// maxRequest bounds a request, in bytes; the suite's largest has some 100 KB.
const maxRequest = 64 << 20

// serve answers requests until there are no more.
func serve(e *engines, in io.Reader, out io.Writer, asked *json.Encoder) error {
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(size[:])
		if n > maxRequest {
			return fmt.Errorf("a request of %d bytes", n)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		q, err := parseRequest(frame)
		if err != nil {
			return err
		}
		if err := asked.Encode(q); err != nil {
			return err
		}
		a := e.answer(q).append(size[:])
		binary.LittleEndian.PutUint32(a, uint32(len(a)-len(size)))
		if _, err := out.Write(a); err != nil {
			return err
		}
	}
}
