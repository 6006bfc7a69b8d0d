package mcpadapter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeStdio serves the standard input and output of the process until the
// input ends or ctx does. Nothing else may write to the standard output.
func (a *Adapter) ServeStdio(ctx context.Context) error {
	return a.Stdio(ctx, os.Stdin, os.Stdout)
}

// Stdio serves one connection, one JSON-RPC message to a line, until in ends or
// ctx does. It returns nil when in has ended and every call is answered, each
// within its own deadline; ctx's error when that ends; and at once an error when
// the [PrincipalFunc] knows nobody without an HTTP request.
//
// A line that is no message is answered with an error and the connection goes
// on: -32700 for one that is not JSON, -32600 for one that is longer than
// [Options.MaxRequestBytes], nested too deep, a batch, or no message of JSON-RPC.
//
// If in is an io.Closer it is closed at the end, so that a pending read ends. One
// that cannot be closed keeps a goroutine until its next line.
func (a *Adapter) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	calls := &pending{zero: make(chan struct{}, 1), closed: make(chan struct{})}
	w := &lineWriter{w: out, calls: calls}
	s, err := a.Connect(ctx, &mcp.IOTransport{
		Reader:        &lineReader{r: newLines(in), in: in, out: w, calls: calls, limit: a.opts.MaxRequestBytes},
		Writer:        w,
		MaxLineLength: -1, // lineReader has a limit
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		_ = s.Close()
		<-ended
		return ctx.Err()
	}
}

func newLines(in io.Reader) *bufio.Reader { return bufio.NewReaderSize(in, 4096) }

// pending counts calls without an answer. The SDK gives calls up when its input
// ends; so the end of the input is kept back until there are none.
type pending struct {
	mu     sync.Mutex
	n      int
	zero   chan struct{} // gets a value when n becomes 0
	once   sync.Once
	closed chan struct{}
}

func (p *pending) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n += n; p.n == 0 {
		select {
		case p.zero <- struct{}{}:
		default:
		}
	}
}

func (p *pending) wait() {
	for {
		p.mu.Lock()
		n := p.n
		p.mu.Unlock()
		if n <= 0 {
			return
		}
		select {
		case <-p.zero:
		case <-p.closed:
			return
		}
	}
}

func (p *pending) close() { p.once.Do(func() { close(p.closed) }) }

// A lineWriter lets one message at a time through.
type lineWriter struct {
	mu     sync.Mutex
	w      io.Writer
	calls  *pending
	closed bool
}

// Write writes one message of the SDK. It asks the client nothing, so that a
// message with an id is an answer.
func (l *lineWriter) Write(p []byte) (int, error) {
	n, err := l.write(p)
	if bytes.HasPrefix(p, []byte(`{"jsonrpc":"2.0","id":`)) {
		l.calls.add(-1)
	}
	return n, err
}

func (l *lineWriter) write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, io.ErrClosedPipe
	}
	return l.w.Write(p)
}

// Close lets nothing more through.
func (l *lineWriter) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// maxDepth bounds the nesting of a message. Results may be nested 128 deep.
const maxDepth = 200

// A lineReader hands on lines that are one message each, and answers the
// others itself.
type lineReader struct {
	r     *bufio.Reader
	in    io.Reader
	out   *lineWriter
	calls *pending
	limit int64
	line  []byte // what of the current line is left
}

func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.line) == 0 {
		line, tooLong, err := l.next()
		if err != nil {
			l.calls.wait()
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 && !tooLong {
			continue
		}
		call, bad := judge(line, tooLong)
		if bad != "" {
			if _, err := l.out.write([]byte(`{"jsonrpc":"2.0","id":null,"error":` + bad + "}\n")); err != nil {
				return 0, err
			}
			continue
		}
		if call {
			l.calls.add(1)
		}
		l.line = append(line, '\n')
	}
	n := copy(p, l.line)
	l.line = l.line[n:]
	return n, nil
}

// next returns one line. Of one that is too long only the fact is kept.
func (l *lineReader) next() (line []byte, tooLong bool, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		if int64(len(line)+len(part)) > l.limit {
			line, tooLong = nil, true
		} else if !tooLong {
			line = append(line, part...)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && (len(line) > 0 || tooLong):
			return line, tooLong, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// judge reports whether a line calls for an answer, or the error for one that is
// no message.
func judge(line []byte, tooLong bool) (call bool, bad string) {
	switch {
	case tooLong:
		return false, `{"code":-32600,"message":"the message is too long"}`
	case isBatch(line):
		return false, `{"code":-32600,"message":"batches are not served; send one request at a time"}`
	case deep(line):
		return false, `{"code":-32600,"message":"the message is nested too deep"}`
	case !json.Valid(line):
		return false, `{"code":-32700,"message":"the message is not JSON"}`
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return false, `{"code":-32600,"message":"this is no message of JSON-RPC 2.0"}`
	}
	r, ok := m.(*jsonrpc.Request)
	return ok && r.IsCall(), ""
}

// deep reports whether text nests values over maxDepth. It reads what is not
// JSON as well.
func deep(text []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// Close ends a read that is under way, if in can be closed.
func (l *lineReader) Close() error {
	l.calls.close()
	if c, ok := l.in.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
