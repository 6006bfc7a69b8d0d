package mcpwire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Stream is one server behind two pipes, one message to a line. Its methods are
// safe for concurrent use. It has one goroutine, which ends with Close.
type Stream struct {
	rwc    io.ReadWriteCloser
	client Client
	frame  int64

	write chan struct{} // holds a value while somebody writes

	mu      sync.Mutex
	waiting map[string]chan *Answer
	fault   error // why it is over
	loose   int   // messages since the last answer that nobody asked for
	done    chan struct{}
	last    sync.WaitGroup // messages that nobody waits for
}

// mostLoose is how many messages a server may send between two answers.
const mostLoose = 1000

// NewStream begins to read. Close ends it. frame bounds each line, in bytes.
func NewStream(rwc io.ReadWriteCloser, c Client, frame int64) *Stream {
	s := &Stream{rwc: rwc, client: c, frame: frame, write: make(chan struct{}, 1), waiting: map[string]chan *Answer{}, done: make(chan struct{})}
	go s.read()
	return s
}

// Close ends the connection and waits until nothing reads from it. What waits
// for an answer gets FaultClosed.
func (s *Stream) Close() error {
	s.end(FaultClosed)
	<-s.done
	s.last.Wait()
	return nil
}

// Err returns why the connection is over, or nil.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// end notes the first reason, lets everybody go, and closes the pipes, so that a
// pending read or write returns.
func (s *Stream) end(why error) {
	s.mu.Lock()
	first := s.fault == nil
	if first {
		s.fault = why
		for id, ch := range s.waiting {
			close(ch)
			delete(s.waiting, id)
		}
	}
	s.mu.Unlock()
	if first {
		_ = s.rwc.Close()
	}
}

func (s *Stream) read() {
	defer close(s.done)
	r := bufio.NewReaderSize(s.rwc, 64<<10)
	for {
		line, err := readLine(r, s.frame)
		if len(line) > 0 {
			if err := s.take(line); err != nil {
				s.end(err)
				return
			}
		}
		if err != nil {
			if !errors.Is(err, FaultFrame) {
				err = FaultClosed
			}
			s.end(err)
			return
		}
	}
}

// readLine returns a line without its end. It keeps no more than limit bytes.
func readLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(line)+len(part)) > limit {
			return nil, FaultFrame
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
				line = line[:len(line)-1]
			}
			return line, err
		}
	}
}

func (s *Stream) take(line []byte) error {
	a, id, ok, err := parseMessage(line)
	if err != nil {
		return err
	}
	key, _ := id.(string)
	s.mu.Lock()
	ch := s.waiting[key]
	if ok && ch != nil {
		delete(s.waiting, key)
		s.loose = 0
		s.mu.Unlock()
		ch <- a // has room for one
		return nil
	}
	s.loose++
	flood := s.loose > mostLoose
	s.mu.Unlock()
	if flood {
		return FaultFlood
	}
	return nil // a notification, a request that nobody answers, or an answer that came too late
}

// Send implements [Link]. When ctx ends first, the server is told.
func (s *Stream) Send(ctx context.Context, p *Peer, m *Message) (*Answer, http.Header, error) {
	text, err := m.Encode(s.client, p)
	if err != nil {
		return nil, nil, err
	}
	ch := make(chan *Answer, 1)
	if m.ID != "" {
		if err := s.expect(m.ID, ch); err != nil {
			return nil, nil, err
		}
	}
	if err := s.put(ctx, append(text, '\n')); err != nil {
		s.forget(m.ID)
		return nil, nil, err
	}
	if m.ID == "" {
		return nil, nil, nil
	}
	select {
	case a, ok := <-ch:
		if !ok {
			return nil, nil, s.Err()
		}
		return a, nil, nil
	case <-ctx.Done():
		s.forget(m.ID)
		if m.Method != "initialize" && m.Method != "server/discover" {
			s.cancelled(p, m.ID)
		}
		return nil, nil, ctx.Err()
	}
}

// expect notes that an answer is waited for. Two requests with one id would get
// each other's.
func (s *Stream) expect(id string, ch chan *Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	if s.waiting[id] != nil {
		return errors.New("mcpwire: two requests with one id")
	}
	s.waiting[id] = ch
	return nil
}

func (s *Stream) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}

// put writes a line. A server that does not read holds up no more than the
// caller's time: then the connection is over, because half a line was sent.
func (s *Stream) put(ctx context.Context, line []byte) error {
	select {
	case s.write <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.write }()
	if err := s.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.end(FaultClosed) })
	_, err := s.rwc.Write(line)
	if !stop() && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.end(FaultClosed)
		return FaultClosed
	}
	return nil
}

// cancelled tells the server that nobody waits any more, if that can be said at
// once.
func (s *Stream) cancelled(p *Peer, id string) {
	m := &Message{Method: "notifications/cancelled", Params: map[string]any{"requestId": id, "reason": "the caller gave up"}}
	text, err := m.Encode(s.client, p)
	if err != nil {
		return
	}
	select {
	case s.write <- struct{}{}:
		s.last.Go(func() { // a server that does not read blocks it until Close
			defer func() { <-s.write }()
			_, _ = s.rwc.Write(append(text, '\n'))
		})
	default:
	}
}
